/* SPDX-License-Identifier: Apache-2.0
 *
 * A run from its settings to the moment before the first step: data, folder, threads, model,
 * parameters (drawn, or out of a checkpoint), loader, plan. Close is its mirror image.
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/log.h"
#include "base/status.h"
#include "train/run_private.h"

cadre_status cadre_check_model_kind(const cadre_config *c) {
    CADRE_TRY(cadre_model_kind_check(c->model.kind));
    CADRE_CHECK(c->model.kind != CADRE_KIND_MLP, CADRE_EUSAGE,
                "data sets of text train models of kind gpt2; an mlp is trained through "
                "cadre_trainer_step");
    return CADRE_OK;
}

static cadre_status check_tokens(const cadre_run *run) {
    int64_t vocab = run->cfg.model.vocab;
    const cadre_run_of_tokens *parts[] = {cadre_corpus_train(run->corpus),
                                          cadre_corpus_valid(run->corpus)};
    for (int i = 0; i < CADRE_COUNT(parts); i++)
        CADRE_CHECK(parts[i]->count == 0 || parts[i]->largest < vocab, CADRE_EDATA,
                    "the %s data have token %" PRId32 ", out of range of model.vocab=%" PRId64 "%s",
                    i ? "validation" : "training", parts[i]->largest, vocab,
                    run->cfg.model.from ? ", which the weights of model.from have"
                                        : "; give a larger one or leave it out");
    return CADRE_OK;
}

/* Characters of another text have other numbers; weights would be trained on as if they were the
 * same. */
static cadre_status check_characters(const cadre_run *run) {
    const cadre_tokenizer *t = cadre_corpus_tokenizer(run->corpus);
    CADRE_CHECK(!t || strcmp(cadre_tokenizer_kind(t), "char") != 0 ||
                    cadre_tokenizer_vocab(t) == run->cfg.model.vocab,
                CADRE_EUSAGE,
                "the data have %" PRId64 " characters, the weights of model.from a vocabulary of "
                "%" PRId64 "; give the tokenizer that they were trained with (data.tokenizer)",
                cadre_tokenizer_vocab(t), run->cfg.model.vocab);
    return CADRE_OK;
}

/* Where the validation data come from is known once the data are read. */
static cadre_status derive_valid(cadre_run *run) {
    if (run->cfg.data.valid.count)
        return cadre_settings_derive(run->set, "data.valid_fraction", "0");
    return cadre_settings_derive(run->set, "data.valid_fraction", "%s",
                                 cadre_corpus_valid(run->corpus)->count ? "0.1" : "0");
}

static cadre_status open_data(cadre_run *run) {
    cadre_facts facts = {.world = run->size, .local_size = cadre_comm_local_size(run->world)};
    CADRE_TRY(cadre_settings_resolve(run->set, &facts));
    CADRE_TRY(cadre_config_fill(run->set, &run->cfg));
    CADRE_TRY(cadre_check_model_kind(&run->cfg));
    CADRE_TRY(cadre_corpus_open(&run->corpus, &run->cfg.data));
    if (run->cfg.model.from) CADRE_TRY(check_characters(run));
    if (run->cfg.model.from || cadre_settings_given(run->set, "model.vocab"))
        CADRE_TRY(check_tokens(run));
    CADRE_TRY(cadre_sampler_plan(&run->sampler, (uint64_t)run->cfg.train.seed,
                                 cadre_corpus_train(run->corpus)->count, run->cfg.train.context,
                                 run->cfg.data.shuffle));
    facts.vocab = cadre_corpus_vocab(run->corpus);
    facts.samples_per_epoch = run->sampler.per_epoch;
    CADRE_TRY(derive_valid(run));
    CADRE_TRY(cadre_settings_resolve(run->set, &facts));
    CADRE_TRY(cadre_config_fill(run->set, &run->cfg));
    return cadre_batching_plan(&run->batching, run->cfg.train.batch, run->cfg.train.micro_batch,
                               (int)run->cfg.parallel.dp, run->rank);
}

/* Rank 0 decides, everybody follows. */
static cadre_status agree_on_folder(cadre_run *run) {
    cadre_run_place place;
    memset(&place, 0, sizeof place);
    if (run->rank == 0 && !run->opts->folder) {
        CADRE_TRY(cadre_run_folder(run->set, &place));
        if (place.said[0]) cadre_log(CADRE_LOG_INFO, "%s", place.said);
    } else if (run->rank == 0) {
        const char *resume = run->cfg.checkpoint.resume;
        bool path = strcmp(resume, "auto") != 0 && strcmp(resume, "never") != 0;
        snprintf(place.folder, sizeof place.folder, "%s", run->opts->folder);
        place.resume = run->opts->resume;
        if (place.resume)
            CADRE_TRY(cadre_checkpoint_find(path ? resume : place.folder, place.checkpoint, NULL));
    }
    CADRE_TRY(cadre_broadcast(run->world, &place, sizeof place, CADRE_U8, 0, "run folder", NULL));
    snprintf(run->folder, sizeof run->folder, "%s", place.folder);
    snprintf(run->from, sizeof run->from, "%s", place.resume ? place.checkpoint : "");
    if (run->rank == 0) CADRE_TRY(cadre_mkdirs(run->folder));
    return CADRE_OK;
}

