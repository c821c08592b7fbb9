/* SPDX-License-Identifier: Apache-2.0
 *
 * train.recompute and train.memory_limit: how many blocks a pass computes again. `auto` takes the
 * fewest that fit, found by dry passes; what does not fit is refused with what is needed and what
 * would help.
 */
#include "base/status.h"
#include "train/run_private.h"

static bool fits(const cadre_train_cfg *c, int64_t bytes) {
    return c->memory_limit == CADRE_UNSET || bytes <= c->memory_limit;
}

bool cadre_recompute_asked(const cadre_train_cfg *c) {
    return c->recompute != CADRE_RECOMPUTE_NONE || c->memory_limit != CADRE_UNSET;
}

static cadre_status refuse(const cadre_train_cfg *c, int64_t need, int64_t least) {
    char needed[32], limit[32], lowest[32], hint[160] = "";
    cadre_show_bytes(needed, sizeof needed, (double)need);
    cadre_show_bytes(limit, sizeof limit, (double)c->memory_limit);
    cadre_show_bytes(lowest, sizeof lowest, (double)least);
    if (fits(c, least))
        snprintf(hint, sizeof hint,
                 "give train.recompute=auto (%s with every block computed again)", lowest);
    else
        snprintf(
            hint, sizeof hint,
            "%s%s%stake a smaller train.micro_batch, train.context or model, or a larger limit",
            c->recompute == CADRE_RECOMPUTE_NONE ? "train.recompute=block would still need " : "",
            c->recompute == CADRE_RECOMPUTE_NONE ? lowest : "",
            c->recompute == CADRE_RECOMPUTE_NONE ? "; " : "");
    return CADRE_FAIL(
        CADRE_ERESOURCE, "a rank needs %s%s, above train.memory_limit=%s; %s", needed,
        c->recompute == CADRE_RECOMPUTE_NONE ? "" : " even with every block computed again", limit,
        hint);
}

cadre_status cadre_recompute_choose(const cadre_train_cfg *c, const cadre_parallel *p,
                                    const cadre_pass *shapes, int64_t others, bool must_fit,
                                    int *ret_blocks, cadre_pass_cost *ret_cost) {
    cadre_pass_cost cost, least;
    int blocks = c->recompute == CADRE_RECOMPUTE_BLOCK ? CADRE_RECOMPUTE_ALL : 0;
    CADRE_TRY(cadre_parallel_measure(p, shapes, blocks, &cost));
    if (c->recompute == CADRE_RECOMPUTE_AUTO && !fits(c, others + cost.activations))
        CADRE_TRY(cadre_parallel_fit(p, shapes, c->memory_limit - others, &blocks, &cost));
    if (must_fit && !fits(c, others + cost.activations)) {
        CADRE_TRY(cadre_parallel_measure(p, shapes, CADRE_RECOMPUTE_ALL, &least));
        return refuse(c, others + cost.activations, others + least.activations);
    }
    *ret_blocks = blocks;
    *ret_cost = cost;
    return CADRE_OK;
}

cadre_status cadre_other_bytes(const cadre_config *c, const cadre_parallel *p,
                               const cadre_pass *step, int64_t base,
                               int64_t ret_bytes[CADRE_MEM_KINDS]) {
    cadre_pass_cost cost;
    int threads = (int)c->run.threads;
    CADRE_TRY(cadre_parallel_measure(p, step, 0, &cost));
    cadre_parallel_bytes(p, ret_bytes);
    ret_bytes[CADRE_MEM_ACTIVATIONS] = 0;
    ret_bytes[CADRE_MEM_WORKSPACE] += threads * cost.kept.scratch;
    ret_bytes[CADRE_MEM_OTHER] += base + cadre_library_bytes(threads, cost.kept.packed);
    return CADRE_OK;
}

cadre_status cadre_recompute_fit(const cadre_config *c, cadre_parallel *p, const cadre_pass *shapes,
                                 int64_t base) {
    cadre_pass_cost cost;
    int64_t bytes[CADRE_MEM_KINDS], others = 0;
    int blocks = 0;
    CADRE_TRY(cadre_other_bytes(c, p, shapes, base, bytes));
    for (int i = 0; i < CADRE_MEM_KINDS; i++) others += bytes[i];
    CADRE_TRY(cadre_recompute_choose(&c->train, p, shapes, others, true, &blocks, &cost));
    cadre_parallel_recompute(p, blocks);
    return CADRE_OK;
}
