/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sample is which: a function of (seed, epoch, global index) and nothing else; no stored
 * permutation, no state. The position of a run is the number of samples consumed.
 *
 * T tokens, windows of C inputs and their C successors: N = max(1, floor((T - C) / C)) samples an
 * epoch. Epoch e starts its tiling at an offset in [0, min(C, T - C)) drawn from (seed, e); sample
 * i of the epoch is window permute(i).
 */
#ifndef CADRE_DATA_SAMPLER_H
#define CADRE_DATA_SAMPLER_H

#include "base/status.h"

typedef struct cadre_sampler {
    uint64_t seed;
    int64_t tokens, context; /* T, C */
    int64_t per_epoch;       /* N */
    bool shuffle;
} cadre_sampler;

/* T <= C is CADRE_EDATA with both numbers ("shorter than the context"). */
cadre_status cadre_sampler_plan(cadre_sampler *ret_sampler, uint64_t seed, int64_t tokens,
                                int64_t context, bool shuffle);
/* The first input token of global sample g. Its inputs are [start, start + C), its labels [start +
 * 1, start + C + 1). */
int64_t cadre_sampler_start(const cadre_sampler *s, int64_t g);
static inline int64_t cadre_sampler_epoch(const cadre_sampler *s, int64_t g) {
    return g / s->per_epoch;
}

/* A step's samples and who computes which. Global batch of step k (0-based): samples [k x batch, (k
 * + 1) x batch), cut into slots of `micro_batch`; rank d of dp owns the consecutive slots [d x
 * accumulation, (d + 1) x accumulation). */
typedef struct cadre_batching {
    int64_t batch, micro_batch, accumulation; /* batch = micro_batch x dp x accumulation */
    int dp, dp_rank;
    int64_t end; /* no sample at or past this index counts (epochs x N); INT64_MAX: no end */
} cadre_batching;

/* Refuses what does not divide with the nearest values that do (CADRE_EUSAGE, naming train.batch
 * and train.micro_batch). */
cadre_status cadre_batching_plan(cadre_batching *ret_batching, int64_t batch, int64_t micro_batch,
                                 int dp, int dp_rank);
/* The first sample of rank's micro-batch m of the step that starts at sample `position`. */
int64_t cadre_batching_first(const cadre_batching *b, int64_t position, int64_t m);

#endif
