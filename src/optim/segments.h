/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking a list of segments with a pool: the elements of all segments are dealt evenly, so that
 * many small parameters are as quick as one large.
 */
#ifndef CADRE_OPTIM_SEGMENTS_H
#define CADRE_OPTIM_SEGMENTS_H

#include "optim/optim.h"

#include "base/clones.h"

/* A run of n elements of one segment, all arrays of the type `dtype` (f32 or f64). */
typedef struct cadre_segment_piece {
    const cadre_segment *segment;
    cadre_dtype dtype;
    int64_t n;
    void *value;
    const void *gradient;
    void *state[CADRE_OPTIM_STATES];
} cadre_segment_piece;

typedef void cadre_segment_fn(void *arg, const cadre_segment_piece *piece);

/* Calls `fn` on pieces that cover every segment once, on the pool's threads; gradients in bf16 are
 * widened for it and the copy in bf16 is written behind it, while the piece is in the cache.
 * Kernels are built once an instruction set (CADRE_CLONES); without contraction
 * (-ffp-contract=off) all of them give the same bits. */
void cadre_segments_each(const cadre_optim_arrays *arrays, const cadre_segment *segments, int count,
                         cadre_pool *pool, cadre_segment_fn *fn, void *arg);

#endif
