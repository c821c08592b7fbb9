/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers: round trips on any text, GPT-2's golden rows, tokenizer.json written and read back,
 * and what is refused. The ids of all three kinds on Tiny Shakespeare were compared once with those
 * that Hugging Face `tokenizers` 0.23.3 gives for the files written here.
 */
#include "support/check.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/rng.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

static uint32_t drawn;

static uint32_t draw(uint32_t below) {
    return (uint32_t)cadre_below((uint64_t)cadre_philox_draw(7, drawn++, 0).v[0] << 32, below);
}

/* Characters of all lengths, blanks of all kinds and runs of them, letters with and without marks.
 */
static size_t random_text(char *to, size_t room) {
    static const uint32_t special[] = {' ',    ' ',    '\n',    '\r',   '\t',   0x85,
                                       0xA0,   0xAD,   0x180E,  0x2003, 0x2028, 0x3000,
                                       0xFEFF, 0x0301, 0x1F600, '\''};
    size_t n = 0;
    while (n + 4 <= room) {
        uint32_t point;
        switch (draw(5)) {
        case 0:
            point = special[draw(CADRE_COUNT(special))];
            break;
        case 1:
            point = 'a' + draw(26);
            break;
        case 2:
            point = 1 + draw(0x7F);
            break;
        case 3:
            point = 1 + draw(0x2FF);
            break;
        default:
            point = 1 + draw(0x10FFFF);
            break;
        }
        if (point >= 0xD800 && point < 0xE000) continue;
        n += (size_t)cadre_utf8_put(to + n, point);
    }
    return n;
}

static size_t random_bytes(char *to, size_t room) {
    for (size_t i = 0; i < room; i++) to[i] = (char)draw(256);
    return room;
}

static void expect_round_trip(const cadre_tokenizer *t, const char *text, size_t bytes) {
    cadre_tokens tokens = {0};
    cadre_text back = {0};
    OK(cadre_tokenizer_encode(t, text, bytes, "text", &tokens));
    for (int64_t i = 0; i < tokens.count; i++) {
        assert_true(tokens.ids[i] >= 0 && tokens.ids[i] < cadre_tokenizer_vocab(t));
        OK(cadre_tokenizer_decode(t, tokens.ids[i], &back));
    }
    assert_int_equal(back.length, bytes);
    if (bytes) assert_memory_equal(back.at, text, bytes);
    cadre_text_free(&back);
    cadre_tokens_free(&tokens);
}

static void expect_same_ids(const cadre_tokenizer *a, const cadre_tokenizer *b, const char *text,
                            size_t bytes) {
    cadre_tokens x = {0}, y = {0};
    OK(cadre_tokenizer_encode(a, text, bytes, "text", &x));
    OK(cadre_tokenizer_encode(b, text, bytes, "text", &y));
    assert_int_equal(x.count, y.count);
    if (x.count) assert_memory_equal(x.ids, y.ids, (size_t)x.count * sizeof *x.ids);
    cadre_tokens_free(&x);
    cadre_tokens_free(&y);
}

/* Written and read back: the same kind, size and ids, and the same text when written again. */
static void expect_json_round_trip(const cadre_tokenizer *t, const char *text, size_t bytes) {
    cadre_text json = {0}, again = {0};
    cadre_tokenizer *back = NULL;
    OK(cadre_tokenizer_to_json(t, &json));
    OK(cadre_tokenizer_from_json(&back, json.at, json.length, "tokenizer.json"));
    assert_string_equal(cadre_tokenizer_kind(back), cadre_tokenizer_kind(t));
    assert_int_equal(cadre_tokenizer_vocab(back), cadre_tokenizer_vocab(t));
    expect_same_ids(t, back, text, bytes);
    OK(cadre_tokenizer_to_json(back, &again));
    assert_string_equal(json.at, again.at);
    cadre_tokenizer_close(&back);
    cadre_text_free(&again);
    cadre_text_free(&json);
}

