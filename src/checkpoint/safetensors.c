/* SPDX-License-Identifier: Apache-2.0
 *
 * The safetensors format, read and written. The header may come from anywhere, so every number in
 * it is checked before it is used; the sums are done so that they cannot overflow.
 */
#include "checkpoint/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { HEADER_MOST = 100 * 1000 * 1000, LENGTH_BYTES = 8, ALIGNMENT = 64 };

struct cadre_safetensors {
    cadre_map map;
    json_t *root; /* owns the names */
    cadre_stored *tensors;
    int count;
};

typedef struct format {
    const char *name;
    cadre_dtype dtype;
    int64_t bytes;
} format;

/* By dtype first. Those behind have no dtype: F16 can be read as numbers, the others are skipped by
 * whoever does not ask for them. */
static const format formats[] = {
    [CADRE_F32] = {"F32", CADRE_F32, 4},
    [CADRE_F64] = {"F64", CADRE_F64, 8},
    [CADRE_BF16] = {"BF16", CADRE_BF16, 2},
    [CADRE_I32] = {"I32", CADRE_I32, 4},
    [CADRE_I64] = {"I64", CADRE_I64, 8},
    [CADRE_U8] = {"U8", CADRE_U8, 1},
    [CADRE_U16] = {"U16", CADRE_U16, 2},
    {"F16", CADRE_DTYPES, 2},
    {"BOOL", CADRE_DTYPES, 1},
    {"I8", CADRE_DTYPES, 1},
    {"I16", CADRE_DTYPES, 2},
    {"U32", CADRE_DTYPES, 4},
    {"U64", CADRE_DTYPES, 8},
};

static uint64_t read_length(const uint8_t *at) {
    uint64_t value = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static cadre_status read_format(const json_t *tensor, const char *name, const format **ret_format) {
    const char *text = json_string_value(json_object_get(tensor, "dtype"));
    CADRE_CHECK(text, CADRE_EDATA, "tensor '%s' has no dtype", name);
    for (int i = 0; i < CADRE_COUNT(formats); i++) {
        if (strcmp(text, formats[i].name) != 0) continue;
        *ret_format = &formats[i];
        return CADRE_OK;
    }
    return CADRE_FAIL(
        CADRE_EDATA,
        "tensor '%s' has dtype %s; read are F32 F64 F16 BF16 BOOL and whole numbers of "
        "8 to 64 bits",
        name, text);
}

/* The shape, and the bytes it takes: `bytes` comes as those of one element. */
static cadre_status read_shape(const json_t *tensor, cadre_stored *s) {
    const json_t *shape = json_object_get(tensor, "shape");
    CADRE_CHECK(json_is_array(shape), CADRE_EDATA, "tensor '%s' has no shape", s->name);
    size_t n = json_array_size(shape);
    CADRE_CHECK(n <= CADRE_DIMS_MAX, CADRE_EDATA, "tensor '%s' has %zu dims; read are at most %d",
                s->name, n, CADRE_DIMS_MAX);
    s->dims.n = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(shape, i);
        CADRE_CHECK(json_is_integer(dim) && json_integer_value(dim) >= 0, CADRE_EDATA,
                    "tensor '%s': dim %zu of its shape is no size", s->name, i);
        s->dims.at[i] = json_integer_value(dim);
        CADRE_CHECK(!__builtin_mul_overflow(s->bytes, s->dims.at[i], &s->bytes), CADRE_EDATA,
                    "tensor '%s': its shape takes more than 2^63 bytes", s->name);
    }
    return CADRE_OK;
}

