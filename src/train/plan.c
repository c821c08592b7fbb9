/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan: the real trainer run dry, on the meta backend, as one rank of the resolved layout.
 * Without sharding a rank's memory does not depend on how many there are, so that a world of one
 * answers for all of them.
 */
#include <string.h>

#include "base/status.h"
#include "data/loader.h"
#include "train/memory.h"
#include "train/run_private.h"

cadre_pass cadre_plan_shapes(const cadre_train_cfg *c, bool training) {
    cadre_pass pass = {.training = training, .inputs = 2};
    for (int i = 0; i < 2; i++) {
        pass.input[i].name = i ? "labels" : "inputs";
        pass.input[i].tensor = (cadre_tensor){
            .dtype = CADRE_I32, .dims = cadre_dims2(c->micro_batch, c->context), .id = -1};
    }
    return pass;
}

/* All bytes but those of activations; what an evaluation takes of these, 0 when there is none. */
static cadre_status measure_rest(const cadre_config *c, const cadre_parallel *p,
                                 const cadre_plan_facts *facts, cadre_plan *plan,
                                 int64_t *ret_evaluation) {
    const cadre_pass evaluation = cadre_plan_shapes(&c->train, false);
    const cadre_pass step = cadre_plan_shapes(&c->train, true);
    cadre_pass_cost cost;
    CADRE_TRY(cadre_parallel_measure(p, &evaluation, 0, &cost));
    CADRE_TRY(cadre_other_bytes(c, p, &step, facts->base_bytes, plan->bytes_per_rank));
    plan->bytes_per_rank[CADRE_MEM_LOADER] += facts->loader_bytes;
    *ret_evaluation = facts->evaluates ? cost.activations : 0;
    return CADRE_OK;
}

/* Evaluations lie in the memory of the step's passes. */
static cadre_status measure_step(const cadre_config *c, const cadre_parallel *p, int64_t evaluation,
                                 bool must_fit, cadre_plan *plan) {
    const cadre_pass step = cadre_plan_shapes(&c->train, true);
    cadre_pass_cost cost;
    int64_t others = 0;
    for (int i = 0; i < CADRE_MEM_KINDS; i++) others += plan->bytes_per_rank[i];
    CADRE_TRY(
        cadre_recompute_choose(&c->train, p, &step, others, must_fit, &plan->recompute, &cost));
    double per_step = (double)(c->train.batch / c->train.micro_batch); /* of all ranks */
    plan->bytes_per_rank[CADRE_MEM_ACTIVATIONS] =
        cost.activations > evaluation ? cost.activations : evaluation;
    plan->flops_per_step = cost.flops * per_step;
    plan->recomputed_blocks = cost.again_blocks;
    plan->recompute_flops_per_step = cost.again_flops * per_step;
    return CADRE_OK;
}

static cadre_status measure(cadre_comm *alone, cadre_queue *queue, const cadre_model *model,
                            const cadre_config *c, const cadre_plan_facts *facts,
                            cadre_plan *plan) {
    cadre_parallel *p = NULL;
    CADRE_TRY(cadre_parallel_open(&p, alone, model, queue, &c->parallel, &c->optim));
    int64_t evaluation = 0;
    cadre_status st = measure_rest(c, p, facts, plan, &evaluation);
    if (!st) st = measure_step(c, p, evaluation, facts->must_fit, plan);
    if (!st) {
        plan->traffic_bytes = cadre_parallel_traffic(p);
        plan->buckets = cadre_parallel_bucket_count(p);
        for (int i = 0; i < cadre_model_param_count(model); i++)
            if (!cadre_parallel_frozen(p, i))
                plan->trainable += cadre_dims_count(&cadre_model_param(model, i)->dims);
    }
    cadre_parallel_close(&p);
    return st;
}