static cadre_tokenizer *open_text(const char *spec, const char *text) {
    cadre_tokenizer *t = NULL;
    OK(cadre_tokenizer_open(&t, spec, text, strlen(text), "the text"));
    return t;
}

static cadre_tokenizer *open_gpt2(void) {
    const char *folder = shared_data("gpt2-bpe");
    cadre_tokenizer *t = NULL;
    if (!folder) skip();
    OK(cadre_tokenizer_open(&t, folder, NULL, 0, ""));
    return t;
}

/* ---- UTF-8 ---- */

static void utf8_knows_what_is_valid(void **state) {
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xC0\x80",
                                      "\xC3",
                                      "\xE0\x80\x80",
                                      "\xED\xA0\x80",
                                      "\xF4\x90\x80\x80",
                                      "\xF8\x80\x80\x80",
                                      "\xE2\x82"};
    uint32_t point = 0;
    for (int i = 0; i < CADRE_COUNT(bad); i++) {
        char text[32];
        int n = snprintf(text, sizeof text, "12345678abc%s", bad[i]);
        assert_int_equal(cadre_utf8_valid(text, (size_t)n), 11);
    }
    for (uint32_t p = 0; p < 0x110000; p += 1 + p / 64) {
        char bytes[4];
        if (p >= 0xD800 && p < 0xE000) continue;
        int n = cadre_utf8_put(bytes, p);
        assert_int_equal(cadre_utf8_next(bytes, (size_t)n, &point), n);
        assert_int_equal(point, p);
        assert_int_equal(cadre_utf8_valid(bytes, (size_t)n), n);
    }
    assert_int_equal(cadre_utf8_count("a\xC3\xA9\xE2\x82\xAC", 6), 3);
    assert_int_equal(cadre_utf8_offset("a\xC3\xA9\xE2\x82\xAC", 6, 2), 3);
    assert_int_equal(cadre_utf8_offset("a\xC3\xA9\xE2\x82\xAC", 6, 3), 6);
}

/* ---- char and byte ---- */

