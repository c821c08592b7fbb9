/* SPDX-License-Identifier: Apache-2.0
 *
 * From settings to tokens: the cut, the formats, files and folders joined, and every kind of bad
 * input with its sentence.
 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/corpus.h"

static const char *folder;

static int make_folder(void **state) {
    (void)state;
    folder = temp_folder();
    return 0;
}

/* The path of a new file; 8 of them live at a time. */
static const char *file(const char *name, const void *data, size_t bytes) {
    static char paths[8][CADRE_PATH];
    static int next;
    char *path = temp_file(folder, name, data, bytes), *kept = paths[next++ % 8];
    snprintf(kept, CADRE_PATH, "%s", path);
    free(path);
    return kept;
}

static const char *text_file(const char *name, const char *text) {
    return file(name, text, strlen(text));
}

/* Settings with one training file; NULL: none. */
static cadre_data_cfg settings(const char *const *train, const char *const *valid) {
    return (cadre_data_cfg){.train = {*train ? 1 : 0, train},
                            .valid = {*valid ? 1 : 0, valid},
                            .valid_fraction = NAN,
                            .tokenizer = "char",
                            .shuffle = true,
                            .workers = 1};
}

static void expect_run(const cadre_run_of_tokens *run, const int32_t *ids, int64_t count) {
    int32_t largest = 0;
    assert_int_equal(run->count, count);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(cadre_token_at(run, i), ids[i]);
        if (ids[i] > largest) largest = ids[i];
    }
    assert_int_equal(run->largest, largest);
}

/* ---- text ---- */

static void text_is_cut_before_tokenizing(void **state) {
    (void)state;
    const char *paths[] = {text_file("cut.txt", "babacabaz\xC3\xA9"), NULL};
    cadre_data_cfg cfg = settings(paths, paths + 1);
    cadre_corpus *c = NULL;
    cfg.valid_fraction = 0.2;
    OK(cadre_corpus_open(&c, &cfg));
    expect_run(cadre_corpus_train(c), (const int32_t[]){1, 0, 1, 0, 2, 0, 1, 0}, 8);
    expect_run(cadre_corpus_valid(c), (const int32_t[]){3, 4},
               2); /* in the alphabet all the same */
    assert_int_equal(cadre_corpus_vocab(c), 5);
    assert_int_equal(cadre_corpus_train(c)->text_bytes, 8);
    assert_int_equal(cadre_corpus_valid(c)->text_bytes, 3);
    assert_false(cadre_corpus_train(c)->wide);
    cadre_corpus_close(&c);
    cfg.tokenizer = "byte";
    OK(cadre_corpus_open(&c, &cfg));
    expect_run(cadre_corpus_valid(c), (const int32_t[]){'z', 0xC3, 0xA9}, 3);
    cadre_corpus_close(&c);
    assert_null(c);
}

/* 1 - f is not exact, nor is n f: the share is what the decimal number says. */
static void the_share_is_exact(void **state) {
    (void)state;
    static const struct {
        double fraction;
        int64_t n, train;
    } rows[] = {{0.1, 1000, 900}, {0.3, 1000, 700}, {0.9, 100, 10}, {0.07, 100, 93},
                {0.1, 1001, 900}, {0.5, 7, 3},      {0.29, 100, 71}};
    static char text[2000];
    memset(text, 'x', sizeof text);
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        const char *paths[] = {file("share.txt", text, (size_t)rows[i].n), NULL};
        cadre_data_cfg cfg = settings(paths, paths + 1);
        cadre_corpus *c = NULL;
        cfg.valid_fraction = rows[i].fraction;
        OK(cadre_corpus_open(&c, &cfg));
        assert_int_equal(cadre_corpus_train(c)->count, rows[i].train);
        assert_int_equal(cadre_corpus_valid(c)->count, rows[i].n - rows[i].train);
        cadre_corpus_close(&c);
    }
}

static void a_separate_validation_file(void **state) {
    (void)state;
    const char *train[] = {text_file("train.txt", "abcabc")};
    const char *valid[] = {text_file("valid.txt", "dab")};
    cadre_data_cfg cfg = settings(train, valid);
    cadre_corpus *c = NULL, *same = NULL;
    OK(cadre_corpus_open(&c, &cfg));
    expect_run(cadre_corpus_train(c), (const int32_t[]){0, 1, 2, 0, 1, 2}, 6);
    expect_run(cadre_corpus_valid(c), (const int32_t[]){3, 0, 1}, 3);
    OK(cadre_corpus_open_valid(&same, &cfg, cadre_corpus_tokenizer(c)));
    assert_int_equal(cadre_corpus_train(same)->count, 0);
    expect_run(cadre_corpus_valid(same), (const int32_t[]){3, 0, 1}, 3);
    assert_ptr_equal(cadre_corpus_tokenizer(same), cadre_corpus_tokenizer(c));
    cadre_corpus_close(&same);
    FAILS(cadre_corpus_open_valid(&same, &cfg, NULL), CADRE_EDATA, "there is no tokenizer");
    cadre_corpus_close(&c);
    cfg.valid_fraction = 0.1;
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EUSAGE, "both given");
    cfg.valid_fraction = 0;
    OK(cadre_corpus_open(&c, &cfg));
    cadre_corpus_close(&c);
}

