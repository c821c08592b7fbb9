/* SPDX-License-Identifier: Apache-2.0
 *
 * Manifests: text and back, and documents whose checksum is right but whose contents are not.
 */
#include "support/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "checkpoint/manifest.h"

static cadre_manifest_file files[] = {{"model.safetensors", 1000, 0x0123456789abcdefu},
                                      {"optim-00000.safetensors", 5000000000, UINT64_MAX}};
static cadre_manifest_piece pieces[] = {
    {"w", CADRE_F32, {2, {3, 4}}, 0, 12, "model.safetensors", "w"},
    {"m/w", CADRE_F32, {2, {3, 4}}, 5, 7, "optim-00000.safetensors", "m/w@5"},
    {"m/w", CADRE_F32, {2, {3, 4}}, 0, 5, "optim-00000.safetensors", "m/w@0"},
};

static void write_text(cadre_text *to) {
    cadre_manifest m = {.head = {.step = 12,
                                 .samples = 144,
                                 .data_hash = 0xfedcba9876543210u,
                                 .parameter_hash = 1,
                                 .valid_loss = 2.0871000000000003,
                                 .settings = "a: \"\xc3\xa9\"\n",
                                 .layout = "dp=2"},
                        .files = files,
                        .file_count = 2,
                        .pieces = pieces,
                        .piece_count = 3};
    OK(cadre_manifest_text(&m, to));
}

