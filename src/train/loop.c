/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop. A step: batch, forward and backward, update, report; then an evaluation and a
 * checkpoint when they are due. Whatever ends the loop early travels as a vote inside the step, so
 * that all ranks leave after the same one.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "train/run_private.h"

enum { MEMORY_STEPS = 3 }; /* whose every action is followed by a look at the memory */
enum { VOTE_SIGTERM, VOTE_SIGUSR1, VOTE_SIGINT, VOTE_CHECKPOINT };

/* Calls an observer's function on rank 0 for every observer that has it. */
#define TELL(run, function, ...)                                                                   \
    do {                                                                                           \
        for (int o_ = 0; (run)->rank == 0 && o_ < (run)->opts->observer_count; o_++)               \
            if ((run)->opts->observers[o_].function)                                               \
                CADRE_TRY((run)->opts->observers[o_].function((run)->opts->observers[o_].self,     \
                                                              __VA_ARGS__));                       \
    } while (0)

static cadre_status tell_trace(cadre_run *run, int64_t step) {
    for (int i = 0; i < run->opts->observer_count; i++) {
        const cadre_observer *o = &run->opts->observers[i];
        if (o->rank_trace) CADRE_TRY(o->rank_trace(o->self, run, run->rank, step));
    }
    return CADRE_OK;
}

/* ---- one step ---- */

static cadre_status next_micro(void *self, int64_t micro, cadre_pass *ret_pass) {
    cadre_run *run = self;
    const cadre_micro_batch *batch = NULL;
    (void)micro;
    CADRE_TRY(cadre_loader_next(run->loader, &batch));
    memset(ret_pass, 0, sizeof *ret_pass);
    ret_pass->training = true;
    ret_pass->label_smoothing = run->cfg.optim.label_smoothing;
    ret_pass->key = (cadre_draw_key){.seed = (uint64_t)run->cfg.train.seed,
                                     .step = run->step + 1,
                                     .samples = batch->samples,
                                     .sample_count = batch->rows};
    ret_pass->inputs = 2;
    cadre_tensor shape = {
        .dtype = CADRE_I32, .dims = cadre_dims2(batch->rows, batch->context), .id = -1};
    ret_pass->input[0] = (cadre_named_tensor){"inputs", shape};
    ret_pass->input[0].tensor.data = batch->inputs;
    ret_pass->input[1] = (cadre_named_tensor){"labels", shape};
    ret_pass->input[1].tensor.data = batch->labels;
    return CADRE_OK;
}