cadre_status cadre_rank_threads(cadre_comm *world, int64_t threads, bool pin, cadre_pool **ret_pool,
                                cadre_binding *ret_binding) {
    int cpus[1024], n = 0;
    cadre_binding binding = {0};
    if (pin && !sched_getaffinity(0, sizeof binding.before, &binding.before))
        n = cadre_cpus_share(cadre_comm_local_rank(world), cadre_comm_local_size(world), cpus,
                             CADRE_COUNT(cpus));
    bool each = n >= threads; /* a core for each thread */
    CADRE_TRY(
        cadre_pool_open(ret_pool, (int)threads, each ? cpus : NULL, cadre_kernel_thread_start));
    CPU_ZERO(&binding.own);
    for (int i = 0; i < n; i++)
        if ((!each || i == 0) && cpus[i] < CPU_SETSIZE) CPU_SET(cpus[i], &binding.own);
    binding.cores = n;
    *ret_binding = binding;
    return CADRE_OK;
}

void cadre_bind(const cadre_binding *binding, bool own) {
    if (binding->cores == 0) return;
    /* Where it is not allowed, the thread runs where the system puts it. */
    (void)sched_setaffinity(0, sizeof(cpu_set_t), own ? &binding->own : &binding->before);
}

static cadre_status open_model(cadre_run *run) {
    const cadre_config *c = &run->cfg;
    CADRE_TRY(
        cadre_rank_threads(run->world, c->run.threads, c->run.pin, &run->pool, &run->binding));
    cadre_bind(&run->binding, true); /* memory is touched first where it is used */
    cadre_log(CADRE_LOG_INFO, "rank %d of %d: transport %s, %d threads, %s", run->rank, run->size,
              cadre_comm_transport(run->world), cadre_pool_threads(run->pool),
              run->binding.cores ? "pinned" : "not pinned");
    CADRE_TRY(cadre_queue_open(&run->queue, c->run.device, run->pool));
    CADRE_TRY(cadre_model_open(&run->model, run->set));
    cadre_optim_scale(&run->cfg.optim, c->train.batch);
    return CADRE_OK;
}

static cadre_status open_parallel(cadre_run *run) {
    const cadre_config *c = &run->cfg;
    CADRE_TRY(cadre_parallel_open(&run->parallel, run->world, run->model, run->queue, &c->parallel,
                                  &c->optim));
    return cadre_parallel_tape(run->parallel, &run->eval_tape);
}

/* The best validation so far is among the checkpoints that were kept. */
static void look_for_best(cadre_run *run) {
    char folder[CADRE_PATH], path[CADRE_PATH], **names = NULL;
    int count = 0;
    cadre_join(folder, sizeof folder, run->folder, "checkpoints");
    if (cadre_list_folder(folder, &names, &count)) return;
    for (int i = 0; i < count; i++) {
        cadre_checkpoint *c = NULL;
        cadre_join(path, sizeof path, folder, names[i]);
        if (cadre_checkpoint_open(&c, path, false)) continue;
        const cadre_checkpoint_head *head = cadre_checkpoint_head_of(c);
        if (!isnan(head->valid_loss) &&
            (isnan(run->end.best_valid) || head->valid_loss < run->end.best_valid)) {
            run->end.best_valid = head->valid_loss;
            run->end.best_step = head->step;
        }
        cadre_checkpoint_close(&c);
    }
    cadre_names_free(&names, count);
}

static cadre_status start_from(cadre_run *run, const char *path) {
    char folder[CADRE_PATH] = "";
    CADRE_TRY(cadre_state_start(run->world, run->parallel, run->model, path, folder));
    cadre_text said = {0};
    cadre_text_add(&said, "starting from the weights of %s", folder);
    if (run->cfg.model.dropout > 0 && !cadre_settings_given(run->set, "model.dropout"))
        cadre_text_add(&said, ", with their model.dropout=%g", run->cfg.model.dropout);
    if (!said.status) cadre_log(CADRE_LOG_INFO, "%s", said.at);
    cadre_text_free(&said);
    return CADRE_OK;
}

static cadre_status open_parameters(cadre_run *run) {
    if (!run->from[0] && run->cfg.model.from) return start_from(run, run->cfg.model.from);
    if (!run->from[0]) return cadre_parallel_draw(run->parallel);
    CADRE_TRY(cadre_state_load(run->world, run->parallel, run->model, run->from,
                               cadre_corpus_hash(run->corpus), &run->step, &run->samples,
                               &run->end.last_valid));
    run->end.best_valid = run->end.last_valid;
    run->end.best_step = run->step;
    snprintf(run->end.checkpoint, sizeof run->end.checkpoint, "%s", run->from);
    if (run->rank == 0) look_for_best(run);
    cadre_log(CADRE_LOG_INFO, "continuing from %s: step %" PRId64, run->from, run->step);
    return CADRE_OK;
}

