/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank has in a run, in a trainer and in a bench alike: its threads, and checkpoints of the
 * model it trains.
 */
#ifndef CADRE_TRAIN_RANK_H
#define CADRE_TRAIN_RANK_H

#include <sched.h>

#include "base/file.h"
#include "base/threads.h"
#include "data/corpus.h"
#include "parallel/parallel.h"
#include "train/settings.h"

/* Where the calling thread may run: anywhere it could before, or on its rank's cores. */
typedef struct cadre_binding {
    int cores; /* of this rank; 0: not pinned */
    cpu_set_t before, own;
} cadre_binding;

/* Threads of a rank (open.c): the pool, and this thread's cores when `pin`; not bound yet. */
cadre_status cadre_rank_threads(cadre_comm *world, int64_t threads, bool pin, cadre_pool **ret_pool,
                                cadre_binding *ret_binding);
/* Binds the calling thread to its cores (`own`), or back to where it was. Threads that it starts
 * inherit that, so it is unbound around whatever starts or counts for the whole process. */
void cadre_bind(const cadre_binding *binding, bool own);

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
/* Collective. Every rank reads the weights that `path` (model.from) means, and nothing else;
 * `ret_folder` is where they lay. */
cadre_status cadre_state_start(cadre_comm *world, cadre_parallel *p, const cadre_model *model,
                               const char *path, char ret_folder[CADRE_PATH]);
/* Every rank reads values and optimizer state; `data_hash` 0: not compared. */
cadre_status cadre_state_load(cadre_comm *world, cadre_parallel *p, const cadre_model *model,
                              const char *path, uint64_t data_hash, int64_t *ret_step,
                              int64_t *ret_samples, double *ret_valid_loss);

/* train.recompute and train.memory_limit (fit.c). */
bool cadre_recompute_asked(const cadre_train_cfg *c); /* there is anything to choose or to refuse */
/* Local: from the next step on, steps of such micro-batches compute so many blocks again that they
 * fit. `base`: bytes of the process before it opened anything. CADRE_ERESOURCE: they do not fit. */
cadre_status cadre_recompute_fit(const cadre_config *c, cadre_parallel *p, const cadre_pass *shapes,
                                 int64_t base);

/* Only token models are trained from data sets so far. */
cadre_status cadre_check_model_kind(const cadre_config *c);

#endif