static void folders_and_lists_are_joined_in_order(void **state) {
    (void)state;
    char sub[CADRE_PATH], inner[CADRE_PATH];
    OK(cadre_mkdirs(
        cadre_join(inner, sizeof inner, cadre_join(sub, sizeof sub, folder, "texts"), "nothing")));
    free(temp_file(sub, "b.txt", "cc", 2));
    free(temp_file(sub, "a.txt", "ab", 2));
    free(temp_file(sub, ".hidden", "zzz", 3));
    const char *paths[] = {text_file("first.txt", "d"), sub};
    cadre_data_cfg cfg = settings(paths, &(const char *){NULL});
    cadre_corpus *c = NULL, *other = NULL;
    cfg.train.count = 2;
    cfg.valid_fraction = 0;
    OK(cadre_corpus_open(&c, &cfg));
    expect_run(cadre_corpus_train(c), (const int32_t[]){3, 0, 1, 2, 2}, 5);
    const char *one[] = {text_file("joined.txt", "dabcc")};
    cfg.train = (cadre_list){1, one};
    OK(cadre_corpus_open(&other, &cfg));
    assert_int_equal(cadre_corpus_hash(c), cadre_corpus_hash(other));
    cadre_corpus_close(&other);
    one[0] = text_file("changed.txt", "dabcb");
    OK(cadre_corpus_open(&other, &cfg));
    assert_int_not_equal(cadre_corpus_hash(c), cadre_corpus_hash(other));
    cadre_corpus_close(&other);
    cadre_corpus_close(&c);
    one[0] = inner;
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "nothing has no files to read");
}

static void bad_text_is_refused(void **state) {
    (void)state;
    static char ones[2];
    const char *paths[] = {text_file("empty.txt", ""), NULL, NULL};
    cadre_data_cfg cfg = settings(paths, paths + 1);
    cadre_corpus *c = NULL;
    int64_t before = cadre_live_bytes();
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "empty.txt is empty");
    paths[0] = "/nowhere/at/all.txt";
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "cannot read /nowhere/at/all.txt");
    paths[0] = file("bad.txt", "0123456789\xE9tat", 14);
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "bad.txt is not valid UTF-8 at byte 10");
    const char *two[] = {text_file("good.txt", "good text, long enough to be cut"), paths[0]};
    cfg.train = (cadre_list){2, two};
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "bad.txt is not valid UTF-8 at byte 10");
    cfg.train = (cadre_list){1, paths};
    paths[0] = text_file("short.txt", "short");
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "1 tokens, which is below 2");
    cfg.valid_fraction = 0;
    OK(cadre_corpus_open(&c, &cfg));
    cadre_corpus_close(&c);
    paths[1] = file("one.txt", memset(ones, '1', 2), 1);
    cfg.valid = (cadre_list){1, paths + 1};
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "it takes at least 2");
    cfg.train.count = 0;
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EUSAGE, "nothing to train on");
    cfg.format = CADRE_DATA_IDX;
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EUSAGE, "data.format=idx");
    assert_null(c);
    assert_int_equal(cadre_live_bytes(), before);
}

/* ---- Tiny Shakespeare ---- */

/* The hashes were taken once from ids whose SHA-256 are those of shared/data/SOURCES.md. */
static void tiny_shakespeare_by_characters(void **state) {
    (void)state;
    const char *paths[] = {shared_data("text/tinyshakespeare.txt"), NULL};
    if (!paths[0]) skip();
    cadre_data_cfg cfg = settings(paths, paths + 1);
    cadre_corpus *c = NULL;
    OK(cadre_corpus_open(&c, &cfg));
    const cadre_run_of_tokens *train = cadre_corpus_train(c), *valid = cadre_corpus_valid(c);
    assert_int_equal(cadre_corpus_vocab(c), 65);
    assert_int_equal(train->count, 1003854);
    assert_int_equal(valid->count, 111540);
    assert_int_equal(cadre_hash(train->data, 2 * 1003854, 0), UINT64_C(0xc12368029f4823ca));
    assert_int_equal(cadre_hash(valid->data, 2 * 111540, 0), UINT64_C(0x7ad2bbbfa85f890d));
    assert_int_equal(cadre_corpus_hash(c), UINT64_C(0xc12368029f4823ca));
    cadre_corpus_close(&c);
}

