/* SPDX-License-Identifier: Apache-2.0
 *
 * A run: the loop that `cadre train` and cadre_train_file share. It reports through observers and
 * never prints; insight has the observers (console, metrics.jsonl, TensorBoard, trace), the callers
 * join them.
 */
#ifndef CADRE_TRAIN_RUN_H
#define CADRE_TRAIN_RUN_H

#include "base/file.h"
#include "comm/comm.h"
#include "data/corpus.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "parallel/parallel.h"
#include "train/settings.h"

/* One finished step. Numbers are global; times are maxima over the ranks. */
typedef struct cadre_step_report {
    int64_t step, steps; /* done, of so many */
    double unix_time;
    double epoch;            /* samples / samples an epoch */
    int64_t samples, tokens; /* cumulative */
    double loss, lr, grad_norm;
    double step_ms, data_ms, comm_ms, exposed_ms, tokens_per_s;
    bool skipped;
    double seconds_left; /* NaN: not known yet */
} cadre_step_report;

typedef struct cadre_eval_report {
    int64_t step;
    double unix_time, valid_loss;
    double bits_per_byte; /* NaN: not text */
    double seconds;
    bool best;
} cadre_eval_report;

typedef enum cadre_end_reason {
    CADRE_END_DONE,
    CADRE_END_SIGTERM,
    CADRE_END_SIGUSR1,
    CADRE_END_SIGINT,
    CADRE_END_FAILED,
    CADRE_END_FINISHED_BEFORE
} cadre_end_reason;
const char *cadre_end_name(cadre_end_reason reason); /* "done", "sigterm", ... */

typedef struct cadre_end_report {
    cadre_end_reason reason;
    int64_t step, first_step;                             /* of this call */
    double first_loss, last_loss, best_valid, last_valid; /* NaN: none */
    int64_t best_step;
    int64_t peak_measured_bytes, peak_predicted_bytes;                       /* largest rank */
    int64_t planned_bytes[CADRE_MEM_KINDS], measured_bytes[CADRE_MEM_KINDS]; /* the parts of them */
    double seconds;
    char checkpoint[CADRE_PATH]; /* the last one written or found; "" */
} cadre_end_report;

/* The plan: what is printed before step 0 and by `cadre plan`. */
typedef struct cadre_plan {
    int ranks, threads;
    int64_t parameters, trainable;
    int64_t bytes_per_rank[CADRE_MEM_KINDS];
    double flops_per_step; /* all ranks; without what is computed again */
    int blocks;            /* of the model */
    int recompute;         /* the first so many are computed again, where that saves memory */
    int recomputed_blocks; /* that are */
    double recompute_flops_per_step; /* all ranks */
    int64_t traffic_bytes;           /* payload all-reduced over dp a step */
    int buckets;
    int64_t samples_per_epoch, train_tokens, valid_tokens; /* 0: no data (plan) */
    double lr_scaled_from; /* optim.lr before scale_lr; NaN: not scaled */
} cadre_plan;

typedef struct cadre_run cadre_run;

/* Called on rank 0 alone, except `rank_trace` (every rank). Any may be NULL. */
typedef struct cadre_observer {
    void *self;
    cadre_status (*start)(void *self, const cadre_run *run, const cadre_plan *plan);
    cadre_status (*resumed)(void *self, const cadre_run *run, int64_t step);
    cadre_status (*step)(void *self, const cadre_step_report *report);
    cadre_status (*eval)(void *self, const cadre_eval_report *report);
    void (*eval_progress)(void *self, int64_t done, int64_t of);
    cadre_status (*saved)(void *self, const char *path, int64_t step);
    cadre_status (*end)(void *self, const cadre_end_report *report);
    /* On every rank, in the loop's thread: right before step `step` begins, and with step 0 when
     * the last one is over. */
    cadre_status (*rank_trace)(void *self, const cadre_run *run, int rank, int64_t step);
} cadre_observer;

/* Signals arrive as flags that the caller sets (cli's handlers); the library installs none. 0 none,
 * else a signal number. */
typedef struct cadre_run_opts {
    const char *folder; /* the run folder chosen by cadre_run_folder; NULL: choose here (rank 0,
                           then broadcast) */
    bool resume;        /* continue from `folder`'s newest complete checkpoint */
    const volatile int *stop_signal;
    const cadre_observer *observers;
    int observer_count;
} cadre_run_opts;

/* Which folder this run writes to, by checkpoint.resume and what is there (interface.md section 3,
 * "Second run of the same name"). `ret_said`: a line for people ("runs/x exists; continuing from
 * step 500", or "... writing to runs/x-2"); "" when new. */
typedef struct cadre_run_place {
    char folder[CADRE_PATH];
    bool resume, finished; /* finished: already at train.steps; nothing to do, exit 0 */
    char checkpoint[CADRE_PATH];
    char said[1024];
} cadre_run_place;
cadre_status cadre_run_folder(const cadre_settings *set, cadre_run_place *ret_place);

/* Collective over `world`: the whole run. `set` as given by the user, resolved here. */
cadre_status cadre_run_train(cadre_comm *world, cadre_settings *set, const cadre_run_opts *opts,
                             cadre_end_report *ret_end);

/* For observers. */
const cadre_settings *cadre_run_settings_of(const cadre_run *run); /* resolved */
const cadre_config *cadre_run_config(const cadre_run *run);
const char *cadre_run_folder_of(const cadre_run *run);

/* The dry run: a plan with no data and no ranks started (train/plan.c). `set` is resolved in place.
 */
cadre_status cadre_plan_make(cadre_settings *set, cadre_plan *ret_plan);
/* The vocabulary of a plan without data and without model.vocab. */
enum { CADRE_PLAN_VOCAB = 256 };

/* Exact loss over a run of tokens (train/eval.c), dealt over the ranks of `world`. */
typedef struct cadre_eval_job {
    cadre_comm *world;
    cadre_tape *tape; /* over the parameters to evaluate */
    const cadre_model *model;
    const cadre_run_of_tokens *tokens;
    int64_t context, micro_batch;
    int64_t samples;                 /* windows at most; 0: all */
    cadre_micro_batch *batch;        /* of these sizes, to be used; NULL: one is made */
    const volatile int *stop_signal; /* not 0 on any rank: all stop; NULL: never */
    void (*progress)(void *self, int64_t done, int64_t of); /* NULL: nobody looks */
    void *self;
} cadre_eval_job;
/* Collective over job->world. Mean loss in nats and the number of tokens that count (may be NULL).
 * `ret_stopped` (may be NULL when there is no stop_signal): it was cut short, nothing else is
 * written. */
cadre_status cadre_evaluate(const cadre_eval_job *job, double *ret_loss, double *ret_count,
                            bool *ret_stopped);
/* Local. The loss of a corpus' validation part in bits a byte of text; NaN when it is not text. */
double cadre_bits_per_byte(const cadre_corpus *corpus, double loss);

#endif