/* Rather a sentence before the first step than the out-of-memory killer in it. */
static cadre_status check_memory(const cadre_run *run) {
    char need[32], have[32];
    double machine = cadre_memory_of_machine();
    int ranks = cadre_comm_local_size(run->world);
    double all = (double)run->end.peak_predicted_bytes * ranks;
    CADRE_CHECK(all <= machine, CADRE_ERESOURCE,
                "the plan needs %s for %d rank%s of this machine, which has %s; take a smaller "
                "train.micro_batch, train.context or model",
                cadre_show_bytes(need, sizeof need, all), ranks, ranks == 1 ? "" : "s",
                cadre_show_bytes(have, sizeof have, machine));
    return CADRE_OK;
}

static cadre_status open_plan(cadre_run *run) {
    const cadre_config *c = &run->cfg;
    cadre_config unscaled;
    const cadre_run_of_tokens *train = cadre_corpus_train(run->corpus);
    int64_t valid = cadre_corpus_valid(run->corpus)->count;
    /* The rank that brings most decides what fits, so that all recompute the same blocks. */
    int64_t base = run->base_bytes;
    CADRE_TRY(cadre_all_reduce(run->world, &base, &base, 1, CADRE_I64, CADRE_MAX, "base", NULL));
    const cadre_plan_facts facts = {
        .loader_bytes = cadre_plan_loader_bytes(c, train->count + valid, train->wide),
        .base_bytes = base,
        .evaluates = valid > 1,
        .must_fit = true};
    CADRE_TRY(cadre_plan_measure(c, run->model, &facts, &run->plan));
    run->plan.bytes_per_rank[CADRE_MEM_OTHER] += run->base_bytes - base;
    CADRE_TRY(cadre_config_fill(run->set, &unscaled));
    if (c->optim.scale_lr != CADRE_SCALE_NONE) run->plan.lr_scaled_from = unscaled.optim.lr;
    run->plan.samples_per_epoch = run->sampler.per_epoch;
    run->plan.train_tokens = train->count;
    run->plan.valid_tokens = valid;
    for (int i = 0; i < CADRE_MEM_KINDS; i++) {
        run->end.planned_bytes[i] = run->plan.bytes_per_rank[i];
        run->end.peak_predicted_bytes += run->plan.bytes_per_rank[i];
    }
    return run->rank == 0 ? check_memory(run) : CADRE_OK;
}

/* What evaluations need is taken now; the first step takes the rest. */
static cadre_status take_memory(cadre_run *run) {
    const cadre_train_cfg *c = &run->cfg.train;
    cadre_parallel_recompute(run->parallel, run->plan.recompute);
    const cadre_pass evaluation = cadre_plan_shapes(c, false);
    if (cadre_corpus_valid(run->corpus)->count < 2) return CADRE_OK;
    run->bits_a_nat = cadre_bits_per_byte(run->corpus, 1);
    CADRE_TRY(cadre_parallel_reserve(run->parallel, run->eval_tape, &evaluation));
    return cadre_micro_batch_open(&run->eval_batch, c->micro_batch, c->context);
}

cadre_status cadre_run_open(cadre_run *run, cadre_comm *world, cadre_settings *set,
                            const cadre_run_opts *opts) {
    run->world = world;
    run->rank = cadre_comm_rank(world);
    run->size = cadre_comm_size(world);
    run->set = set;
    run->opts = opts;
    run->base_bytes = cadre_memory_now();
    run->end.first_loss = run->end.last_loss = NAN;
    run->end.best_valid = run->end.last_valid = NAN;
    CADRE_TRY(open_data(run));
    CADRE_TRY(agree_on_folder(run));
    CADRE_TRY(open_model(run));
    CADRE_TRY(open_plan(run)); /* before the memory is taken that may not be there */
    CADRE_TRY(open_parallel(run));
    CADRE_TRY(open_parameters(run));
    run->end.step = run->end.first_step = run->step;
    if (!isnan(run->cfg.train.epochs))
        run->batching.end =
            (int64_t)ceil(run->cfg.train.epochs * (double)run->sampler.per_epoch - 1e-6);
    if (run->step >= run->cfg.train.steps)
        return CADRE_OK; /* finished before: no step to load for */
    CADRE_TRY(take_memory(run));
    CADRE_TRY(cadre_loader_open(&run->loader, cadre_corpus_train(run->corpus), &run->sampler,
                                &run->batching, run->samples, CADRE_LOADER_AHEAD));
    run->saved_ns = cadre_now_ns();
    return CADRE_OK;
}

void cadre_run_close(cadre_run *run) {
    cadre_loader_close(&run->loader);
    cadre_micro_batch_close(&run->eval_batch);
    cadre_tape_close(&run->eval_tape);
    cadre_parallel_close(&run->parallel);
    cadre_model_close(&run->model);
    cadre_queue_close(&run->queue);
    cadre_pool_close(&run->pool);
    cadre_bind(&run->binding, false);
    cadre_corpus_close(&run->corpus);
}