static void tiny_shakespeare_by_gpt2(void **state) {
    (void)state;
    static const int32_t first[] = {5962, 22307, 25, 198, 8421, 356, 5120, 597, 2252, 11};
    char text[CADRE_PATH];
    if (!shared_data("text/tinyshakespeare.txt") || !shared_data("gpt2-bpe")) skip();
    snprintf(text, sizeof text, "%s", shared_data("text/tinyshakespeare.txt"));
    const char *paths[] = {text, NULL};
    cadre_data_cfg cfg = settings(paths, paths + 1);
    cadre_corpus *c = NULL;
    cfg.valid_fraction = 0;
    cfg.tokenizer = shared_data("gpt2-bpe");
    OK(cadre_corpus_open(&c, &cfg));
    const cadre_run_of_tokens *train = cadre_corpus_train(c);
    assert_int_equal(cadre_corpus_vocab(c), 50257);
    assert_int_equal(train->count, 338025);
    for (int i = 0; i < 10; i++) assert_int_equal(cadre_token_at(train, i), first[i]);
    assert_int_equal(cadre_hash(train->data, 2 * 338025, 0), UINT64_C(0x182ca92e5023d0fa));
    cadre_corpus_close(&c);
}

/* ---- token files ---- */

static const char *headed(const char *name, int32_t magic, int32_t version, int32_t count,
                          const void *tokens, size_t bytes) {
    static char data[4096];
    int32_t head[256] = {magic, version, count};
    memcpy(data, head, 1024);
    memcpy(data + 1024, tokens, bytes);
    return file(name, data, 1024 + bytes);
}

static void token_files_are_read(void **state) {
    (void)state;
    static const uint16_t narrow[] = {5, 65535, 0, 7, 9};
    static const uint32_t wide[] = {5, 70000, 0};
    const char *paths[3] = {file("raw.bin", narrow, sizeof narrow), NULL, NULL};
    cadre_data_cfg cfg = settings(paths, paths + 2);
    cadre_corpus *c = NULL;
    OK(cadre_corpus_open(&c, &cfg)); /* no validation part unless asked for */
    expect_run(cadre_corpus_train(c), (const int32_t[]){5, 65535, 0, 7, 9}, 5);
    assert_int_equal(cadre_corpus_valid(c)->count, 0);
    assert_int_equal(cadre_corpus_vocab(c), 65536);
    assert_null(cadre_corpus_tokenizer(c));
    assert_int_equal(cadre_corpus_train(c)->text_bytes, 0);
    uint64_t hash = cadre_corpus_hash(c);
    cadre_corpus_close(&c);

    cfg.valid_fraction = 0.4;
    OK(cadre_corpus_open(&c, &cfg));
    expect_run(cadre_corpus_train(c), (const int32_t[]){5, 65535, 0}, 3);
    expect_run(cadre_corpus_valid(c), (const int32_t[]){7, 9}, 2);
    cadre_corpus_close(&c);
    cfg.valid_fraction = 0.2;
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "below 2");
    cfg.valid_fraction = NAN;

    paths[0] = headed("head", 20240520, 1, 5, narrow, sizeof narrow); /* its magic says so */
    OK(cadre_corpus_open(&c, &cfg));
    expect_run(cadre_corpus_train(c), (const int32_t[]){5, 65535, 0, 7, 9}, 5);
    assert_int_equal(cadre_corpus_hash(c), hash);
    cadre_corpus_close(&c);

    cfg.train.count = 2;
    paths[1] = headed("wide.bin", 20240801, 7, 3, wide, sizeof wide);
    OK(cadre_corpus_open(&c, &cfg));
    expect_run(cadre_corpus_train(c), (const int32_t[]){5, 65535, 0, 7, 9, 5, 70000, 0}, 8);
    assert_true(cadre_corpus_train(c)->wide);
    cadre_corpus_close(&c);

    cfg.train.count = 1;
    cfg.dtype = 1;
    paths[0] = file("raw32.bin", wide, sizeof wide);
    OK(cadre_corpus_open(&c, &cfg));
    expect_run(cadre_corpus_train(c), (const int32_t[]){5, 70000, 0}, 3);
    cadre_corpus_close(&c);
    cfg.valid = cfg.train;
    OK(cadre_corpus_open_valid(&c, &cfg, NULL));
    expect_run(cadre_corpus_valid(c), (const int32_t[]){5, 70000, 0}, 3);
    cadre_corpus_close(&c);
}