static void char_ids_are_in_code_point_order(void **state) {
    (void)state;
    cadre_tokenizer *t = open_text("char", "b\xC3\xA9 a\xE2\x82\xAC\n\xF0\x9F\x98\x80 ab");
    cadre_tokens tokens = {0};
    static const int32_t want[] = {0, 1, 2, 3, 4, 5, 6};
    assert_int_equal(cadre_tokenizer_vocab(t), 7);
    assert_string_equal(cadre_tokenizer_kind(t), "char");
    OK(cadre_tokenizer_encode(t, "\n ab\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 13, "x", &tokens));
    assert_int_equal(tokens.count, 7);
    assert_memory_equal(tokens.ids, want, sizeof want);
    cadre_tokens_free(&tokens);
    FAILS(cadre_tokenizer_encode(t, "ab\xC3\xB6", 4, "--prompt", &tokens), CADRE_EDATA,
          "--prompt has the character U+00F6 (\xC3\xB6) at byte 2");
    cadre_tokenizer_close(&t);
}

static void char_refuses_what_is_no_text(void **state) {
    (void)state;
    cadre_tokenizer *t = NULL;
    FAILS(cadre_tokenizer_open(&t, "char", "abc\xFF\xFE", 5, "book.txt"), CADRE_EDATA,
          "book.txt is not valid UTF-8 at byte 3 (bytes FF FE)");
    FAILS(cadre_tokenizer_open(&t, "char", "ab\0c", 4, "book.txt"), CADRE_EDATA,
          "book.txt has a zero byte at byte 2");
    assert_null(t);
    t = open_text("char", "abc");
    cadre_tokens tokens = {0};
    FAILS(cadre_tokenizer_encode(t, "a\xC3", 2, "book.txt", &tokens), CADRE_EDATA, "at byte 1");
    cadre_tokenizer_close(&t);
}

static void char_keeps_mark_and_line_ends(void **state) {
    (void)state;
    cadre_tokenizer *t = open_text("char", "\xEF\xBB\xBF"
                                           "a\r\nb");
    assert_int_equal(cadre_tokenizer_vocab(t), 5);
    expect_round_trip(t,
                      "\xEF\xBB\xBF"
                      "a\r\nb\r\n",
                      9);
    cadre_tokenizer_close(&t);
}

static void char_and_byte_round_trips(void **state) {
    (void)state;
    static char text[5000];
    cadre_tokenizer *byte = open_text("byte", "");
    assert_int_equal(cadre_tokenizer_vocab(byte), 256);
    for (int i = 0; i < 20; i++) {
        size_t n = random_text(text, sizeof text - 1 - 100 * (size_t)i);
        cadre_tokenizer *t = NULL;
        OK(cadre_tokenizer_open(&t, "char", text, n, "text"));
        expect_round_trip(t, text, n);
        expect_json_round_trip(t, text, n);
        cadre_tokenizer_close(&t);
        n = random_bytes(text, sizeof text);
        expect_round_trip(byte, text, n);
        expect_json_round_trip(byte, text, n);
    }
    cadre_tokens tokens = {0};
    OK(cadre_tokenizer_encode(byte,
                              "\xFF"
                              "a",
                              2, "x", &tokens));
    assert_int_equal(tokens.ids[0], 255);
    assert_int_equal(tokens.ids[1], 'a');
    cadre_tokens_free(&tokens);
    cadre_tokenizer_close(&byte);
}

static void unknown_ids_are_refused(void **state) {
    (void)state;
    cadre_tokenizer *t = open_text("char", "abc");
    cadre_text to = {0};
    FAILS(cadre_tokenizer_decode(t, 3, &to), CADRE_EDATA, "token 3 is unknown");
    FAILS(cadre_tokenizer_decode(t, -1, &to), CADRE_EDATA, "token -1 is unknown");
    cadre_text_free(&to);
    cadre_tokenizer_close(&t);
}

/* ---- byte-level BPE ---- */

static void gpt2_gives_the_golden_ids(void **state) {
    (void)state;
    cadre_tokenizer *t = open_gpt2();
    char line[1 << 16];
    FILE *from = fopen(shared_data("gpt2-bpe/gpt2-bpe-golden.jsonl"), "r");
    int rows = 0;
    assert_non_null(from);
    for (; fgets(line, sizeof line, from); rows++) {
        json_t *row = json_loads(line, 0, NULL), *text = json_object_get(row, "text");
        json_t *ids = json_object_get(row, "ids");
        cadre_tokens tokens = {0};
        OK(cadre_tokenizer_encode(t, json_string_value(text), json_string_length(text), "golden",
                                  &tokens));
        assert_int_equal(tokens.count, json_array_size(ids));
        for (int64_t i = 0; i < tokens.count; i++)
            assert_int_equal(tokens.ids[i], json_integer_value(json_array_get(ids, (size_t)i)));
        expect_round_trip(t, json_string_value(text), json_string_length(text));
        cadre_tokens_free(&tokens);
        json_decref(row);
    }
    fclose(from);
    assert_int_equal(rows, 44);
    cadre_tokenizer_close(&t);
}

static void gpt2_round_trips(void **state) {
    (void)state;
    static char text[20000];
    cadre_tokenizer *t = open_gpt2();
    assert_int_equal(cadre_tokenizer_vocab(t), 50257);
    assert_string_equal(cadre_tokenizer_kind(t), "bpe");
    for (int i = 0; i < 10; i++) {
        size_t n = random_text(text, sizeof text);
        expect_round_trip(t, text, n);
        expect_round_trip(t, text, random_bytes(text, sizeof text));
    }
    memset(text, ' ', sizeof text);
    expect_round_trip(t, text, sizeof text);
    memset(text, 'a', sizeof text);
    expect_round_trip(t, text, sizeof text);
    size_t n = random_text(text, sizeof text);
    expect_json_round_trip(t, text, n);
    cadre_text end = {0};
    OK(cadre_tokenizer_decode(t, 50256, &end));
    assert_string_equal(end.at, "<|endoftext|>");
    cadre_text_free(&end);
    cadre_tokenizer_close(&t);
}

static cadre_tokenizer *open_json(const char *json) {
    cadre_tokenizer *t = NULL;
    OK(cadre_tokenizer_from_json(&t, json, strlen(json), "t.json"));
    return t;
}

static void expect_ids(const cadre_tokenizer *t, const char *text, const char *want) {
    cadre_tokens tokens = {0};
    cadre_text got = {0};
    OK(cadre_tokenizer_encode(t, text, strlen(text), "text", &tokens));
    for (int64_t i = 0; i < tokens.count; i++) cadre_text_add(&got, "%d ", tokens.ids[i]);
    assert_string_equal(got.at ? got.at : "", want);
    cadre_text_free(&got);
    cadre_tokens_free(&tokens);
}

#define LLAMA                                                                                      \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"        \
    "\"(?i:'s|'t)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}|\\\\s+\"},"                \
    "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","                         \
    "\"add_prefix_space\":false,\"use_regex\":false}]}"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define SMALL(pre, vocab, merges, more)                                                            \
    "{\"added_tokens\":[{\"id\":20,\"content\":\"<|end|>\",\"special\":true}],"                    \
    "\"pre_tokenizer\":" pre ",\"model\":{\"type\":\"BPE\",\"vocab\":" vocab                       \
    ",\"merges\":" merges more "}}"
#define VOCAB                                                                                      \
    "{\"a\":0,\"b\":1,\"c\":2,\"\xC4\xA0\":3,\"ab\":4,\"bc\":5,\"abc\":6,\"\xC4\xA0"               \
    "ab\":7,"                                                                                      \
    "\"1\":8,\"11\":9,\"'\":10,\"S\":11,\"'S\":12}"

static void merges_go_by_rank(void **state) {
    (void)state;
    cadre_tokenizer *t = open_json(SMALL(BYTES, VOCAB, "[\"b c\",\"a b\",\"a bc\"]", ""));
    assert_int_equal(cadre_tokenizer_vocab(t), 21);
    expect_ids(t, "abc", "6 ");
    expect_ids(t, "ab abab", "4 3 4 4 ");
    expect_ids(t, "", "");
    cadre_text end = {0};
    OK(cadre_tokenizer_decode(t, 20, &end));
    assert_string_equal(end.at, "<|end|>");
    FAILS(cadre_tokenizer_decode(t, 15, &end), CADRE_EDATA, "token 15 is unknown");
    cadre_text_free(&end);
    cadre_tokens tokens = {0};
    FAILS(cadre_tokenizer_encode(t, "abz", 3, "book.txt", &tokens), CADRE_EDATA,
          "book.txt has the byte 0x7A at byte 2");
    cadre_tokenizer_close(&t);

    t = open_json(SMALL(BYTES, VOCAB, "[[\"a\",\"b\"],[\"b\",\"c\"],[\"\xC4\xA0\",\"ab\"]]", ""));
    expect_ids(t, "abc abc", "4 2 7 2 ");
    cadre_tokenizer_close(&t);

    t = open_json(SMALL(BYTES, VOCAB, "[\"a b\"]", ",\"ignore_merges\":true"));
    expect_ids(t, "abc abc", "6 3 4 2 ");
    cadre_tokenizer_close(&t);
}

static void sequences_split_first(void **state) {
    (void)state;
    cadre_tokenizer *t =
        open_json(SMALL(LLAMA, VOCAB, "[\"1 1\",\"' S\",\"\xC4\xA0 ab\",\"a b\"]", ""));
    expect_ids(t, "11111", "9 8 9 "); /* 111 11 */
    expect_ids(t, "a'S", "0 12 ");    /* whatever the case */
    expect_ids(t, "ab ab", "4 7 ");
    cadre_tokenizer_close(&t);
}

static void torchtitan_debug_tokenizer_is_read(void **state) {
    (void)state;
    const char *path = shared_data("hf-tokenizer/torchtitan-debug-tokenizer.json");
    cadre_tokenizer *t = NULL;
    cadre_tokens tokens = {0};
    cadre_text zero = {0};
    if (!path) skip();
    OK(cadre_tokenizer_open(&t, path, NULL, 0, ""));
    assert_int_equal(cadre_tokenizer_vocab(t), 2020);
    expect_ids(t, "The,cat", "84 104 101 44 99 97 116 "); /* no merges: one token a byte */
    OK(cadre_tokenizer_decode(t, 0, &zero));              /* a vocabulary with a zero byte */
    assert_int_equal(zero.length, 1);
    assert_int_equal(zero.at[0], 0);
    FAILS(cadre_tokenizer_encode(t, "a b", 3, "text", &tokens), CADRE_EDATA,
          "the byte 0x20 at byte 1, for which the tokenizer has no token");
    cadre_text_free(&zero);
    cadre_tokenizer_close(&t);
}

/* ---- files that are refused ---- */

static void refuse(const char *json, const char *part) {
    cadre_tokenizer *t = NULL;
    int64_t before = cadre_live_bytes();
    FAILS(cadre_tokenizer_from_json(&t, json, strlen(json), "t.json"), CADRE_EDATA, part);
    assert_non_null(strstr(cadre_error_text(), "t.json"));
    assert_null(t);
    assert_int_equal(cadre_live_bytes(), before);
}

static void features_that_are_not_built_are_named(void **state) {
    (void)state;
    refuse("", "t.json is no JSON");
    refuse("{\"model\":", "line 1");
    refuse("[]", "has no model");
    refuse("{\"model\":{\"type\":\"Unigram\"}}", "a model of type Unigram");
    refuse("{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\"}}", "normalizer");
    refuse(SMALL(BYTES, VOCAB, "[]", ",\"dropout\":0.1"), "model.dropout");
    refuse(SMALL(BYTES, VOCAB, "[]", ",\"byte_fallback\":true"), "model.byte_fallback");
    refuse(SMALL(BYTES, VOCAB, "[]", ",\"end_of_word_suffix\":\"</w>\""), "end_of_word_suffix");
    refuse(SMALL(BYTES, VOCAB, "[]", ",\"unk_token\":\"a\""), "unk_token");
    refuse(SMALL("{\"type\":\"Metaspace\"}", VOCAB, "[]", ""), "Metaspace");
    refuse(SMALL("{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", VOCAB, "[]", ""),
           "add_prefix_space");
    refuse(SMALL("{\"type\":\"Sequence\",\"pretokenizers\":[]}", VOCAB, "[]", ""), "no steps");
    refuse(
        SMALL("{\"type\":\"Sequence\",\"pretokenizers\":[" BYTES "," BYTES "]}", VOCAB, "[]", ""),
        "last step");
    refuse(SMALL("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
                 "{\"Regex\":\"a(\"},\"behavior\":\"Isolated\"}," BYTES "]}",
                 VOCAB, "[]", ""),
           "the split pattern 'a(' cannot be used");
    refuse(SMALL("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
                 "{\"Regex\":\"a\"},\"behavior\":\"Removed\"}," BYTES "]}",
                 VOCAB, "[]", ""),
           "behavior Removed");
}

static void hostile_files_are_refused(void **state) {
    (void)state;
    refuse(SMALL(BYTES, "{\"a\":-1}", "[]", ""), "the id of 'a'");
    refuse(SMALL(BYTES, "{\"a\":1e30}", "[]", ""), "the id of 'a'");
    refuse(SMALL(BYTES, "{\"a\":99999999999}", "[]", ""), "the id of 'a'");
    refuse(SMALL(BYTES, "{\"a\":\"0\"}", "[]", ""), "the id of 'a'");
    refuse(SMALL(BYTES, "{\"a\":1,\"b\":1}", "[]", ""), "have the id 1");
    refuse(SMALL(BYTES, "[]", "[]", ""), "model.vocab");
    refuse(SMALL(BYTES, VOCAB, "{}", ""), "model.merges");
    refuse(SMALL(BYTES, VOCAB, "[\"ab\"]", ""), "merge 0");
    refuse(SMALL(BYTES, VOCAB, "[\"a b\",\"a b c\"]", ""), "merge 1");
    refuse(SMALL(BYTES, VOCAB, "[[\"a\"]]", ""), "merge 0");
    refuse(SMALL(BYTES, VOCAB, "[[\"a\",2]]", ""), "merge 0");
    refuse(SMALL(BYTES, VOCAB, "[7]", ""), "merge 0");
    refuse(SMALL(BYTES, VOCAB, "[\"b a\"]", ""), "not in the vocabulary");
    refuse(SMALL(BYTES, VOCAB, "[\" b\"]", ""), "not in the vocabulary");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", "no tokens");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":0},\"merges\":[]}}",
           "no single character");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1},\"merges\":[]}}", "the id of 'a'");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}",
           "the id of 'b'");
    refuse("{\"added_tokens\":[{\"id\":3}],\"pre_tokenizer\":" BYTES
           ",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
           "added token 3");
    char deep[6000];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    refuse(deep, "no JSON");
}

