/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products by oneDNN, on the calling thread alone. dnnl.c is the one file that knows
 * oneDNN, 2.6 or 3.x.
 */
#ifndef CADRE_TENSOR_OPS_CPU_DNNL_H
#define CADRE_TENSOR_OPS_CPU_DNNL_H

#include "base/status.h"

/* C (m, n) = A (m, k) B (k, n) [+ C] [+ bias (n)], f32, row-major; a transposed operand is stored
 * (k, m) or (n, k). lda, ldb, ldc: elements between rows as stored. */
typedef struct cadre_product {
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    bool a_transposed, b_transposed, add, bias;
} cadre_product;

/* Where cadre_product_run adds the nanoseconds it takes on this thread; NULL: nowhere. */
extern _Thread_local int64_t *cadre_product_timer;

/* Primitives are made once per shape and thread and kept until the thread ends. Any thread. */
cadre_status cadre_product_run(const cadre_product *p, const float *a, const float *b,
                               const float *bias, float *c);

#endif
