/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensor itself: a data type, a shape and an address. It owns nothing; whoever made it (a
 * tape's arena, a batch, a test) owns the memory.
 */
#ifndef CADRE_TENSOR_TENSOR_H
#define CADRE_TENSOR_TENSOR_H

#include <cadre/tensor.h>

#include "base/status.h"

struct cadre_tensor {
    cadre_dtype dtype;
    cadre_dims dims;
    void *data; /* 64-byte aligned where we allocate; NULL on meta */
    int32_t id; /* place on its tape, -1: on none */
};

int64_t cadre_count(const cadre_tensor *t); /* elements */
size_t cadre_tensor_bytes(const cadre_tensor *t);
/* A tensor seen as a matrix: the last dim is columns, all before it are rows (a scalar is 1 x 1).
 */
int64_t cadre_rows(const cadre_tensor *t);
int64_t cadre_columns(const cadre_tensor *t);
bool cadre_dims_equal(const cadre_dims *a, const cadre_dims *b);
char *cadre_dims_text(char *ret_text, size_t room, const cadre_dims *dims); /* "(4, 64, 128)" */
float cadre_bf16_to_f32(uint16_t x);
uint16_t cadre_f32_to_bf16(float x); /* to nearest, ties to even; NaN stays NaN */
uint16_t cadre_f64_to_bf16(double x);
/* n numbers at once (convert.c). The arrays do not overlap. */
void cadre_widen(const uint16_t *from, float *to, int64_t n);
void cadre_narrow(const float *from, uint16_t *to, int64_t n);
/* The same in the memory of the floats: the n results begin where the n numbers began. */
void cadre_narrow_in_place(void *data, int64_t n);
void cadre_widen_in_place(void *data, int64_t n);
/* f32, f64 or bf16 to any of them, rounded once. */
void cadre_convert(const void *from, cadre_dtype from_dtype, void *to, cadre_dtype to_dtype,
                   int64_t n);
bool cadre_is_real(cadre_dtype dtype); /* f32, f64 or bf16 */
/* Where numbers of this type are added up, and what is kept beside them (means, masters, gradients
 * of parameters): f32 for bf16, else the type itself. */
static inline cadre_dtype cadre_sum_dtype(cadre_dtype dtype) {
    return dtype == CADRE_BF16 ? CADRE_F32 : dtype;
}

#endif