static void cast_votes(const cadre_run *run, bool ret_vote[CADRE_VOTES]) {
    int signal = run->opts->stop_signal ? *run->opts->stop_signal : 0;
    int64_t every_ns = run->cfg.checkpoint.every.ms * 1000000;
    ret_vote[VOTE_SIGTERM] = signal == SIGTERM;
    ret_vote[VOTE_SIGUSR1] = signal == SIGUSR1;
    ret_vote[VOTE_SIGINT] = signal != 0 && signal != SIGTERM && signal != SIGUSR1;
    ret_vote[VOTE_CHECKPOINT] =
        run->rank == 0 && every_ns > 0 && cadre_now_ns() - run->saved_ns >= every_ns;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int64_t evaluations_left(const cadre_run *run) {
    int64_t every = run->cfg.train.eval_every, steps = run->cfg.train.steps;
    if (cadre_corpus_valid(run->corpus)->count < 2) return 0;
    return every > 0 ? (steps - 1) / every - run->step / every + 1 : 1; /* one at the end */
}

/* From the median of the last steps' times, and the evaluations to come as long as the last. */
static double seconds_left(const cadre_run *run) {
    double sorted[CADRE_STEP_WINDOW];
    int n = run->steps_here < CADRE_STEP_WINDOW ? (int)run->steps_here : CADRE_STEP_WINDOW;
    if (n < 3) return NAN;
    memcpy(sorted, run->step_ms, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    return sorted[n / 2] * 1e-3 * (double)(run->cfg.train.steps - run->step) +
           run->valid_seconds * (double)evaluations_left(run);
}

static int64_t samples_after(const cadre_run *run) {
    int64_t samples = run->samples + run->batching.batch;
    return samples < run->batching.end ? samples : run->batching.end;
}

static cadre_status report_step(cadre_run *run, const cadre_step_result *r, double wall_ms) {
    double times[4] = {wall_ms, (double)r->data_ns * 1e-6, (double)r->comm_ns * 1e-6,
                       (double)r->exposed_ns * 1e-6};
    CADRE_TRY(
        cadre_all_reduce(run->world, times, times, 4, CADRE_F64, CADRE_MAX, "step times", NULL));
    run->step_ms[run->steps_here++ % CADRE_STEP_WINDOW] = times[0];
    if (run->steps_here == 1) run->end.first_loss = r->loss;
    run->end.last_loss = r->loss;
    run->end.step = run->step;
    cadre_step_report report = {
        .step = run->step,
        .steps = run->cfg.train.steps,
        .unix_time = cadre_unix_time(),
        .epoch = (double)run->samples / (double)run->sampler.per_epoch,
        .samples = run->samples,
        .tokens = run->samples * run->cfg.train.context,
        .loss = r->loss,
        .lr = r->lr,
        .grad_norm = r->grad_norm,
        .step_ms = times[0],
        .data_ms = times[1],
        .comm_ms = times[2],
        .exposed_ms = times[3],
        .tokens_per_s = times[0] > 0 ? r->count / (times[0] * 1e-3) : 0,
        .skipped = r->skipped,
        .seconds_left = seconds_left(run),
    };
    if (r->skipped && run->rank == 0)
        cadre_log(CADRE_LOG_WARN, "step %" PRId64 " is left out: %s", run->step, r->nonfinite);
    TELL(run, step, &report);
    return CADRE_OK;
}

static cadre_status one_step(cadre_run *run, cadre_step_result *ret_result) {
    const cadre_micro_source source = {run, next_micro};
    bool vote[CADRE_VOTES];
    cast_votes(run, vote);
    CADRE_TRY(tell_trace(run, run->step + 1));
    int64_t begin = cadre_now_ns();
    CADRE_TRY(cadre_parallel_step(run->parallel, &source, run->batching.accumulation, run->step + 1,
                                  vote, ret_result));
    double wall_ms = (double)(cadre_now_ns() - begin) * 1e-6;
    run->samples = samples_after(run);
    run->step++;
    CADRE_TRY(report_step(run, ret_result, wall_ms));
    int64_t every = run->cfg.parallel.check_every;
    if (run->steps_here == 1 || (every > 0 && run->step % every == 0))
        CADRE_TRY(cadre_parallel_check_equal(run->parallel, run->step));
    return CADRE_OK;
}

/* ---- evaluation ---- */

static void eval_progress(void *self, int64_t done, int64_t of) {
    cadre_run *run = self;
    for (int i = 0; run->rank == 0 && i < run->opts->observer_count; i++)
        if (run->opts->observers[i].eval_progress)
            run->opts->observers[i].eval_progress(run->opts->observers[i].self, done, of);
}

static cadre_status evaluate(cadre_run *run, bool *ret_stopped) {
    cadre_eval_report report = {.step = run->step};
    cadre_eval_job job = {
        .world = run->world,
        .tape = run->eval_tape,
        .model = run->model,
        .tokens = cadre_corpus_valid(run->corpus),
        .context = run->cfg.train.context,
        .micro_batch = run->cfg.train.micro_batch,
        .samples = run->cfg.train.eval_samples,
        .batch = &run->eval_batch,
        .stop_signal = run->opts->stop_signal,
        .progress = eval_progress,
        .self = run,
    };
    int64_t begin = cadre_now_ns();
    /* Whether votes are taken must not depend on the rank: a caller gives all or none a flag. */
    CADRE_TRY(cadre_evaluate(&job, &report.valid_loss, NULL, ret_stopped));
    if (*ret_stopped) return CADRE_OK; /* the next step ends the run, or the caller */
    report.unix_time = cadre_unix_time();
    report.seconds = (double)(cadre_now_ns() - begin) * 1e-9;
    report.bits_per_byte = report.valid_loss * run->bits_a_nat;
    report.best = isnan(run->end.best_valid) || report.valid_loss < run->end.best_valid;
    run->end.last_valid = report.valid_loss;
    run->valid_step = run->step;
    run->valid_seconds = report.seconds;
    cadre_memory_sample(&run->memory);
    if (report.best) {
        run->end.best_valid = report.valid_loss;
        run->end.best_step = run->step;
    }
    TELL(run, eval, &report);
    return CADRE_OK;
}

static bool evaluation_due(const cadre_run *run) {
    int64_t every = run->cfg.train.eval_every;
    if (cadre_corpus_valid(run->corpus)->count < 2) return false;
    return run->step == run->cfg.train.steps || (every > 0 && run->step % every == 0);
}

/* ---- checkpoints ---- */

static cadre_status save(cadre_run *run) {
    char folder[CADRE_PATH];
    cadre_join(folder, sizeof folder, run->folder, "checkpoints");
    const cadre_state_head head = {
        .step = run->step,
        .samples = run->samples,
        .data_hash = cadre_corpus_hash(run->corpus),
        .valid_loss = run->valid_step == run->step ? run->end.last_valid : NAN,
        .set = run->set,
        .tokenizer = cadre_corpus_tokenizer(run->corpus),
    };
    CADRE_TRY(cadre_state_save(run->world, run->parallel, run->model, folder, &head,
                               run->end.checkpoint));
    run->saved_ns = cadre_now_ns();
    TELL(run, saved, run->end.checkpoint, run->step);
    cadre_log(CADRE_LOG_INFO, "saved %s", run->end.checkpoint);
    if (run->rank == 0) CADRE_TRY(cadre_checkpoint_prune(folder, run->cfg.checkpoint.keep));
    return CADRE_OK;
}

static bool checkpoint_due(const cadre_run *run, const cadre_step_result *r) {
    int64_t every = run->cfg.checkpoint.every.steps;
    return run->step == run->cfg.train.steps || (every > 0 && run->step % every == 0) ||
           r->vote[VOTE_CHECKPOINT];
}

static bool stopped_by(const bool vote[CADRE_VOTES], cadre_end_reason *ret_reason) {
    static const struct {
        int vote;
        cadre_end_reason reason;
    } rows[] = {{VOTE_SIGINT, CADRE_END_SIGINT},
                {VOTE_SIGTERM, CADRE_END_SIGTERM},
                {VOTE_SIGUSR1, CADRE_END_SIGUSR1}};
    for (int i = 0; i < CADRE_COUNT(rows); i++)
        if (vote[rows[i].vote]) {
            *ret_reason = rows[i].reason;
            return true;
        }
    return false;
}

/* A signal in the evaluation behind the last step: no step follows that would take the votes. */
static cadre_status stop_after_all(cadre_run *run) {
    bool vote[CADRE_VOTES];
    int32_t votes[CADRE_VOTES];
    cast_votes(run, vote);
    for (int i = 0; i < CADRE_VOTES; i++) votes[i] = vote[i];
    CADRE_TRY(cadre_all_reduce(run->world, votes, votes, CADRE_VOTES, CADRE_I32, CADRE_MAX,
                               "stop votes", NULL));
    for (int i = 0; i < CADRE_VOTES; i++) vote[i] = votes[i];
    (void)stopped_by(vote, &run->end.reason);
    return save(run);
}

/* ---- memory ---- */

/* Walking the page tables takes its time: in the first steps, then ever more seldom. */
static void sample_memory(void *self) {
    cadre_run *run = self;
    int64_t n = run->steps_here + 1; /* of the step in progress */
    if (n <= MEMORY_STEPS || (n & (n - 1)) == 0) cadre_memory_sample(&run->memory);
}

/* Collective: plan and measurement of the rank that took the most. */
static cadre_status compare_memory(cadre_run *run) {
    enum { PLANNED = 1, MEASURED = PLANNED + CADRE_MEM_KINDS, WORDS = MEASURED + CADRE_MEM_KINDS };
    int size = cadre_comm_size(run->world);
    cadre_end_report *e = &run->end;
    int64_t mine[WORDS] = {run->memory.peak}, *all = NULL;
    for (int i = 0; i < CADRE_MEM_KINDS; i++) {
        mine[PLANNED + i] = e->planned_bytes[i];
        mine[MEASURED + i] = run->memory.at_peak[i];
    }
    CADRE_TRY(cadre_alloc_array(&all, CADRE_MEM_OTHER, size, sizeof mine));
    cadre_status st =
        cadre_all_gather(run->world, mine, all, WORDS, CADRE_I64, "peak memory", NULL);
    const int64_t *most = all;
    for (int r = 1; !st && r < size; r++)
        if (all[(size_t)r * WORDS] > most[0]) most = all + (size_t)r * WORDS;
    e->peak_measured_bytes = st ? run->memory.peak : most[0];
    e->peak_predicted_bytes = 0;
    for (int i = 0; !st && i < CADRE_MEM_KINDS; i++) {
        e->planned_bytes[i] = most[PLANNED + i];
        e->measured_bytes[i] = most[MEASURED + i];
        e->peak_predicted_bytes += e->planned_bytes[i];
    }
    cadre_free(&all);
    return st;
}

/* ---- to the end ---- */

static cadre_status steps(cadre_run *run) {
    run->end.reason = CADRE_END_DONE;
    while (run->step < run->cfg.train.steps) {
        cadre_step_result result;
        CADRE_TRY(one_step(run, &result));
        if (stopped_by(result.vote, &run->end.reason)) return save(run);
        bool stopped = false;
        if (evaluation_due(run)) CADRE_TRY(evaluate(run, &stopped));
        if (stopped && run->step == run->cfg.train.steps) return stop_after_all(run);
        if (checkpoint_due(run, &result)) CADRE_TRY(save(run));
    }
    return CADRE_OK;
}

cadre_status cadre_run_loop(cadre_run *run) {
    int64_t begin = cadre_now_ns();
    run->started = true;
    TELL(run, start, run, &run->plan);
    if (run->from[0]) TELL(run, resumed, run, run->step);
    cadre_bind(&run->binding, true);
    cadre_parallel_on_action(run->parallel, sample_memory, run);
    CADRE_TRY(steps(run));
    CADRE_TRY(tell_trace(run, 0));
    cadre_parallel_on_action(run->parallel, NULL, NULL);
    cadre_memory_sample(&run->memory);
    CADRE_TRY(compare_memory(run));
    run->end.seconds = (double)(cadre_now_ns() - begin) * 1e-9;
    TELL(run, end, &run->end);
    return CADRE_OK;
}
