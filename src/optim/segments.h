/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking a list of segments with a pool: the elements of all segments are dealt evenly, so that
 * many small parameters are as quick as one large.
 */
#ifndef CADRE_OPTIM_SEGMENTS_H
#define CADRE_OPTIM_SEGMENTS_H

#include "optim/optim.h"

#include "base/clones.h"

/* The kernels are built once an instruction set and chosen when the program starts. Without
 * contraction (-ffp-contract=off) all of them give the same bits. Not with sanitizers, whose
 * run-time is not ready when the choice is made. */
/* Moves `length` elements that lie at `offset` in all arrays; `segment` says how. */
typedef void cadre_segment_fn(void *arg, const cadre_segment *segment, int64_t offset,
                              int64_t length);

/* Calls `fn` on pieces that cover every segment once, on the pool's threads. */
void cadre_segments_each(const cadre_segment *segments, int count, cadre_pool *pool,
                         cadre_segment_fn *fn, void *arg);

#endif
