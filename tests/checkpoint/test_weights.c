/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that others wrote: every floating-point format, names with and without their prefix, one
 * file and several, masks and tied heads left aside, and everything that does not fit refused by
 * name. The folders in tests/golden are made by transformers (hf_gpt2.py).
 */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "checkpoint/weights.h"

static const char *folder;

/* One tensor to write: a few numbers of a format given as bytes. */
typedef struct made {
    const char *name, *format;
    int64_t count;
    const void *data;
    size_t size; /* of a number */
} made;

static const char *at(const char *name) {
    static char paths[16][CADRE_PATH];
    static int next;
    return cadre_join(paths[next++ % 16], CADRE_PATH, folder, name);
}

static void write_file(const char *name, const char *text, size_t bytes) {
    OK(cadre_file_replace(at(name), text, bytes));
}

/* A safetensors file of these, in `name`. */
static void write_tensors(const char *name, const made *tensors, int count) {
    cadre_text header = {0}, all = {0};
    size_t offset = 0;
    cadre_text_add(&header, "{");
    for (int i = 0; i < count; i++) {
        size_t bytes = (size_t)tensors[i].count * tensors[i].size;
        cadre_text_add(&header,
                       "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]}",
                       i ? "," : "", tensors[i].name, tensors[i].format, (int)tensors[i].count,
                       offset, offset + bytes);
        offset += bytes;
    }
    cadre_text_add(&header, "}");
    const uint64_t length = header.length;
    cadre_text_add_bytes(&all, &length, sizeof length);
    cadre_text_add_bytes(&all, header.at, header.length);
    for (int i = 0; i < count; i++)
        cadre_text_add_bytes(&all, tensors[i].data, (size_t)tensors[i].count * tensors[i].size);
    OK(all.status);
    write_file(name, all.at, all.length);
    cadre_text_free(&all);
    cadre_text_free(&header);
}

static int make_folder(void **state) {
    (void)state;
    folder = temp_folder();
    write_file("config.json", "{}", 2);
    return 0;
}

static int drop_index(void **state) {
    (void)state;
    remove(at("model.safetensors"));
    remove(at("model.safetensors.index.json"));
    return cadre_live_bytes() != 0;
}

/* A piece of `count` numbers, which go to `ret`. */
static cadre_piece piece(const char *name, int64_t count, cadre_dtype dtype, void *ret) {
    return (cadre_piece){.name = name,
                         .dtype = dtype,
                         .dims = cadre_dims1(count),
                         .count = count,
                         .data = ret,
                         .weights = true};
}

static cadre_status read_pieces(const char *path, const cadre_piece *pieces, int count) {
    char found[CADRE_PATH];
    cadre_weights *w = NULL;
    CADRE_TRY(cadre_weights_find(path, true, found, NULL, NULL));
    CADRE_TRY(cadre_weights_open(&w, found));
    cadre_status st = cadre_weights_read(w, pieces, count);
    cadre_weights_close(&w);
    return st;
}

/* ---- formats ---- */

static const uint16_t halves[] = {0x0000, 0x8000, 0x3C00, 0xC000, 0x0001, 0x03FF,
                                  0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x3555};
static const float of_halves[] = {0,        -0.f,  1,        -2,        0x1p-24f, 0x3FFp-24f,
                                  0x1p-14f, 65504, INFINITY, -INFINITY, NAN,      0.333251953125f};

