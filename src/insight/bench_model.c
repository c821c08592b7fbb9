/* SPDX-License-Identifier: Apache-2.0
 *
 * A model in training on random tokens, as a bench opens it.
 */
#include "insight/bench_model.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/rng.h"
#include "train/memory.h"
#include "train/run.h"

static const char default_model[] = "gpt2-124m", default_micro_batch[] = "4";
enum { CONTEXT_MOST = 256 };

static cadre_status resolve(cadre_bench_model *m) {
    const cadre_facts facts = {.world = cadre_comm_size(m->world),
                               .local_size = cadre_comm_local_size(m->world),
                               .vocab = CADRE_PLAN_VOCAB};
    CADRE_TRY(cadre_settings_resolve(m->set, &facts));
    return cadre_config_fill(m->set, &m->cfg);
}

/* Before a default of another kind is laid beside it. */
static cadre_status check_kind(const cadre_settings *set) {
    const char *kind = cadre_settings_get(set, "model.kind");
    CADRE_CHECK(!cadre_settings_given(set, "model.kind") || strcmp(kind, "gpt2") == 0, CADRE_EUSAGE,
                "model.kind=%s: benches measure models of kind gpt2; give that, or a model.preset "
                "(--model) of that kind, or leave it out",
                kind);
    return CADRE_OK;
}

static cadre_status resolve_settings(cadre_bench_model *m, const cadre_bench_opts *opts) {
    CADRE_TRY(cadre_settings_copy(&m->set, opts->set));
    CADRE_TRY(check_kind(m->set));
    if (!cadre_settings_given(m->set, "model.preset"))
        CADRE_TRY(cadre_settings_set(m->set, "model.preset", default_model));
    if (!cadre_settings_given(m->set, "train.batch") &&
        !cadre_settings_given(m->set, "train.micro_batch"))
        CADRE_TRY(cadre_settings_set(m->set, "train.micro_batch", default_micro_batch));
    bool context_given = cadre_settings_given(m->set, "train.context");
    CADRE_TRY(resolve(m));
    CADRE_TRY(cadre_check_model_kind(&m->cfg));
    CADRE_CHECK(strcmp(m->cfg.run.device, "cpu") == 0, CADRE_EUSAGE,
                "run.device=%s: benches measure the kernels of cpu", m->cfg.run.device);
    if (context_given || m->cfg.train.context <= CONTEXT_MOST) return CADRE_OK;
    CADRE_TRY(cadre_settings_set(m->set, "train.context", "256"));
    return resolve(m);
}

static cadre_status draw_tokens(cadre_bench_model *m) {
    int64_t rows = m->cfg.train.micro_batch, tokens = rows * m->cfg.train.context;
    uint64_t key = cadre_rng_key((uint64_t)m->cfg.train.seed, "bench"), vocab;
    uint64_t rank = (uint64_t)cadre_comm_rank(m->world);
    CADRE_TRY(cadre_alloc_array(&m->inputs, CADRE_MEM_LOADER, tokens, sizeof *m->inputs));
    CADRE_TRY(cadre_alloc_array(&m->labels, CADRE_MEM_LOADER, tokens, sizeof *m->labels));
    CADRE_TRY(cadre_alloc_array(&m->samples, CADRE_MEM_LOADER, rows, sizeof *m->samples));
    vocab = (uint64_t)m->cfg.model.vocab;
    for (int64_t i = 0; i < tokens; i++) {
        cadre_philox four = cadre_philox_draw(key, (uint64_t)i, rank);
        m->inputs[i] = (int32_t)(four.v[0] % vocab);
        m->labels[i] = (int32_t)(four.v[1] % vocab);
    }
    for (int64_t i = 0; i < rows; i++) m->samples[i] = (int64_t)rank * rows + i;
    return CADRE_OK;
}