static void paths_that_are_no_tokenizer(void **state) {
    (void)state;
    cadre_tokenizer *t = NULL;
    char *folder = (char *)temp_folder();
    FAILS(cadre_tokenizer_open(&t, "chars", NULL, 0, ""), CADRE_EDATA,
          "data.tokenizer=chars is no file");
    FAILS(cadre_tokenizer_open(&t, folder, NULL, 0, ""), CADRE_EDATA, "has no tokenizer");
    free(temp_file(folder, "vocab.json", "[1]", 3));
    free(temp_file(folder, "merges.txt", "#version: 0.2\na b\r\n", 19));
    FAILS(cadre_tokenizer_open(&t, folder, NULL, 0, ""), CADRE_EDATA, "vocab.json is no object");
    free(temp_file(folder, "vocab.json", "{\"a\":0,\"b\":1,\"ab\":2}", 20));
    OK(cadre_tokenizer_open(&t, folder, NULL, 0, ""));
    expect_ids(t, "aab", "0 2 ");
    cadre_tokenizer_close(&t);
}

static void memory_that_fails_leaves_nothing(void **state) {
    (void)state;
    static const char json[] = SMALL(BYTES, VOCAB, "[\"b c\",\"a b\"]", "");
    int64_t before = cadre_live_bytes(), k = 0;
    for (bool failed = true; failed; k++) {
        cadre_tokenizer *t = NULL;
        cadre_tokens tokens = {0};
        cadre_text to = {0};
        cadre_fault_at(k);
        cadre_status st = cadre_tokenizer_from_json(&t, json, sizeof json - 1, "t.json");
        if (!st) st = cadre_tokenizer_encode(t, "abc ab", 6, "text", &tokens);
        if (!st) st = cadre_tokenizer_to_json(t, &to);
        failed = cadre_fault_hit();
        cadre_fault_at(-1);
        assert_int_equal(st, failed ? CADRE_ERESOURCE : CADRE_OK);
        cadre_text_free(&to);
        cadre_tokens_free(&tokens);
        cadre_tokenizer_close(&t);
        assert_int_equal(cadre_live_bytes(), before);
    }
    assert_true(k > 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_knows_what_is_valid),
        cmocka_unit_test(char_ids_are_in_code_point_order),
        cmocka_unit_test(char_refuses_what_is_no_text),
        cmocka_unit_test(char_keeps_mark_and_line_ends),
        cmocka_unit_test(char_and_byte_round_trips),
        cmocka_unit_test(unknown_ids_are_refused),
        cmocka_unit_test(gpt2_gives_the_golden_ids),
        cmocka_unit_test(gpt2_round_trips),
        cmocka_unit_test(merges_go_by_rank),
        cmocka_unit_test(sequences_split_first),
        cmocka_unit_test(torchtitan_debug_tokenizer_is_read),
        cmocka_unit_test(features_that_are_not_built_are_named),
        cmocka_unit_test(hostile_files_are_refused),
        cmocka_unit_test(paths_that_are_no_tokenizer),
        cmocka_unit_test(memory_that_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