static void formats_widen(void **state) {
    (void)state;
    static const uint16_t bf16[] = {0x3F80, 0xC040};
    static const float f32[] = {0.1f, -3};
    static const double f64[] = {0.1, 1e300};
    const made all[] = {{"h", "F16", 12, halves, 2},
                        {"b", "BF16", 2, bf16, 2},
                        {"f", "F32", 2, f32, 4},
                        {"d", "F64", 2, f64, 8}};
    float h[12], b[2], f[2], d[2];
    double wide_h[12], wide_d[2];
    write_tensors("model.safetensors", all, 4);
    const cadre_piece narrow[] = {piece("h", 12, CADRE_F32, h), piece("b", 2, CADRE_F32, b),
                                  piece("f", 2, CADRE_F32, f), piece("d", 2, CADRE_F32, d)};
    OK(read_pieces(folder, narrow, 4));
    for (int i = 0; i < 12; i++) {
        if (isnan(of_halves[i]))
            assert_true(isnan(h[i]));
        else
            assert_memory_equal(&h[i], &of_halves[i], sizeof h[i]);
    }
    assert_true(b[0] == 1 && b[1] == -3 && f[0] == 0.1f && f[1] == -3);
    assert_true(d[0] == 0.1f && isinf(d[1]));
    cadre_piece wide[] = {piece("h", 12, CADRE_F64, wide_h), narrow[1], narrow[2],
                          piece("d", 2, CADRE_F64, wide_d)};
    OK(read_pieces(folder, wide, 4));
    assert_true(wide_h[11] == 0.333251953125 && wide_d[0] == 0.1 && wide_d[1] == 1e300);
    uint16_t rounded[2];
    wide[2] = piece("f", 2, CADRE_BF16, rounded);
    OK(read_pieces(folder, wide, 4));
    assert_true(rounded[0] == 0x3DCD && rounded[1] == 0xC040);
    wide[0].first = 2; /* a part of a tensor */
    wide[0].count = 2;
    OK(read_pieces(folder, wide, 4));
    assert_true(wide_h[0] == 1 && wide_h[1] == -2);
}

/* ---- names ---- */

static const float two[] = {1, 2}, other[] = {1, 3};
static const uint8_t bytes[] = {1, 0};

static void names_masks_and_heads(void **state) {
    (void)state;
    static const uint16_t same[] = {0x3C00, 0x4000}; /* 1, 2 in F16 */
    float got[2] = {0};
    cadre_piece pieces[] = {piece("transformer.wte.weight", 2, CADRE_F32, got)};
    made all[] = {{"wte.weight", "F32", 2, two, 4},
                  {"h.0.attn.bias", "BOOL", 2, bytes, 1},
                  {"h.0.attn.masked_bias", "U8", 2, bytes, 1},
                  {"lm_head.weight", "F16", 2, same, 2}};
    write_tensors("model.safetensors", all, 4);
    OK(read_pieces(folder, pieces, 1));
    assert_true(got[0] == 1 && got[1] == 2);
    all[0].name = "transformer.wte.weight";
    all[1].name = "transformer.h.0.attn.bias";
    write_tensors("model.safetensors", all, 4);
    OK(read_pieces(folder, pieces, 1));
    all[3] = (made){"lm_head.weight", "F32", 2, other, 4};
    write_tensors("model.safetensors", all, 4);
    FAILS(read_pieces(folder, pieces, 1), CADRE_EDATA,
          "lm_head.weight differs from transformer.wte");
    all[3].count = 1;
    write_tensors("model.safetensors", all, 4);
    FAILS(read_pieces(folder, pieces, 1), CADRE_EDATA, "lm_head.weight differs");
    float head[2];
    const cadre_piece untied[] = {pieces[0], piece("lm_head.weight", 2, CADRE_F32, head)};
    all[3].count = 2;
    write_tensors("model.safetensors", all, 4);
    OK(read_pieces(folder, untied, 2));
    assert_true(head[1] == 3);
    write_tensors("model.safetensors", all, 3);
    FAILS(read_pieces(folder, untied, 2), CADRE_EDATA, "has no tensor 'lm_head.weight'");
}