static cadre_status read_tensor(const json_t *tensor, int64_t data_bytes, cadre_stored *s) {
    CADRE_CHECK(json_is_object(tensor), CADRE_EDATA, "tensor '%s' is described by no object",
                s->name);
    const format *kind = NULL;
    CADRE_TRY(read_format(tensor, s->name, &kind));
    s->format = kind->name;
    s->dtype = kind->dtype;
    s->bytes = kind->bytes;
    CADRE_TRY(read_shape(tensor, s));
    const json_t *offsets = json_object_get(tensor, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    CADRE_CHECK(json_array_size(offsets) == 2 && json_is_integer(first) && json_is_integer(last),
                CADRE_EDATA, "tensor '%s' has no data_offsets of two numbers", s->name);
    int64_t begin = json_integer_value(first), end = json_integer_value(last);
    CADRE_CHECK(begin >= 0 && begin <= end, CADRE_EDATA,
                "tensor '%s': data_offsets [%" PRId64 ", %" PRId64 "] are no range", s->name, begin,
                end);
    CADRE_CHECK(end <= data_bytes, CADRE_EDATA,
                "tensor '%s' ends at byte %" PRId64 " of the data; the file has %" PRId64
                " (truncated?)",
                s->name, end, data_bytes);
    CADRE_CHECK(end - begin == s->bytes, CADRE_EDATA,
                "tensor '%s': its shape takes %" PRId64 " bytes, its data_offsets hold %" PRId64,
                s->name, s->bytes, end - begin);
    s->offset = begin;
    return CADRE_OK;
}

static cadre_status check_metadata(const json_t *metadata) {
    const char *key;
    json_t *value;
    CADRE_CHECK(json_is_object(metadata), CADRE_EDATA, "__metadata__ is no map");
    json_object_foreach((json_t *)metadata, key, value) {
        CADRE_CHECK(json_is_string(value), CADRE_EDATA, "__metadata__ '%s' is no text", key);
    }
    return CADRE_OK;
}

static int by_place(const void *a, const void *b) {
    const cadre_stored *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* In order of place, each tensor begins where the one before ends, and the last ends the file. */
static cadre_status check_places(cadre_safetensors *f, int64_t data_bytes) {
    if (f->count) qsort(f->tensors, (size_t)f->count, sizeof *f->tensors, by_place);
    int64_t at = 0;
    for (int i = 0; i < f->count; i++) {
        const cadre_stored *s = &f->tensors[i];
        CADRE_CHECK(s->offset >= at, CADRE_EDATA, "tensors '%s' and '%s' overlap",
                    f->tensors[i ? i - 1 : 0].name, s->name);
        CADRE_CHECK(s->offset == at, CADRE_EDATA,
                    "a hole of %" PRId64 " bytes lies before tensor '%s'", s->offset - at, s->name);
        at += s->bytes;
    }
    CADRE_CHECK(at == data_bytes, CADRE_EDATA,
                "the tensors take %" PRId64 " bytes; the file has %" PRId64, at, data_bytes);
    return CADRE_OK;
}

static cadre_status read_tensors(cadre_safetensors *f, int64_t data_at) {
    int64_t data_bytes = (int64_t)f->map.bytes - data_at;
    CADRE_TRY(cadre_alloc_array(&f->tensors, CADRE_MEM_OTHER, (int64_t)json_object_size(f->root),
                                sizeof *f->tensors));
    const char *key;
    json_t *value;
    json_object_foreach(f->root, key, value) {
        if (strcmp(key, "__metadata__") == 0) {
            CADRE_TRY(check_metadata(value));
            continue;
        }
        f->tensors[f->count].name = key;
        CADRE_TRY(read_tensor(value, data_bytes, &f->tensors[f->count]));
        f->count++;
    }
    CADRE_TRY(check_places(f, data_bytes));
    for (int i = 0; i < f->count; i++) f->tensors[i].offset += data_at;
    return CADRE_OK;
}

static cadre_status read_header(cadre_safetensors *f) {
    size_t bytes = f->map.bytes;
    CADRE_CHECK(bytes >= LENGTH_BYTES, CADRE_EDATA, "%zu bytes; a header alone takes at least 8",
                bytes);
    uint64_t length = read_length(f->map.data);
    CADRE_CHECK(length <= HEADER_MOST, CADRE_EDATA,
                "a header of %" PRIu64 " bytes is announced; at most %d are accepted", length,
                HEADER_MOST);
    CADRE_CHECK(length <= bytes - LENGTH_BYTES, CADRE_EDATA,
                "a header of %" PRIu64 " bytes is announced; the file has %zu (truncated?)", length,
                bytes);
    json_error_t why;
    f->root = json_loadb((const char *)f->map.data + LENGTH_BYTES, (size_t)length,
                         JSON_REJECT_DUPLICATES, &why);
    CADRE_CHECK(f->root, CADRE_EDATA, "the header is no JSON: %s at byte %d", why.text,
                LENGTH_BYTES + why.position);
    CADRE_CHECK(json_is_object(f->root), CADRE_EDATA, "the header is no JSON object");
    return read_tensors(f, LENGTH_BYTES + (int64_t)length);
}

cadre_status cadre_safetensors_open(cadre_safetensors **ret_file, const char *path) {
    cadre_safetensors *f = NULL;
    CADRE_TRY(cadre_alloc(&f, CADRE_MEM_OTHER, sizeof *f));
    cadre_status st = cadre_map_open(&f->map, path);
    if (!st && (st = read_header(f))) cadre_error_prefix(st, "%s: ", path);
    if (st)
        cadre_safetensors_close(&f);
    else
        *ret_file = f;
    return st;
}

int cadre_safetensors_count(const cadre_safetensors *f) {
    return f->count;
}

const cadre_stored *cadre_safetensors_at(const cadre_safetensors *f, int i) {
    return &f->tensors[i];
}

const cadre_stored *cadre_safetensors_find(const cadre_safetensors *f, const char *name) {
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

const void *cadre_safetensors_data(const cadre_safetensors *f, const cadre_stored *tensor) {
    return f->map.data + tensor->offset;
}

/* ---- numbers ---- */

/* IEEE 754 binary16; small ones become normal numbers. */
static float half_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    uint32_t fraction = half & 0x3FF, bits;
    float value;
    if (exponent == 0) {
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    bits = sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double number(const cadre_stored *s, const uint8_t *at) {
    uint16_t narrow;
    float single;
    double wide;
    switch (s->dtype) {
    case CADRE_F64:
        memcpy(&wide, at, sizeof wide);
        return wide;
    case CADRE_F32:
        memcpy(&single, at, sizeof single);
        return single;
    default:
        memcpy(&narrow, at, sizeof narrow);
        return s->dtype == CADRE_BF16 ? cadre_bf16_to_f32(narrow) : half_to_f32(narrow);
    }
}

cadre_status cadre_safetensors_numbers(const cadre_safetensors *f, const cadre_stored *s,
                                       int64_t first, int64_t count, cadre_dtype to, void *ret) {
    bool half = strcmp(s->format, "F16") == 0;
    int64_t size = half ? 2 : s->dtype < CADRE_DTYPES ? (int64_t)cadre_dtype_size(s->dtype) : 1;
    const uint8_t *at = (const uint8_t *)cadre_safetensors_data(f, s) + first * size;
    CADRE_CHECK(half || s->dtype == CADRE_F32 || s->dtype == CADRE_F64 || s->dtype == CADRE_BF16,
                CADRE_EDATA, "tensor '%s' is %s; weights are F32, F64, F16 or BF16", s->name,
                s->format);
    CADRE_CHECK(cadre_is_real(to), CADRE_EINTERNAL, "numbers of tensor '%s' as %s", s->name,
                cadre_dtype_name(to));
    if (s->dtype == to) {
        if (count) memcpy(ret, at, (size_t)(count * size));
        return CADRE_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        double value = number(s, at + i * size);
        cadre_convert(&value, CADRE_F64, (char *)ret + (size_t)i * cadre_dtype_size(to), to, 1);
    }
    return CADRE_OK;
}

void cadre_safetensors_close(cadre_safetensors **f) {
    if (!*f) return;
    cadre_free(&(*f)->tensors);
    json_decref((*f)->root);
    cadre_map_close(&(*f)->map);
    cadre_free(f);
}

/* The description of one tensor whose data begin `at` bytes after the header; NULL when the name is
 * no UTF-8. */
static json_t *describe(cadre_stored *s, int64_t at) {
    json_t *shape = json_array();
    s->bytes = (int64_t)cadre_dtype_size(s->dtype);
    for (int i = 0; i < s->dims.n; i++) {
        json_array_append_new(shape, json_integer(s->dims.at[i]));
        s->bytes *= s->dims.at[i];
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", formats[s->dtype].name, "shape", shape,
                     "data_offsets", (json_int_t)at, (json_int_t)(at + s->bytes));
}

cadre_status cadre_safetensors_header(cadre_stored *tensors, int count, cadre_text *ret_header) {
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    int64_t at = 0;
    for (int i = 0; i < count; i++) {
        json_t *one = describe(&tensors[i], at);
        if (!one || json_object_set_new(root, tensors[i].name, one) != 0) {
            json_decref(root);
            return CADRE_FAIL(CADRE_EINTERNAL, "tensor '%s' cannot be described in JSON",
                              tensors[i].name);
        }
        tensors[i].offset = at;
        at += tensors[i].bytes;
    }
    char *json = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER);
    bool whole = json && (int)json_object_size(root) == count + 1;
    json_decref(root);
    CADRE_CHECK(json, CADRE_ERESOURCE, "no memory for the header of %d tensors", count);
    size_t length = strlen(json);
    size_t padded = (LENGTH_BYTES + length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - LENGTH_BYTES;
    uint8_t prefix[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++) prefix[i] = (uint8_t)((uint64_t)padded >> 8 * i);
    cadre_text_add_bytes(ret_header, prefix, sizeof prefix);
    cadre_text_add(ret_header, "%s%*s", json, (int)(padded - length), "");
    free(json);
    CADRE_CHECK(whole, CADRE_EINTERNAL, "two tensors of one name in one file");
    for (int i = 0; i < count; i++) tensors[i].offset += LENGTH_BYTES + (int64_t)padded;
    return ret_header->status;
}
