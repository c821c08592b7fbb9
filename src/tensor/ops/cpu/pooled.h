/* SPDX-License-Identifier: Apache-2.0
 *
 * Work of a kernel over the pool: each range may fail; the first failure is handed back to the
 * calling thread.
 */
#ifndef CADRE_TENSOR_OPS_CPU_POOLED_H
#define CADRE_TENSOR_OPS_CPU_POOLED_H

#include "tensor/ops/ops.h"

typedef cadre_status cadre_pooled_fn(cadre_call *c, int64_t begin, int64_t end);

/* Cuts [0, n) at multiples of `grain` over the queue's pool. */
cadre_status cadre_pooled(cadre_queue *q, cadre_call *c, int64_t n, int64_t grain,
                          cadre_pooled_fn *fn);
/* The same for work that is not a call's alone. */
typedef cadre_status cadre_work_fn(void *self, int64_t begin, int64_t end);
cadre_status cadre_pooled_work(cadre_queue *q, void *self, int64_t n, int64_t grain,
                               cadre_work_fn *fn);
/* Scratch of the calling thread, at least `bytes`, 64-byte aligned; kept until the thread ends. Not
 * zeroed. */
cadre_status cadre_scratch(size_t bytes, void *ret_pointer);

#endif