/* More numbers than are compared at once; the last, or the first, is another. */
static void large_heads_are_compared_whole(void **state) {
    (void)state;
    enum { COUNT = (1 << 16) + 10 };
    static float embedding[COUNT], head[COUNT], got[COUNT];
    static const int others[] = {COUNT - 1, 1 << 16, 0, (1 << 16) - 1};
    const cadre_piece p = piece("transformer.wte.weight", COUNT, CADRE_F32, got);
    const made all[] = {{"wte.weight", "F32", COUNT, embedding, 4},
                        {"lm_head.weight", "F32", COUNT, head, 4}};
    for (int i = 0; i < COUNT; i++) embedding[i] = head[i] = (float)i;
    write_tensors("model.safetensors", all, 2);
    OK(read_pieces(folder, &p, 1));
    assert_memory_equal(got, embedding, sizeof got);
    for (int i = 0; i < CADRE_COUNT(others); i++) {
        head[others[i]] += 1;
        write_tensors("model.safetensors", all, 2);
        FAILS(read_pieces(folder, &p, 1), CADRE_EDATA, "lm_head.weight differs from wte.weight");
        head[others[i]] -= 1;
    }
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    float got[2];
    cadre_piece pieces[] = {piece("transformer.wte.weight", 2, CADRE_F32, got)};
    made all[] = {{"wte.weight", "F32", 2, two, 4}, {"h.9.ln_1.weight", "F32", 2, two, 4}};
    write_tensors("model.safetensors", all, 2);
    FAILS(read_pieces(folder, pieces, 1), CADRE_EDATA, "'h.9.ln_1.weight' belongs to no part");
    all[1].name = "transformer.wte.weight"; /* both ways at once */
    write_tensors("model.safetensors", all, 2);
    FAILS(read_pieces(folder, pieces, 1), CADRE_EDATA, "'wte.weight' belongs to no part");
    write_tensors("model.safetensors", all, 1);
    pieces[0].dims = cadre_dims2(2, 1);
    FAILS(read_pieces(folder, pieces, 1), CADRE_EDATA, "tensor 'wte.weight' has shape (2)");
    pieces[0].dims = cadre_dims1(2);
    all[0] = (made){"wte.weight", "U8", 2, bytes, 1};
    write_tensors("model.safetensors", all, 1);
    FAILS(read_pieces(folder, pieces, 1), CADRE_EDATA, "'wte.weight' is U8; weights are F32");
    pieces[0].name = "transformer.wpe.weight";
    FAILS(read_pieces(folder, pieces, 1), CADRE_EDATA, "has no tensor 'transformer.wpe.weight'");
    write_file("model.safetensors", "short", 5);
    FAILS(read_pieces(folder, pieces, 1), CADRE_EDATA, "a header alone takes at least 8");
    remove(at("model.safetensors"));
    FAILS(read_pieces(folder, pieces, 1), CADRE_EDATA, "neither model.safetensors nor");
    write_file("pytorch_model.bin", "x", 1);
    FAILS(read_pieces(folder, pieces, 1), CADRE_EDATA, "pytorch_model.bin, which is not read");
    remove(at("pytorch_model.bin"));
    FAILS(read_pieces(at("nowhere"), pieces, 1), CADRE_EDATA, "nowhere");
}

/* ---- several files ---- */

static void write_index(const char *text) {
    write_file("model.safetensors.index.json", text, strlen(text));
}

