/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of a run share: the run itself, its pieces in the order in which they are opened.
 */
#ifndef CADRE_TRAIN_RUN_PRIVATE_H
#define CADRE_TRAIN_RUN_PRIVATE_H

#include <math.h>
#include <sched.h>

#include "checkpoint/checkpoint.h"
#include "data/loader.h"
#include "train/run.h"

enum {
    CADRE_LOADER_AHEAD = 4, /* micro-batches the loader keeps ready */
    CADRE_STEP_WINDOW = 32, /* step times that the median for the time left is taken over */
};

/* Where the calling thread may run: anywhere it could before, or on its rank's cores. */
typedef struct cadre_binding {
    int cores; /* of this rank; 0: not pinned */
    cpu_set_t before, own;
} cadre_binding;

struct cadre_run {
    cadre_comm *world;
    int rank, size;
    cadre_settings *set; /* resolved, the caller's */
    cadre_config cfg;
    const cadre_run_opts *opts;

    cadre_corpus *corpus;
    cadre_sampler sampler;
    cadre_batching batching;
    char folder[CADRE_PATH];
    char from[CADRE_PATH]; /* checkpoint to continue from; "": none */

    cadre_binding binding; /* of the calling thread */
    cadre_pool *pool;
    cadre_queue *queue;
    cadre_model *model;
    cadre_parallel *parallel;
    cadre_tape *eval_tape;
    cadre_loader *loader;
    cadre_plan plan;
    int64_t base_bytes; /* of the process before the run opened anything */

    int64_t step, samples; /* done, consumed */
    int64_t saved_ns;      /* when the last checkpoint was written */
    double step_ms[CADRE_STEP_WINDOW];
    int64_t steps_here;   /* of this call */
    int64_t valid_step;   /* of the last evaluation of this call */
    double valid_seconds; /* it took */
    cadre_end_report end;
    bool started; /* observers have seen `start` */
};

/* The run's pieces (open.c): everything before the first step. */
cadre_status cadre_run_open(cadre_run *run, cadre_comm *world, cadre_settings *set,
                            const cadre_run_opts *opts);
void cadre_run_close(cadre_run *run);
/* The loop (loop.c), to the end or a signal. */
cadre_status cadre_run_loop(cadre_run *run);

/* Checkpoints of a model in training (state.c). Collective. */
typedef struct cadre_state_head {
    int64_t step, samples;
    uint64_t data_hash;
    double valid_loss;
    const cadre_settings *set;
    const cadre_tokenizer *tokenizer; /* NULL: none */
} cadre_state_head;
cadre_status cadre_state_save(cadre_comm *world, cadre_parallel *p, const cadre_model *model,
                              const char *folder, const cadre_state_head *head,
                              char ret_path[CADRE_PATH]);
/* Every rank reads values and optimizer state; `data_hash` 0: not compared. */
cadre_status cadre_state_load(cadre_comm *world, cadre_parallel *p, const cadre_model *model,
                              const char *path, uint64_t data_hash, int64_t *ret_step,
                              int64_t *ret_samples, double *ret_valid_loss);

/* Threads of a rank (open.c): the pool, and this thread's cores when `pin`; not bound yet. */
cadre_status cadre_rank_threads(cadre_comm *world, int64_t threads, bool pin, cadre_pool **ret_pool,
                                cadre_binding *ret_binding);
/* Binds the calling thread to its cores (`own`), or back to where it was. Threads that it starts
 * inherit that, so it is unbound around whatever starts or counts for the whole process. */
void cadre_bind(const cadre_binding *binding, bool own);

/* Only token models are trained from data sets so far. */
cadre_status cadre_check_model_kind(const cadre_config *c);
/* The dry run of one rank (plan.c), on resolved settings with the learning rate scaled. */
cadre_status cadre_plan_measure(const cadre_config *c, const cadre_model *model,
                                cadre_plan *ret_plan);
int64_t cadre_plan_loader_bytes(const cadre_config *c, int64_t corpus_tokens, bool wide);

#endif
