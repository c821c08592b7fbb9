/* SPDX-License-Identifier: Apache-2.0
 *
 * Text into token files and back: llm.c's layout byte by byte, the tokenizer beside it, the
 * published sum of GPT-2's tokens of Tiny Shakespeare, and everything that is refused.
 */
#include "support/check.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "data/corpus.h"
#include "data/pack.h"

static const char *folder;

/* The process ends right before its k-th file is renamed or removed; negative: never. */
static int ends_at = -1;

static void end_or_go_on(void) {
    if (ends_at == 0) _exit(9);
    if (ends_at > 0) ends_at--;
}

int rename(const char *from, const char *to) {
    end_or_go_on();
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlink(const char *path) {
    end_or_go_on();
    return unlinkat(AT_FDCWD, path, 0);
}

static int make_folder(void **state) {
    (void)state;
    folder = temp_folder();
    return 0;
}

/* In the folder of the tests; 64 of them live at a time. */
static const char *at(const char *name) {
    static char paths[64][CADRE_PATH];
    static int next;
    return cadre_join(paths[next++ % 64], CADRE_PATH, folder, name);
}

static const char *file(const char *name, const void *data, size_t bytes) {
    free(temp_file(folder, name, data, bytes));
    return at(name);
}

static const char *text_file(const char *name, const char *text) {
    return file(name, text, strlen(text));
}

static cadre_status pack(const char *tokenizer, const char *text, const char *target) {
    cadre_packed packed;
    const cadre_list texts = {.count = 1, .at = &text};
    return cadre_data_pack(tokenizer, &texts, target, &packed);
}

static void expect_file(const char *path, const void *data, size_t bytes) {
    cadre_map map;
    OK(cadre_map_open(&map, path));
    assert_int_equal(map.bytes, bytes);
    assert_memory_equal(map.data, data, bytes);
    cadre_map_close(&map);
}

static void texts_are_joined_in_llm_c_format(void **state) {
    (void)state;
    const char *at_texts[] = {text_file("one.txt", "ba"), text_file("two.txt", "c\xC3\xA9")};
    const cadre_list texts = {.count = 2, .at = at_texts};
    uint8_t want[1024 + 8] = {[1024] = 1, [1026] = 0, [1028] = 2, [1030] = 3};
    const int32_t head[] = {20240520, 1, 4};
    cadre_packed packed;
    memcpy(want, head, sizeof head);
    OK(cadre_data_pack("char", &texts, at("joined.bin"), &packed));
    assert_int_equal(packed.tokens, 4);
    assert_int_equal(packed.text_bytes, 5);
    assert_string_equal(packed.tokenizer, at("joined.tokenizer.json"));
    expect_file(at("joined.bin"), want, sizeof want);
    const char *again[] = {at_texts[1], at_texts[0]};
    OK(cadre_data_pack("char", &(cadre_list){.count = 2, .at = again}, at("joined.bin"), &packed));
    memcpy(want + 1024, (const uint16_t[]){2, 3, 1, 0}, 8);
    expect_file(at("joined.bin"), want, sizeof want);
}

/* What a run sees of a packed text is what it sees of the text. */
static void a_corpus_takes_file_and_tokenizer(void **state) {
    (void)state;
    static const char *const specs[] = {"char", "byte"};
    const char *text = text_file("plain.txt", "it was, and it was so; it is no more\n");
    for (int i = 0; i < CADRE_COUNT(specs); i++) {
        const char *target = at("plain.bin");
        cadre_data_cfg cfg = {.train = {1, &text}, .valid_fraction = 0, .tokenizer = specs[i]};
        cadre_corpus *c = NULL, *same = NULL;
        OK(pack(specs[i], text, target));
        OK(cadre_corpus_open(&c, &cfg));
        cfg.train.at = &target;
        cfg.tokenizer = "char";
        OK(cadre_corpus_open(&same, &cfg));
        assert_true(cadre_corpus_hash(c) == cadre_corpus_hash(same));
        assert_string_equal(cadre_tokenizer_kind(cadre_corpus_tokenizer(same)), specs[i]);
        assert_int_equal(cadre_corpus_vocab(c), cadre_corpus_vocab(same));
        assert_int_equal(cadre_corpus_train(same)->text_bytes, 37);
        cadre_corpus_close(&same);
        cadre_corpus_close(&c);
    }
}

static json_t *shown(const char *path, bool wide) {
    cadre_text to = {0};
    json_error_t error;
    OK(cadre_data_show(path, wide, true, &to));
    json_t *root = json_loads(to.at, 0, &error);
    assert_non_null(root);
    cadre_text_free(&to);
    assert_int_equal(json_integer_value(json_object_get(root, "schema")), 1);
    return root;
}

static void expect_facts(json_t *root, const char *format, const char *dtype, int64_t tokens,
                         int largest) {
    assert_string_equal(json_string_value(json_object_get(root, "format")), format);
    assert_string_equal(json_string_value(json_object_get(root, "dtype")), dtype);
    assert_int_equal(json_integer_value(json_object_get(root, "tokens")), tokens);
    assert_int_equal(json_integer_value(json_object_get(root, "largest_id")), largest);
}

static void expect_word(json_t *root, const char *key, const char *want) {
    const char *word = json_string_value(json_object_get(root, key));
    if (want)
        assert_string_equal(word, want);
    else
        assert_null(word);
}

static void show_says_what_a_file_holds(void **state) {
    (void)state;
    static const uint32_t ids[] = {7, 0, 70000, 3};
    json_t *root = shown(file("bare.bin", ids, sizeof ids), true);
    expect_facts(root, "headerless", "uint32", 4, 70000);
    expect_word(root, "tokenizer", NULL);
    json_decref(root);
    root = shown(at("bare.bin"), false);
    expect_facts(root, "headerless", "uint16", 8, 4464);
    json_decref(root);
    OK(pack("char", text_file("seen.txt", "abc\xC3\xA9"), at("seen.bin")));
    root = shown(at("seen.bin"), false);
    expect_facts(root, "llm.c", "uint16", 4, 3);
    expect_word(root, "tokenizer_kind", "char");
    expect_word(root, "text", "abc\xC3\xA9");
    /* printf '\0\0\1\0\2\0\3\0' | sha256sum */
    expect_word(root, "sha256", "245bbd9d484dcf27c714e2690cd6544973de5d54aa9cd82eab23d6046a65faa8");
    assert_int_equal(json_integer_value(json_object_get(root, "vocab")), 4);
    assert_int_equal(json_array_size(json_object_get(root, "first_ids")), 4);
    json_decref(root);
}

/* Sixteen bytes end inside a character; as text only whole ones are said. */
static void a_text_cut_inside_a_character(void **state) {
    (void)state;
    OK(pack("byte", text_file("cut.txt", "\x01\n3456789012345\xC3\xA9 more"), at("cut.bin")));
    json_t *root = shown(at("cut.bin"), false);
    expect_word(root, "text", "\x01\n3456789012345");
    json_decref(root);
    cadre_text to = {0};
    OK(cadre_data_show(at("cut.bin"), false, false, &to));
    assert_non_null(strstr(to.at, "\"\\x01\\n3456789012345\"\n"));
    cadre_text_free(&to);
}

/* Quotation marks, backslashes and every control, those of two bytes (here CSI) too. */
static void a_text_is_quoted(void **state) {
    (void)state;
    cadre_text to = {0};
    OK(pack("char", text_file("odd.txt", "a\"\\\x1B[\x7F\xC2\x9B\xC2\x80\xC2\xA0\xC3\x9B"),
            at("odd.bin")));
    OK(cadre_data_show(at("odd.bin"), false, false, &to));
    assert_non_null(strstr(to.at, "  \"a\\\"\\\\\\x1b[\\x7f\\u009b\\u0080\xC2\xA0\xC3\x9B\"\n"));
    cadre_text_free(&to);
}

static void shakespeare_in_gpt2_tokens(void **state) {
    (void)state;
    static const int first[] = {5962, 22307, 25, 198, 8421, 356, 5120, 597, 2252, 11};
    char bpe[CADRE_PATH];
    if (!shared_data("gpt2-bpe")) skip();
    snprintf(bpe, sizeof bpe, "%s", shared_data("gpt2-bpe"));
    OK(pack(bpe, shared_data("text/tinyshakespeare.txt"), at("t.bin")));
    json_t *root = shown(at("t.bin"), false);
    expect_facts(root, "llm.c", "uint16", 338025, 50255);
    expect_word(root, "sha256", "25c01b32b32f41897a6359dd222ec114992dc30c357bcafbfe6c56672f76cd31");
    assert_int_equal(json_integer_value(json_object_get(root, "vocab")), 50257);
    for (int i = 0; i < CADRE_COUNT(first); i++)
        assert_int_equal(
            json_integer_value(json_array_get(json_object_get(root, "first_ids"), (size_t)i)),
            first[i]);
    json_decref(root);
}

/* A tokenizer.json of single characters, as many as asked for. */
static const char *wide_tokenizer(int ids) {
    cadre_text json = {0};
    cadre_text_add(&json, "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {");
    for (int i = 0; i < ids; i++) {
        int point = 0x10000 + i; /* in UTF-16, as JSON has it */
        cadre_text_add(&json, "%s\"\\u%04x\\u%04x\": %d", i ? "," : "",
                       0xD800 + ((point - 0x10000) >> 10), 0xDC00 + ((point - 0x10000) & 0x3FF), i);
    }
    cadre_text_add(&json, "}}}");
    const char *path = file("wide.json", json.at, json.length);
    cadre_text_free(&json);
    return path;
}

static void what_is_refused_leaves_what_was_there(void **state) {
    (void)state;
    const char *text = text_file("in.txt", "some text"), *target = at("kept.bin");
    OK(pack("byte", text, target));
    cadre_map before;
    OK(cadre_map_open(&before, target));
    FAILS(pack("none.json", text, target), CADRE_EDATA, "none.json");
    FAILS(pack("byte", at("missing.txt"), target), CADRE_EDATA, "missing.txt");
    FAILS(pack("byte", text_file("nothing.txt", ""), target), CADRE_EDATA, "is empty");
    FAILS(pack("char", file("odd.txt", "ab\xFF", 3), target), CADRE_EDATA, "odd.txt");
    FAILS(pack("byte", text, text), CADRE_EUSAGE, "one of the texts");
    FAILS(pack("byte", target, at("twice.bin")), CADRE_EDATA, "token file already");
    FAILS(pack("byte", text, folder), CADRE_EUSAGE, "is a folder");
    FAILS(pack("byte", text, ""), CADRE_EUSAGE, "no name to write");
    FAILS(pack("byte", text, at("no/such.bin")), CADRE_ERESOURCE, "no/such.bin");
    FAILS(pack(at("kept.tokenizer.json"), text, at("kept.tokenizer.json")), CADRE_EUSAGE,
          "tokenizer itself");
    FAILS(pack(wide_tokenizer(65537), text, target), CADRE_EUSAGE, "65537 ids");
    const char *astral = text_file("astral.txt", "\xF0\x90\x80\x81\xF0\x9F\xBF\xBF");
    OK(pack(wide_tokenizer(65536), astral, at("edge.bin")));
    json_t *root = shown(at("edge.bin"), false);
    expect_facts(root, "llm.c", "uint16", 2, 65535);
    json_decref(root);
    expect_file(target, before.data, before.bytes);
    cadre_map_close(&before);
    cadre_text to = {0};
    FAILS(cadre_data_show(text, false, false, &to), CADRE_EDATA, "is no token file");
    FAILS(cadre_data_show(at("missing.bin"), false, false, &to), CADRE_EDATA, "missing.bin");
    text_file("bad.tokenizer.json", "{}");
    FAILS(cadre_data_show(file("bad.bin", "ab", 2), false, false, &to), CADRE_EDATA, "no model");
    assert_true(rename(at("kept.tokenizer.json"), at("bad.tokenizer.json")) == 0);
    FAILS(cadre_data_show(at("bad.bin"), false, false, &to), CADRE_EDATA, "out of range");
    cadre_text_free(&to);
}

/* Whatever fails, both files are the old ones or both are the new ones, and no memory is left. */
static void every_failure_leaves_a_pair(void **state) {
    (void)state;
    const char *texts[] = {text_file("old.txt", "abc"), text_file("new.txt", "wxyz")};
    const char *target = at("pair.bin");
    bool replaced = false;
    for (int k = 0; !replaced; k++) {
        OK(pack("char", texts[0], target));
        int64_t live = cadre_live_bytes();
        cadre_fault_at(k);
        cadre_status st = pack("char", texts[1], target);
        replaced = !cadre_fault_hit();
        cadre_fault_at(-1);
        assert_true(replaced ? st == CADRE_OK : st == CADRE_ERESOURCE);
        assert_true(cadre_live_bytes() == live);
        json_t *root = shown(target, false);
        expect_word(root, "text", replaced ? "wxyz" : "abc");
        json_decref(root);
    }
}

/* Ended at any moment: no tokens, or tokens beside the tokenizer that they are of. */
static void an_interruption_leaves_no_mixture(void **state) {
    (void)state;
    const char *texts[] = {text_file("before.txt", "abc"), text_file("after.txt", "wxyz")};
    const char *target = at("ended.bin");
    int code = 9, ended = 0;
    for (; code == 9; ended++) {
        OK(pack("char", texts[0], target));
        pid_t child = fork();
        if (child == 0) {
            ends_at = ended;
            _exit(pack("char", texts[1], target) == CADRE_OK ? 0 : 1);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        code = WEXITSTATUS(status);
        if (!cadre_path_is_file(target)) continue;
        json_t *root = shown(target, false);
        const char *text = json_string_value(json_object_get(root, "text"));
        expect_word(root, "text", strcmp(text, "abc") == 0 ? "abc" : "wxyz");
        json_decref(root);
    }
    assert_int_equal(code, 0);
    assert_true(ended > 4); /* two written, the old tokens removed, two renamed */
    json_t *root = shown(target, false);
    expect_word(root, "text", "wxyz");
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_joined_in_llm_c_format),
        cmocka_unit_test(a_corpus_takes_file_and_tokenizer),
        cmocka_unit_test(show_says_what_a_file_holds),
        cmocka_unit_test(a_text_cut_inside_a_character),
        cmocka_unit_test(a_text_is_quoted),
        cmocka_unit_test(shakespeare_in_gpt2_tokens),
        cmocka_unit_test(what_is_refused_leaves_what_was_there),
        cmocka_unit_test(every_failure_leaves_a_pair),
        cmocka_unit_test(an_interruption_leaves_no_mixture),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
