/* SPDX-License-Identifier: Apache-2.0
 *
 * Data types, shapes, tensors.
 */
#include "tensor/tensor.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[CADRE_DTYPES] = {
    [CADRE_F32] = {"f32", 4}, [CADRE_F64] = {"f64", 8}, [CADRE_BF16] = {"bf16", 2},
    [CADRE_I32] = {"i32", 4}, [CADRE_I64] = {"i64", 8}, [CADRE_U8] = {"u8", 1},
    [CADRE_U16] = {"u16", 2},
};

static bool known(cadre_dtype dtype) {
    return (unsigned)dtype < CADRE_DTYPES;
}

size_t cadre_dtype_size(cadre_dtype dtype) {
    return known(dtype) ? dtypes[dtype].size : 0;
}

const char *cadre_dtype_name(cadre_dtype dtype) {
    return known(dtype) ? dtypes[dtype].name : "unknown";
}

cadre_dims cadre_dims0(void) {
    return (cadre_dims){0};
}

cadre_dims cadre_dims1(int64_t a) {
    return (cadre_dims){1, {a}};
}

cadre_dims cadre_dims2(int64_t a, int64_t b) {
    return (cadre_dims){2, {a, b}};
}

cadre_dims cadre_dims3(int64_t a, int64_t b, int64_t c) {
    return (cadre_dims){3, {a, b, c}};
}

cadre_dims cadre_dims4(int64_t a, int64_t b, int64_t c, int64_t d) {
    return (cadre_dims){4, {a, b, c, d}};
}

int64_t cadre_dims_count(const cadre_dims *dims) {
    int64_t count = 1;
    for (int i = 0; i < dims->n; i++) count *= dims->at[i];
    return count;
}

void *cadre_tensor_data(const cadre_tensor *t) {
    return t->data;
}

cadre_dtype cadre_tensor_dtype(const cadre_tensor *t) {
    return t->dtype;
}

cadre_dims cadre_tensor_dims(const cadre_tensor *t) {
    return t->dims;
}

int64_t cadre_count(const cadre_tensor *t) {
    return cadre_dims_count(&t->dims);
}

size_t cadre_tensor_bytes(const cadre_tensor *t) {
    return (size_t)cadre_count(t) * cadre_dtype_size(t->dtype);
}

int64_t cadre_columns(const cadre_tensor *t) {
    return t->dims.n ? t->dims.at[t->dims.n - 1] : 1;
}

int64_t cadre_rows(const cadre_tensor *t) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < t->dims.n; i++) rows *= t->dims.at[i];
    return rows;
}

bool cadre_dims_equal(const cadre_dims *a, const cadre_dims *b) {
    return a->n == b->n && memcmp(a->at, b->at, (size_t)a->n * sizeof a->at[0]) == 0;
}

char *cadre_dims_text(char *ret_text, size_t room, const cadre_dims *dims) {
    size_t at = (size_t)snprintf(ret_text, room, "(");
    for (int i = 0; i < dims->n && at < room; i++)
        at +=
            (size_t)snprintf(ret_text + at, room - at, i ? ", %" PRId64 : "%" PRId64, dims->at[i]);
    if (at < room) snprintf(ret_text + at, room - at, ")");
    return ret_text;
}