cadre_status cadre_bench_model_open(cadre_bench_model *m, cadre_comm *world,
                                    const cadre_bench_opts *opts) {
    m->world = world;
    m->base = cadre_memory_now();
    CADRE_TRY(resolve_settings(m, opts));
    /* All compute the same blocks again. */
    CADRE_TRY(cadre_all_reduce(world, &m->base, &m->base, 1, CADRE_I64, CADRE_MAX, "base", NULL));
    const cadre_config *c = &m->cfg;
    m->micros = c->train.batch / (c->train.micro_batch * c->parallel.dp);
    CADRE_TRY(cadre_rank_threads(world, c->run.threads, c->run.pin, &m->pool, &m->binding));
    cadre_bind(&m->binding, true);
    CADRE_TRY(cadre_queue_open(&m->queue, c->run.device, m->pool));
    CADRE_TRY(cadre_model_open(&m->model, m->set));
    return draw_tokens(m);
}

void cadre_bench_model_close(cadre_bench_model *m) {
    cadre_free(&m->samples);
    cadre_free(&m->labels);
    cadre_free(&m->inputs);
    cadre_parallel_close(&m->parallel);
    cadre_model_close(&m->model);
    cadre_queue_close(&m->queue);
    cadre_pool_close(&m->pool);
    cadre_bind(&m->binding, false);
    cadre_settings_close(&m->set);
}

static cadre_status next_pass(void *self, int64_t micro, cadre_pass *ret_pass) {
    const cadre_bench_model *m = self;
    const cadre_train_cfg *c = &m->cfg.train;
    (void)micro;
    memset(ret_pass, 0, sizeof *ret_pass);
    ret_pass->key.seed = (uint64_t)c->seed;
    ret_pass->key.samples = m->samples;
    ret_pass->key.sample_count = c->micro_batch;
    ret_pass->inputs = 2;
    for (int i = 0; i < 2; i++) {
        ret_pass->input[i].name = i ? "labels" : "inputs";
        ret_pass->input[i].tensor = (cadre_tensor){.dtype = CADRE_I32,
                                                   .dims = cadre_dims2(c->micro_batch, c->context),
                                                   .data = i ? m->labels : m->inputs,
                                                   .id = -1};
    }
    return CADRE_OK;
}

/* As a run does under train.recompute and train.memory_limit. */
static cadre_status fit(const cadre_bench_model *m, cadre_parallel *p) {
    cadre_pass shapes;
    if (!cadre_recompute_asked(&m->cfg.train)) return CADRE_OK;
    CADRE_TRY(next_pass((void *)m, 0, &shapes));
    shapes.training = true;
    return cadre_recompute_fit(&m->cfg, p, &shapes, m->base);
}

cadre_status cadre_bench_parallel_open(const cadre_bench_model *m, cadre_comm *world,
                                       cadre_queue *queue, cadre_parallel **ret_parallel) {
    cadre_parallel_cfg cfg = m->cfg.parallel;
    cadre_parallel *p = NULL;
    cfg.dp = cadre_comm_size(world);
    CADRE_TRY(cadre_parallel_open(&p, world, m->model, queue, &cfg, &m->cfg.optim));
    cadre_status st = fit(m, p);
    if (!st && !queue->meta) st = cadre_parallel_draw(p);
    if (st) {
        cadre_parallel_close(&p);
        return st;
    }
    *ret_parallel = p;
    return CADRE_OK;
}

cadre_status cadre_bench_model_step(cadre_bench_model *m, cadre_parallel *p, int64_t step,
                                    cadre_step_result *ret_result) {
    const cadre_micro_source source = {m, next_pass};
    return cadre_parallel_step(p, &source, m->micros, step, NULL, ret_result);
}

json_t *cadre_bench_model_row(const cadre_bench_model *m) {
    const cadre_config *c = &m->cfg;
    return json_pack("{s:s, s:s, s:i, s:i, s:I, s:I}", "model", c->model.preset, "dtype",
                     cadre_dtype_name(cadre_model_dtype(m->model)), "ranks",
                     cadre_comm_size(m->world), "threads", cadre_pool_threads(m->pool),
                     "micro_batch", (json_int_t)c->train.micro_batch, "context",
                     (json_int_t)c->train.context);
}