cadre_status cadre_plan_measure(const cadre_config *c, const cadre_model *model,
                                const cadre_plan_facts *facts, cadre_plan *ret_plan) {
    cadre_plan plan;
    cadre_comm *alone[1] = {NULL};
    cadre_queue *queue = NULL;
    cadre_comm_opts opts = CADRE_COMM_OPTS;
    opts.transport = "self";
    memset(&plan, 0, sizeof plan);
    plan.ranks = (int)c->run.ranks;
    plan.threads = (int)c->run.threads;
    plan.parameters = cadre_model_parameters(model);
    plan.blocks = cadre_model_block_count(model);
    plan.lr_scaled_from = NAN;
    CADRE_TRY(cadre_comm_open_threads(alone, 1, &opts));
    cadre_status st = cadre_queue_open(&queue, "meta", NULL);
    if (!st) st = measure(alone[0], queue, model, c, facts, &plan);
    cadre_queue_close(&queue);
    cadre_comm_close(&alone[0]);
    if (!st) *ret_plan = plan;
    return st;
}

int64_t cadre_plan_loader_bytes(const cadre_config *c, int64_t corpus_tokens, bool wide) {
    int64_t batches = CADRE_LOADER_AHEAD + 2; /* one in use, one for evaluations */
    int64_t ring = batches * c->train.micro_batch * (c->train.context * 8 + 8);
    return ring + corpus_tokens * (wide ? 4 : 2);
}

/* With data: vocabulary, sizes. */
static cadre_status look_at_data(cadre_settings *set, cadre_facts *facts, cadre_plan *plan,
                                 bool *ret_wide) {
    cadre_config c;
    cadre_corpus *corpus = NULL;
    cadre_sampler sampler;
    CADRE_TRY(cadre_config_fill(set, &c));
    CADRE_TRY(cadre_corpus_open(&corpus, &c.data));
    const cadre_run_of_tokens *train = cadre_corpus_train(corpus);
    cadre_status st = cadre_sampler_plan(&sampler, (uint64_t)c.train.seed, train->count,
                                         c.train.context, c.data.shuffle);
    if (!st) {
        facts->vocab = cadre_corpus_vocab(corpus);
        facts->samples_per_epoch = sampler.per_epoch;
        plan->samples_per_epoch = sampler.per_epoch;
        plan->train_tokens = train->count;
        plan->valid_tokens = cadre_corpus_valid(corpus)->count;
        *ret_wide = train->wide;
    }
    cadre_corpus_close(&corpus);
    return st;
}

cadre_status cadre_plan_make(cadre_settings *set, cadre_plan *ret_plan) {
    cadre_facts facts = {0};
    cadre_plan data = {0}, plan;
    cadre_config c;
    cadre_model *model = NULL;
    bool wide = false;
    int64_t base = cadre_memory_now();
    CADRE_TRY(cadre_settings_resolve(set, &facts));
    CADRE_TRY(cadre_config_fill(set, &c));
    if (c.data.train.count) CADRE_TRY(look_at_data(set, &facts, &data, &wide));
    if (facts.vocab == 0 && !cadre_settings_get(set, "model.vocab")) facts.vocab = CADRE_PLAN_VOCAB;
    CADRE_TRY(cadre_settings_resolve(set, &facts));
    CADRE_TRY(cadre_config_fill(set, &c));
    double lr = c.optim.lr;
    cadre_optim_scale(&c.optim, c.train.batch);
    CADRE_TRY(cadre_check_model_kind(&c));
    CADRE_TRY(cadre_model_open(&model, set));
    const cadre_plan_facts rest = {
        .loader_bytes = cadre_plan_loader_bytes(&c, data.train_tokens + data.valid_tokens, wide),
        .base_bytes = base,
        .evaluates = data.train_tokens == 0 || data.valid_tokens > 1,
        .must_fit = cadre_settings_given(set, "train.memory_limit")}; /* may run elsewhere */
    cadre_status st = cadre_plan_measure(&c, model, &rest, &plan);
    cadre_model_close(&model);
    if (st) return st;
    plan.samples_per_epoch = data.samples_per_epoch;
    plan.train_tokens = data.train_tokens;
    plan.valid_tokens = data.valid_tokens;
    if (c.optim.scale_lr != CADRE_SCALE_NONE) plan.lr_scaled_from = lr;
    *ret_plan = plan;
    return CADRE_OK;
}