static void text_and_back(void **state) {
    (void)state;
    cadre_text text = {0};
    cadre_manifest m;
    write_text(&text);
    OK(cadre_manifest_read(&m, text.at, text.length, "x"));
    assert_int_equal(m.head.step, 12);
    assert_true(m.head.data_hash == 0xfedcba9876543210u);
    assert_true(m.head.valid_loss == 2.0871000000000003);
    assert_string_equal(m.head.settings, "a: \"\xc3\xa9\"\n");
    assert_int_equal(m.file_count, 2);
    assert_int_equal(m.files[1].bytes, 5000000000);
    assert_true(m.files[1].xxh3 == UINT64_MAX);
    assert_int_equal(m.piece_count, 3);
    assert_string_equal(m.pieces[0].key, "m/w@0"); /* ordered by name, then place */
    assert_string_equal(m.pieces[1].key, "m/w@5");
    assert_string_equal(m.pieces[2].key, "w");
    cadre_manifest_free(&m);
    cadre_text_free(&text);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void settings_that_are_no_utf8_are_refused(void **state) {
    (void)state;
    cadre_text text = {0};
    cadre_manifest m = {.head = {.settings = "\xff", .layout = ""}};
    FAILS(cadre_manifest_text(&m, &text), CADRE_EINTERNAL, "no UTF-8");
    cadre_text_free(&text);
}

/* The document with one part replaced (every blank and line end of it as written), and the checksum
 * made right again. */
static void doctored(const char *part, const char *by, cadre_text *to) {
    cadre_text text = {0};
    write_text(&text);
    char *end = strstr(text.at, ",\n \"self_xxh3\"");
    assert_non_null(end);
    *end = '\0';
    char *at = strstr(text.at, part);
    assert_non_null(at);
    cadre_text_add(to, "%.*s%s%s", (int)(at - text.at), text.at, by, at + strlen(part));
    uint64_t hash = cadre_hash(to->at, to->length, 0);
    cadre_text_add(to, ",\n \"self_xxh3\": \"%016" PRIx64 "\"\n}\n", hash);
    cadre_text_free(&text);
}

static const struct row {
    const char *part, *by, *sentence;
} rows[] = {
    {"\"schema\": 1", "\"schema\": 2", "schema 2; this version reads schema 1"},
    {"\"schema\"", "\"scheme\"", "'schema' is missing"},
    {"\"step\": 12", "\"step\": -12", "'step' is missing or no count"},
    {"\"step\": 12", "\"step\": 1.5", "'step' is missing or no count"},
    {"\"samples\": 144", "\"samples\": 99999999999999999999", "no JSON"},
    {"\"samples\": 144", "\"step\": 12", "no JSON"}, /* a key twice */
    {"\"layout\": \"dp=2\"", "\"layout\": 2", "'layout' is missing or no text"},
    {"\"valid_loss\": 2", "\"valid_loss\": \"2\", \"x\": 2", "'valid_loss' is no number"},
    {"fedcba9876543210", "fedcba987654321", "'data_hash' is no hash of 16 hex digits"},
    {"fedcba9876543210", "fedcba987654321g", "'data_hash' is no hash of 16 hex digits"},
    {"\"name\": \"model.safetensors\"", "\"name\": \"../model.safetensors\"",
     "is no name of a file"},
    {"\"name\": \"model.safetensors\"", "\"name\": \"/etc/passwd\"", "is no name of a file"},
    {"\"name\": \"model.safetensors\"", "\"name\": \"\"", "is no name of a file"},
    {"\"name\": \"model.safetensors\"", "\"name\": \"..\"", "is no name of a file"},
    {"\"bytes\": 1000", "\"bytes\": -1", "'bytes' is missing or no count"},
    {"\"dtype\": \"f32\"", "\"dtype\": \"f33\"", "unknown dtype 'f33'"},
    {"\"shape\": [", "\"shape\": [1,1,1,1,1,", "has no shape of at most 6 dims"},
    {"\"shape\": [", "\"shape\": [9223372036854775807,", "of its shape is no size"},
    {"\"shape\": [", "\"shape\": [-1,", "of its shape is no size"},
    {"\"start\": [\n     0,", "\"start\": [\n     1,", "is a box inside its tensor"},
    {"\"range\": [\n    0,\n    12", "\"range\": [\n    1,\n    12",
     "lies outside its 12 elements"},
    {"\"range\": [\n    0,\n    12", "\"range\": [\n    -1,\n    12",
     "lies outside its 12 elements"},
    {"\"range\": [\n    0,\n    12", "\"range\": [\n    0,\n    11",
     "elements 11 to 11 are held by"},
    {"\"range\": [\n    5,\n    7", "\"range\": [\n    6,\n    6", "elements 5 to 5 are held by"},
    {"\"range\": [\n    5,\n    7", "\"range\": [\n    4,\n    8", "from 4 on are held twice"},
    {"\"key\": \"w\"", "\"key\": 7", "'key' is missing or no text"},
    {"\"files\": [", "\"fires\": [", "'files' or 'pieces' is no list"},
    {"{\n \"schema\"", "[\n \"schema\"", "no JSON"},
};

static void wrong_contents_are_refused(void **state) {
    (void)state;
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        cadre_text text = {0};
        cadre_manifest m;
        doctored(rows[i].part, rows[i].by, &text);
        FAILS(cadre_manifest_read(&m, text.at, text.length, "runs/x/MANIFEST.json"), CADRE_EDATA,
              rows[i].sentence);
        assert_memory_equal(cadre_error_text(), "runs/x/MANIFEST.json: ", 22);
        cadre_text_free(&text);
        assert_int_equal(cadre_live_bytes(), 0);
    }
}

/* One tensor in two shapes. */
static void two_descriptions_are_refused(void **state) {
    (void)state;
    cadre_manifest_piece two[] = {
        {"w", CADRE_F32, {1, {8}}, 0, 4, "f", "a"},
        {"w", CADRE_F32, {2, {2, 4}}, 4, 4, "f", "b"},
    };
    FAILS(cadre_manifest_order(two, 2), CADRE_EDATA, "'w' is described twice");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_back),
        cmocka_unit_test(settings_that_are_no_utf8_are_refused),
        cmocka_unit_test(wrong_contents_are_refused),
        cmocka_unit_test(two_descriptions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
