/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of a run share: the run itself, its pieces in the order in which they are opened.
 */
#ifndef CADRE_TRAIN_RUN_PRIVATE_H
#define CADRE_TRAIN_RUN_PRIVATE_H

#include <math.h>

#include "checkpoint/checkpoint.h"
#include "data/loader.h"
#include "train/rank.h"
#include "train/memory.h"
#include "train/run.h"

enum {
    CADRE_LOADER_AHEAD = 4, /* micro-batches the loader keeps ready */
    CADRE_STEP_WINDOW = 32, /* step times that the median for the time left is taken over */
};

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
    cadre_micro_batch eval_batch;
    double bits_a_nat; /* bits a byte of text that a loss of one nat is; NaN: not text */
    cadre_loader *loader;
    cadre_plan plan;
    cadre_memory memory;
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

/* What a rank needs beside activations, data and buffers of the loader, by category (fit.c). */
cadre_status cadre_other_bytes(const cadre_config *c, const cadre_parallel *p,
                               const cadre_pass *step, int64_t base,
                               int64_t ret_bytes[CADRE_MEM_KINDS]);
/* How many blocks a pass computes again under train.recompute and train.memory_limit (fit.c), when
 * a rank needs `others` bytes beside the pass's activations. What does not fit is CADRE_ERESOURCE
 * with `must_fit`, else every block under `auto`. */
enum { CADRE_RECOMPUTE_ALL = INT32_MAX };
cadre_status cadre_recompute_choose(const cadre_train_cfg *c, const cadre_parallel *p,
                                    const cadre_pass *shapes, int64_t others, bool must_fit,
                                    int *ret_blocks, cadre_pass_cost *ret_cost);

/* The dry run of one rank (plan.c), on resolved settings with the learning rate scaled. */
typedef struct cadre_plan_facts {
    int64_t loader_bytes; /* ring and tokens */
    int64_t base_bytes;   /* of the process before it opened anything */
    bool evaluates;       /* there is something to evaluate */
    bool must_fit;        /* above train.memory_limit is refused, not planned */
} cadre_plan_facts;
cadre_status cadre_plan_measure(const cadre_config *c, const cadre_model *model,
                                const cadre_plan_facts *facts, cadre_plan *ret_plan);
/* The shapes of a micro-batch, without data. */
cadre_pass cadre_plan_shapes(const cadre_train_cfg *c, bool training);
int64_t cadre_plan_loader_bytes(const cadre_config *c, int64_t corpus_tokens, bool wide);

#endif