static void bad_token_files_are_refused(void **state) {
    (void)state;
    static const uint16_t some[] = {1, 2, 3, 4};
    static const uint32_t big[] = {1, 0x80000000u};
    const char *paths[] = {file("odd.bin", "abc", 3), NULL, NULL};
    cadre_data_cfg cfg = settings(paths, paths + 2);
    cadre_corpus *c = NULL;
    int64_t before = cadre_live_bytes();
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "odd.bin has 3 bytes");
    paths[0] = headed("x.bin", 20240522, 1, 4, some, sizeof some);
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "an evaluation file of llm.c");
    paths[0] = headed("x.bin", (int32_t)__builtin_bswap32(20240520), 1, 4, some, sizeof some);
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "big-endian");
    paths[0] = headed("x.bin", 20240520, 2, 4, some, sizeof some);
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "has version 2");
    paths[0] = headed("x.bin", 20240520, 1, 5, some, sizeof some);
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA,
          "has 5 tokens by its header, which takes 1034 bytes; it has 1032");
    paths[0] = headed("x.bin", 20240520, 1, -1, some, sizeof some);
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "-1 tokens");
    paths[0] = headed("x.bin", 20240520, 1, 0, some, 0);
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "nothing is left");
    int32_t magic = 20240520;
    paths[0] = file("x.bin", &magic, 4);
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "has 4 bytes");
    cfg.dtype = 1;
    paths[0] = file("x.bin", big, sizeof big);
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "the token 2147483648");
    cfg.dtype = 0;
    cfg.train.count = 2;
    paths[0] = file("x.bin", some, sizeof some);
    paths[1] = text_file("plain.txt", "text");
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "files joined are of one kind");
    cfg.train.count = 1;
    cfg.valid = (cadre_list){1, paths + 1};
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "training and validation data are of one kind");
    cfg.format = CADRE_DATA_TOKENS;
    OK(cadre_corpus_open(&c, &cfg));
    expect_run(cadre_corpus_valid(c), (const int32_t[]){0x6574, 0x7478}, 2);
    cadre_corpus_close(&c);
    assert_int_equal(cadre_live_bytes(), before);
}

static void a_tokenizer_beside_is_taken_up(void **state) {
    (void)state;
    static const uint16_t tokens[] = {0, 1, 1, 0};
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\xC3\xA9\":1},\"merges\":[]}}";
    static const char less[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}";
    const char *paths[] = {file("set.bin", tokens, sizeof tokens), NULL, NULL};
    text_file("set.tokenizer.json", json);
    cadre_data_cfg cfg = settings(paths, paths + 2);
    cadre_corpus *c = NULL;
    OK(cadre_corpus_open(&c, &cfg));
    assert_string_equal(cadre_tokenizer_kind(cadre_corpus_tokenizer(c)), "char");
    assert_int_equal(cadre_corpus_vocab(c), 2);
    assert_int_equal(cadre_corpus_train(c)->text_bytes, 6);
    cadre_corpus_close(&c);
    paths[1] = file("more.bin", tokens, sizeof tokens);
    text_file("more.tokenizer.json", less);
    cfg.train.count = 2;
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA, "differ; files joined have one tokenizer");
    text_file("set.tokenizer.json", less);
    FAILS(cadre_corpus_open(&c, &cfg), CADRE_EDATA,
          "has the token 1, out of range of its tokenizer");
}

static void every_failure_leaves_nothing(void **state) {
    (void)state;
    const char *train[] = {text_file("f1.txt", "some text to train on"),
                           text_file("f2.txt", "and more of it")};
    cadre_data_cfg cfg = settings(train, &(const char *){NULL});
    cfg.train.count = 2;
    int64_t before = cadre_live_bytes(), k = 0;
    for (bool failed = true; failed; k++) {
        cadre_corpus *c = NULL;
        cadre_fault_at(k);
        cadre_status st = cadre_corpus_open(&c, &cfg);
        failed = cadre_fault_hit();
        cadre_fault_at(-1);
        assert_int_equal(st, failed ? CADRE_ERESOURCE : CADRE_OK);
        cadre_corpus_close(&c);
        assert_int_equal(cadre_live_bytes(), before);
    }
    assert_true(k > 15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_cut_before_tokenizing),
        cmocka_unit_test(the_share_is_exact),
        cmocka_unit_test(a_separate_validation_file),
        cmocka_unit_test(folders_and_lists_are_joined_in_order),
        cmocka_unit_test(bad_text_is_refused),
        cmocka_unit_test(tiny_shakespeare_by_characters),
        cmocka_unit_test(tiny_shakespeare_by_gpt2),
        cmocka_unit_test(token_files_are_read),
        cmocka_unit_test(bad_token_files_are_refused),
        cmocka_unit_test(a_tokenizer_beside_is_taken_up),
        cmocka_unit_test(every_failure_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
