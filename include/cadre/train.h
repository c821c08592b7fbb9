/* SPDX-License-Identifier: Apache-2.0
 *
 * Cadre, train: the training loop in two tiers: one call, or your own loop around a trainer.
 */
#ifndef CADRE_TRAIN_H
#define CADRE_TRAIN_H

#include <cadre/comm.h>
#include <cadre/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1. One call. Collective over the world that the launcher made. Everything `cadre train RUN.yaml`
 * does, in this process: plan, run folder, metrics, checkpoints, resume. Installs no signal
 * handlers. */
CADRE_API cadre_status cadre_train_file(const char *run_file);

/* 2. Your own loop. */
typedef struct cadre_trainer cadre_trainer;

/* This rank's share of one optimizer step. Start from CADRE_BATCH. Ranks may hold different numbers
 * of samples, or none. */
typedef struct cadre_batch {
    size_t size;
    int64_t samples;    /* rows of dim 0 */
    const void *inputs; /* i32 tokens, or f32 features */
    cadre_dtype inputs_dtype;
    cadre_dims inputs_dims;
    const void *labels; /* i32 classes (-1: does not count), or f32 targets of cadre_squared_error;
                           NULL: none */
    cadre_dtype labels_dtype;
    cadre_dims labels_dims;
    const int64_t *ids; /* global index of each sample, keys dropout; NULL: counted from the samples
                           consumed, rank after rank */
} cadre_batch;

/* What a step did; the numbers are global over all ranks. Start from CADRE_REPORT. */
typedef struct cadre_report {
    size_t size;
    int64_t step;     /* optimizer steps done: the first is 1 */
    int64_t samples;  /* consumed so far */
    double loss;      /* mean over everything that counts, before the update */
    double grad_norm; /* before clipping */
    double lr;
    double step_ms, comm_ms, exposed_ms;
    int32_t skipped; /* 1: a value was not finite and optim.nonfinite is skip */
} cadre_report;

#ifdef __cplusplus
static inline cadre_batch cadre_batch_default(void) {
    cadre_batch b = cadre_batch();
    b.size = sizeof b;
    return b;
}
static inline cadre_report cadre_report_default(void) {
    cadre_report r = cadre_report();
    r.size = sizeof r;
    return r;
}
#define CADRE_BATCH cadre_batch_default()
#define CADRE_REPORT cadre_report_default()
#else
#define CADRE_BATCH ((cadre_batch){.size = sizeof(cadre_batch)})
#define CADRE_REPORT ((cadre_report){.size = sizeof(cadre_report)})
#endif

/* Collective over `world`. Draws the parameters. world, model and set are borrowed until close. */
CADRE_API cadre_status cadre_trainer_open(cadre_trainer **ret_trainer, cadre_comm *world,
                                          cadre_model *model, const cadre_settings *set);
/* Collective. One optimizer step over all ranks' batches (cut into forwards of train.micro_batch
 * samples where that is given). A negative label other than -1, a token out of range: CADRE_EDATA
 * naming its place. train.recompute and train.memory_limit are looked at when a forward is larger
 * than any before: CADRE_ERESOURCE when it does not fit. */
CADRE_API cadre_status cadre_trainer_step(cadre_trainer *t, const cadre_batch *batch,
                                          cadre_report *ret_report);
/* Collective. Mean loss over the ranks' batches without dropout or update; `ret_count` may be NULL.
 */
CADRE_API cadre_status cadre_trainer_eval(cadre_trainer *t, const cadre_batch *batch,
                                          double *ret_loss, double *ret_count);
/* Collective. Writes folder/step-NNNNNNNN, whole or absent. That step there already: CADRE_OK when
 * it holds the same weights, else CADRE_EUSAGE; nothing is overwritten. */
CADRE_API cadre_status cadre_trainer_save(cadre_trainer *t, const char *folder);
/* Collective. Continues from a checkpoint, or from the newest complete one in a folder; any number
 * of ranks. */
CADRE_API cadre_status cadre_trainer_resume(cadre_trainer *t, const char *path);
/* Local. The values of a parameter by name (its own memory, `*ret_count` elements of `*ret_dtype`),
 * for inspection. */
CADRE_API const void *cadre_trainer_values(cadre_trainer *t, const char *name, int64_t *ret_count,
                                           cadre_dtype *ret_dtype);
CADRE_API void cadre_trainer_close(cadre_trainer **t);

#ifdef __cplusplus
}
#endif
#endif
