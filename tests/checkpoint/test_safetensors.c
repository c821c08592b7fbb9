/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors: what is written reads back, a file of the Python package reads, and hostile headers
 * are refused with a sentence that names the file and what is wrong.
 */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "checkpoint/safetensors.h"

static char *write_file(uint64_t announced, const char *header, size_t header_bytes,
                        size_t data_bytes) {
    size_t bytes = 8 + header_bytes + data_bytes;
    uint8_t *all = calloc(1, bytes);
    for (int i = 0; i < 8; i++) all[i] = (uint8_t)(announced >> 8 * i);
    memcpy(all + 8, header, header_bytes);
    static const char *folder;
    if (!folder) folder = temp_folder();
    char *path = temp_file(folder, "x.safetensors", all, bytes);
    free(all);
    return path;
}

static char *write_header(const char *header, size_t data_bytes) {
    return write_file(strlen(header), header, strlen(header), data_bytes);
}

static void python_file_reads(void **state) {
    (void)state;
    cadre_safetensors *f = NULL;
    OK(cadre_safetensors_open(&f, CADRE_SOURCE_DIR "/tests/golden/from_python.safetensors"));
    assert_int_equal(cadre_safetensors_count(f), 7);

    const cadre_stored *a = cadre_safetensors_find(f, "a.weight");
    assert_non_null(a);
    assert_int_equal(a->dtype, CADRE_F32);
    assert_int_equal(a->dims.n, 2);
    assert_int_equal(a->dims.at[0], 3);
    assert_int_equal(a->dims.at[1], 4);
    float values[12];
    memcpy(values, cadre_safetensors_data(f, a), sizeof values);
    for (int i = 0; i < 12; i++) assert_true(values[i] == (float)i / 8);

    const cadre_stored *s = cadre_safetensors_find(f, "scalar");
    assert_int_equal(s->dims.n, 0);
    double scalar;
    memcpy(&scalar, cadre_safetensors_data(f, s), sizeof scalar);
    assert_true(scalar == 0.1);

    int64_t ids[4];
    memcpy(ids, cadre_safetensors_data(f, cadre_safetensors_find(f, "ids")), sizeof ids);
    assert_int_equal(ids[3], -4);
    uint16_t halves[2];
    memcpy(halves, cadre_safetensors_data(f, cadre_safetensors_find(f, "b")), sizeof halves);
    assert_true(halves[0] == 0x3fc0 && halves[1] == 0xc000);
    assert_int_equal(cadre_safetensors_find(f, "empty")->bytes, 0);
    const uint8_t *bytes = cadre_safetensors_data(f, cadre_safetensors_find(f, "bytes"));
    assert_int_equal(bytes[2], 255);
    assert_null(cadre_safetensors_find(f, "a"));
    cadre_safetensors_close(&f);
    assert_null(f);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void written_reads_back(void **state) {
    (void)state;
    cadre_stored out[] = {
        {.name = "transformer.wte.weight", .dtype = CADRE_F32, .dims = cadre_dims2(5, 3)},
        {.name = "a \"quoted\" \xc3\xa9 name", .dtype = CADRE_U8, .dims = cadre_dims1(7)},
        {.name = "none", .dtype = CADRE_F64, .dims = cadre_dims2(0, 9)},
        {.name = "one", .dtype = CADRE_U16, .dims = cadre_dims0()},
    };
    cadre_text header = {0};
    OK(cadre_safetensors_header(out, 4, &header));
    assert_int_equal(header.length % 64, 0);
    assert_int_equal(out[0].offset, header.length);
    assert_int_equal(out[1].offset, header.length + 60);
    assert_int_equal(out[3].bytes, 2);
    for (int i = 0; i < 60 + 7 + 2; i++) cadre_text_add_bytes(&header, &(char){(char)i}, 1);
    char *path = temp_file(temp_folder(), "ours.safetensors", header.at, header.length);

    cadre_safetensors *f = NULL;
    OK(cadre_safetensors_open(&f, path));
    assert_int_equal(cadre_safetensors_count(f), 4);
    for (int i = 0; i < 4; i++) {
        const cadre_stored *in = cadre_safetensors_find(f, out[i].name);
        assert_non_null(in);
        assert_int_equal(in->dtype, out[i].dtype);
        assert_true(cadre_dims_equal(&in->dims, &out[i].dims));
        assert_int_equal(in->offset, out[i].offset);
        assert_int_equal(in->bytes, out[i].bytes);
    }
    const char *data = cadre_safetensors_data(f, cadre_safetensors_find(f, out[1].name));
    assert_int_equal(data[0], 60);
    cadre_safetensors_close(&f);
    cadre_text_free(&header);
    free(path);
}

static void one_name_twice_is_refused(void **state) {
    (void)state;
    cadre_stored out[] = {{.name = "x", .dtype = CADRE_F32, .dims = cadre_dims1(1)},
                          {.name = "x", .dtype = CADRE_F32, .dims = cadre_dims1(1)}};
    cadre_text header = {0};
    FAILS(cadre_safetensors_header(out, 2, &header), CADRE_EINTERNAL, "two tensors of one name");
    cadre_text_free(&header);
}

#define T(dtype, shape, offsets)                                                                   \
    "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}"

static const struct hostile {
    const char *header;
    size_t data;
    const char *sentence;
} hostiles[] = {
    {"", 0, "is no JSON"},
    {"{", 0, "is no JSON"},
    {"[]", 0, "is no JSON object"},
    {"{} trailing", 0, "is no JSON"},
    {"{\"a\\u0000b\":1}", 0, "is no JSON"},
    {"{\"\xff\":1}", 0, "is no JSON"},
    {"{\"a\":" T("F32", "1", "0,4") ",\"a\":" T("F32", "1", "0,4") "}", 4, "duplicate"},
    {"{\"a\":3}", 0, "tensor 'a' is described by no object"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor 'a' has no dtype"},
    {"{\"a\":" T("F8_E4M3", "4", "0,4") "}", 4, "has dtype F8_E4M3; read are F32 F64 F16"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "has no shape"},
    {"{\"a\":" T("U8", "1,1,1,1,1,1,1", "0,1") "}", 1, "has 7 dims"},
    {"{\"a\":" T("U8", "-1", "0,1") "}", 1, "dim 0 of its shape is no size"},
    {"{\"a\":" T("U8", "1.5", "0,1") "}", 1, "dim 0 of its shape is no size"},
    {"{\"a\":" T("F32", "4294967296,4294967296", "0,4") "}", 4, "more than 2^63 bytes"},
    {"{\"a\":" T("F64", "2305843009213693952", "0,0") "}", 0, "more than 2^63 bytes"},
    {"{\"a\":" T("U8", "99999999999999999999", "0,1") "}", 1, "is no JSON"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "has no data_offsets"},
    {"{\"a\":" T("U8", "1", "0") "}", 1, "has no data_offsets of two numbers"},
    {"{\"a\":" T("U8", "1", "-1,0") "}", 1, "are no range"},
    {"{\"a\":" T("U8", "1", "2,1") "}", 2, "are no range"},
    {"{\"a\":" T("U8", "9", "0,9") "}", 8, "ends at byte 9 of the data; the file has 8"},
    {"{\"a\":" T("U8", "1", "9223372036854775806,9223372036854775807") "}", 1, "the file has 1"},
    {"{\"a\":" T("F32", "2", "0,4") "}", 4, "its shape takes 8 bytes, its data_offsets hold 4"},
    {"{\"a\":" T("U8", "4", "0,4") ",\"b\":" T("U8", "4", "2,6") "}", 6, "'a' and 'b' overlap"},
    {"{\"a\":" T("U8", "4", "0,4") ",\"b\":" T("U8", "4", "0,4") "}", 4, "'a' and 'b' overlap"},
    {"{\"a\":" T("U8", "4", "0,4") ",\"b\":" T("U8", "2", "6,8") "}", 8, "a hole of 2 bytes"},
    {"{\"a\":" T("U8", "4", "4,8") "}", 8, "a hole of 4 bytes lies before tensor 'a'"},
    {"{\"a\":" T("U8", "4", "0,4") "}", 9, "take 4 bytes; the file has 9"},
    {"{\"__metadata__\":3}", 0, "__metadata__ is no map"},
    {"{\"__metadata__\":{\"a\":3}}", 0, "__metadata__ 'a' is no text"},
};

static void hostile_headers_are_refused(void **state) {
    (void)state;
    for (int i = 0; i < CADRE_COUNT(hostiles); i++) {
        char *path = write_header(hostiles[i].header, hostiles[i].data);
        cadre_safetensors *f = NULL;
        FAILS(cadre_safetensors_open(&f, path), CADRE_EDATA, hostiles[i].sentence);
        assert_non_null(strstr(cadre_error_text(), path));
        assert_null(f);
        remove(path);
        free(path);
        if (i % 8 == 7) assert_int_equal(cadre_live_bytes(), 0);
    }
}

static void hostile_lengths_are_refused(void **state) {
    (void)state;
    static const struct {
        uint64_t announced;
        size_t header, data;
        const char *sentence;
    } rows[] = {
        {100000001, 10, 0, "a header of 100000001 bytes is announced; at most 100000000"},
        {UINT64_MAX, 10, 0, "18446744073709551615 bytes is announced"},
        {UINT64_MAX - 7, 10, 0, "at most 100000000"},
        {1000, 10, 0, "a header of 1000 bytes is announced; the file has 18"},
        {11, 10, 0, "the file has 18"},
    };
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        char *path = write_file(rows[i].announced, "{}        ", rows[i].header, rows[i].data);
        cadre_safetensors *f = NULL;
        FAILS(cadre_safetensors_open(&f, path), CADRE_EDATA, rows[i].sentence);
        free(path);
    }
    const char *folder = temp_folder();
    for (size_t n = 0; n < 8; n++) {
        char *path = temp_file(folder, "short", "1234567", n);
        cadre_safetensors *f = NULL;
        FAILS(cadre_safetensors_open(&f, path), CADRE_EDATA, "a header alone takes at least 8");
        free(path);
    }
    cadre_safetensors *f = NULL;
    FAILS(cadre_safetensors_open(&f, "/nowhere/x.safetensors"), CADRE_EDATA, "/nowhere/x");
    FAILS(cadre_safetensors_open(&f, folder), CADRE_EDATA, "is a folder");
    assert_int_equal(cadre_live_bytes(), 0);
}

/* Every byte of a valid file's header flipped in every bit: refused, or read inside the file. */
static void flipped_bits_stay_inside(void **state) {
    (void)state;
    const char *header = "{\"a\":" T("F32", "2,2", "0,16") ",\"b\":" T("U8", "4", "16,20") "}";
    size_t length = strlen(header), bytes = 8 + length + 20;
    uint8_t *good = calloc(1, bytes);
    good[0] = (uint8_t)length;
    memcpy(good + 8, header, length);
    const char *folder = temp_folder();
    int read = 0, refused = 0;
    for (size_t at = 0; at < 8 + length; at++)
        for (int bit = 0; bit < 8; bit++) {
            good[at] ^= (uint8_t)(1 << bit);
            char *path = temp_file(folder, "x", good, bytes);
            cadre_safetensors *f = NULL;
            cadre_status st = cadre_safetensors_open(&f, path);
            assert_true(st == CADRE_OK || st == CADRE_EDATA);
            for (int i = 0; f && i < cadre_safetensors_count(f); i++) {
                const cadre_stored *s = cadre_safetensors_at(f, i);
                assert_true(s->offset >= 8 && s->offset + s->bytes <= (int64_t)bytes);
            }
            read += st == CADRE_OK;
            refused += st != CADRE_OK;
            cadre_safetensors_close(&f);
            good[at] ^= (uint8_t)(1 << bit);
            free(path);
        }
    assert_true(refused > read && read > 0); /* a flip in a name, or I32 for F32, still reads */
    free(good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_file_reads),         cmocka_unit_test(written_reads_back),
        cmocka_unit_test(one_name_twice_is_refused), cmocka_unit_test(hostile_lengths_are_refused),
        cmocka_unit_test(flipped_bits_stay_inside),  cmocka_unit_test(hostile_headers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
