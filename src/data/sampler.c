/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of samples, and the arithmetic of who computes which.
 */
#include "data/sampler.h"

#include <inttypes.h>

#include "base/rng.h"

cadre_status cadre_sampler_plan(cadre_sampler *ret_sampler, uint64_t seed, int64_t tokens,
                                int64_t context, bool shuffle) {
    CADRE_CHECK(context >= 1, CADRE_EUSAGE,
                "train.context=%" PRId64 ": a sample has at least 1 token", context);
    CADRE_CHECK(tokens > context, CADRE_EDATA,
                "the training data have %" PRId64 " tokens, which is shorter than the context: "
                "train.context=%" PRId64 " takes at least %" PRId64,
                tokens, context, context + 1);
    int64_t n = (tokens - context) / context;
    *ret_sampler = (cadre_sampler){.seed = seed,
                                   .tokens = tokens,
                                   .context = context,
                                   .per_epoch = n > 1 ? n : 1,
                                   .shuffle = shuffle};
    return CADRE_OK;
}

static inline uint64_t word(uint32_t high, uint32_t low) {
    return (uint64_t)high << 32 | low;
}

int64_t cadre_sampler_start(const cadre_sampler *s, int64_t g) {
    int64_t epoch = cadre_sampler_epoch(s, g), i = g % s->per_epoch;
    cadre_philox draw = cadre_philox_draw(cadre_rng_key(s->seed, "shuffle"), (uint64_t)epoch, 0);
    int64_t room = s->tokens - s->context;
    if (room > s->context) room = s->context;
    int64_t offset = (int64_t)cadre_below(word(draw.v[0], draw.v[1]), (uint64_t)room);
    if (s->shuffle)
        i = (int64_t)cadre_permute(word(draw.v[2], draw.v[3]), (uint64_t)s->per_epoch, (uint64_t)i);
    return offset + i * s->context;
}

/* Which micro-batches would do for this batch: the divisors of batch / dp next to `micro`. */
static void nearest_micro(int64_t share, int64_t micro, int64_t *ret_below, int64_t *ret_above) {
    *ret_below = micro < share ? micro : share;
    while (share % *ret_below) --*ret_below;
    *ret_above = micro < share ? micro : share;
    while (share % *ret_above) ++*ret_above;
}

static cadre_status refuse_batch(int64_t batch, int64_t micro, int dp) {
    int64_t unit = micro * dp, below = batch / unit * unit, above = below + unit;
    char lower[32] = "", micros[96] = "";
    if (below) snprintf(lower, sizeof lower, "%" PRId64 " or ", below);
    if (batch % dp == 0 && batch / dp <= 1 << 24) { /* what is larger would take long to search */
        int64_t low, high;
        nearest_micro(batch / dp, micro, &low, &high);
        snprintf(micros, sizeof micros,
                 low == high ? ", or train.micro_batch=%" PRId64
                             : ", or train.micro_batch=%" PRId64 " or %" PRId64,
                 low, high);
    }
    return CADRE_FAIL(CADRE_EUSAGE,
                      "train.batch=%" PRId64 " is not a multiple of train.micro_batch=%" PRId64
                      " x dp=%d; nearest: train.batch=%s%" PRId64 "%s",
                      batch, micro, dp, lower, above, micros);
}

cadre_status cadre_batching_plan(cadre_batching *ret_batching, int64_t batch, int64_t micro_batch,
                                 int dp, int dp_rank) {
    const int64_t most = INT64_C(1) << 40; /* products of two such counts and a rank stay exact */
    CADRE_CHECK(batch >= 1 && batch <= most, CADRE_EUSAGE,
                "train.batch=%" PRId64 ": it takes 1 to %" PRId64 " samples", batch, most);
    CADRE_CHECK(micro_batch >= 1 && micro_batch <= most, CADRE_EUSAGE,
                "train.micro_batch=%" PRId64 ": it takes 1 to %" PRId64 " samples", micro_batch,
                most);
    CADRE_CHECK(dp >= 1 && dp_rank >= 0 && dp_rank < dp && dp <= 1 << 20, CADRE_EINTERNAL,
                "rank %d of dp=%d", dp_rank, dp);
    if (batch % (micro_batch * dp)) return refuse_batch(batch, micro_batch, dp);
    *ret_batching = (cadre_batching){.batch = batch,
                                     .micro_batch = micro_batch,
                                     .accumulation = batch / (micro_batch * dp),
                                     .dp = dp,
                                     .dp_rank = dp_rank,
                                     .end = INT64_MAX};
    return CADRE_OK;
}

int64_t cadre_batching_first(const cadre_batching *b, int64_t position, int64_t m) {
    return position + (b->dp_rank * b->accumulation + m) * b->micro_batch;
}