static void an_index_is_followed(void **state) {
    (void)state;
    float got[2], more[2];
    const cadre_piece pieces[] = {piece("transformer.wte.weight", 2, CADRE_F32, got),
                                  piece("transformer.wpe.weight", 2, CADRE_F32, more)};
    const made both[] = {{"wte.weight", "F32", 2, two, 4}, {"wpe.weight", "F32", 2, other, 4}};
    const made stale[] = {{"wte.weight", "F32", 2, other, 4}, {"wpe.weight", "F32", 2, other, 4}};
    write_tensors("a.safetensors", both, 1);
    write_tensors("odd name.st", stale, 2); /* its wte.weight is not the one that counts */
    write_index("{\"metadata\":{\"total_size\":16},\"weight_map\":"
                "{\"wte.weight\":\"a.safetensors\",\"wpe.weight\":\"odd name.st\"}}");
    OK(read_pieces(folder, pieces, 2));
    assert_true(got[1] == 2 && more[1] == 3);
    static const struct {
        const char *index, *sentence;
    } rows[] = {
        {"{", "index.json line 1"},
        {"{}", "has no weight_map"},
        {"{\"weight_map\":[]}", "has no weight_map"},
        {"{\"weight_map\":{\"wte.weight\":3}}", "no name of a file beside it"},
        {"{\"weight_map\":{\"wte.weight\":\"../a.safetensors\"}}", "no name of a file beside it"},
        {"{\"weight_map\":{\"wte.weight\":\"/etc/passwd\"}}", "no name of a file beside it"},
        {"{\"weight_map\":{\"wte.weight\":\"..\"}}", "no name of a file beside it"},
        {"{\"weight_map\":{\"wte.weight\":\"\"}}", "no name of a file beside it"},
        {"{\"weight_map\":{\"wte.weight\":\"gone.safetensors\"}}", "gone.safetensors"},
        {"{\"weight_map\":{\"wpe.weight\":\"a.safetensors\"}}", "has no tensor 'wpe.weight'"},
        {"{\"weight_map\":{\"wte.weight\":\"config.json\"}}", "config.json: 2 bytes"},
        {"{\"weight_map\":{\"wte.weight\":\"a.safetensors\"}}", "no tensor 'transformer.wpe"},
    };
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        write_index(rows[i].index);
        FAILS(read_pieces(folder, pieces, 2), CADRE_EDATA, rows[i].sentence);
        assert_int_equal(cadre_live_bytes(), 0);
    }
}

/* ---- what transformers write ---- */

static void sharded_is_the_same_as_whole(void **state) {
    (void)state;
    static float whole[2][13 * 8];
    cadre_piece p = piece("transformer.wte.weight", 13 * 8, CADRE_F32, whole[0]);
    p.dims = cadre_dims2(13, 8);
    /* The rest belongs to no piece: what was asked for is there all the same. */
    FAILS(read_pieces(CADRE_SOURCE_DIR "/tests/golden/hf_gpt2", &p, 1), CADRE_EDATA,
          "belongs to no part");
    p.data = whole[1];
    FAILS(read_pieces(CADRE_SOURCE_DIR "/tests/golden/hf_gpt2_sharded", &p, 1), CADRE_EDATA,
          "belongs to no part");
    assert_memory_equal(whole[0], whole[1], sizeof whole[0]);
    assert_true(whole[0][0] != 0);
}

static void every_failure_leaves_nothing(void **state) {
    (void)state;
    float got[2];
    const cadre_piece p = piece("transformer.wte.weight", 2, CADRE_F32, got);
    const made all[] = {{"wte.weight", "F32", 2, two, 4}, {"lm_head.weight", "F32", 2, two, 4}};
    write_tensors("a.safetensors", all, 2);
    write_index("{\"weight_map\":{\"wte.weight\":\"a.safetensors\","
                "\"lm_head.weight\":\"a.safetensors\"}}");
    bool failed = true;
    for (int k = 0; failed; k++) {
        cadre_fault_at(k);
        cadre_status st = read_pieces(folder, &p, 1);
        failed = cadre_fault_hit();
        cadre_fault_at(-1);
        assert_true(failed ? st == CADRE_ERESOURCE : st == CADRE_OK);
        assert_int_equal(cadre_live_bytes(), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(formats_widen, drop_index),
        cmocka_unit_test_teardown(names_masks_and_heads, drop_index),
        cmocka_unit_test_teardown(large_heads_are_compared_whole, drop_index),
        cmocka_unit_test_teardown(what_does_not_fit_is_refused, drop_index),
        cmocka_unit_test_teardown(an_index_is_followed, drop_index),
        cmocka_unit_test_teardown(sharded_is_the_same_as_whole, drop_index),
        cmocka_unit_test_teardown(every_failure_leaves_nothing, drop_index),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
