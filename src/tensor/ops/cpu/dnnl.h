/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products by oneDNN, on the calling thread alone. dnnl.c is the one file that knows
 * oneDNN, 2.6 or 3.x.
 */
#ifndef CADRE_TENSOR_OPS_CPU_DNNL_H
#define CADRE_TENSOR_OPS_CPU_DNNL_H

#include "tensor/device.h"

/* C (m, n) = A (m, k) B (k, n) [+ C], row-major; a transposed operand is stored (k, m) or (n, k).
 * lda, ldb, ldc: elements between rows as stored. A and B are `ab`, C is `c`: f32 or bf16, C f32
 * where A and B are f32. Sums are in f32; a bf16 result is rounded once. */
typedef struct cadre_product {
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    cadre_dtype ab, c;
    bool a_transposed, b_transposed, add;
} cadre_product;

/* Where cadre_product_run adds the nanoseconds it takes on this thread; NULL: nowhere. */
extern _Thread_local int64_t *cadre_product_timer;

/* Any thread. What it keeps (primitives, scratch) is the thread's own, until the thread ends. */
cadre_status cadre_product_run(const cadre_product *p, const void *a, const void *b, void *c);

/* What a product keeps of its thread: scratch where operands of bf16 are widened, packed operands.
 */
cadre_kept cadre_product_keeps(const cadre_product *p);

/* Has this processor products of bf16 that are faster than those of f32? Where it has not, bf16
 * operands are widened a product at a time and multiplied in f32. */
bool cadre_product_bf16_is_fast(void);
/* For tests: 1 makes products of bf16, -1 widens, 0 asks the processor. For the whole process. */
void cadre_product_choose_bf16(int way);

#endif
