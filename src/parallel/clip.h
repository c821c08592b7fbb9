/* SPDX-License-Identifier: Apache-2.0
 *
 * The global norm over ranks that all hold the same summed gradients: each squares its share of the
 * chunks, the squares are gathered, and every rank joins them along T to the same bits. Also the
 * search for values that are not finite.
 */
#ifndef CADRE_PARALLEL_CLIP_H
#define CADRE_PARALLEL_CLIP_H

#include "base/alloc.h"
#include "base/threads.h"
#include "comm/comm.h"

typedef struct cadre_norm {
    cadre_comm *comm;
    int64_t chunks, share; /* in all; of one rank, the last ones padded with zeros */
    double *squares;       /* size x share */
    size_t bytes;
} cadre_norm;

/* Local. `length`: elements, a multiple of CADRE_CHUNK. The communicator is borrowed. */
cadre_status cadre_norm_open(cadre_norm *ret_norm, cadre_comm *comm, int64_t length);
/* Collective. The sum of squares of the `length` values, the same bits on every rank. */
cadre_status cadre_norm_squared(cadre_norm *n, const void *values, cadre_dtype dtype,
                                cadre_pool *pool, double *ret_sum);
void cadre_norm_close(cadre_norm *n);

/* Local. What gradients of that norm are multiplied with, so that it is at most `limit` (0: no
 * limit): limit / (norm + 1e-6), at most 1, as PyTorch's clip_grad_norm_ does. */
double cadre_clip_factor(double norm, double limit);

/* Local. Is one of values[first .. first + count) infinite or not a number? f32 or f64. */
bool cadre_any_nonfinite(const void *values, cadre_dtype dtype, int64_t first, int64_t count);

#endif
