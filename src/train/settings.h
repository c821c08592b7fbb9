/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of train.*, precision.* and run.*, the joined table, and the order in which unset values
 * are worked out.
 */
#ifndef CADRE_TRAIN_SETTINGS_H
#define CADRE_TRAIN_SETTINGS_H

#include "checkpoint/settings.h"
#include "comm/settings.h"
#include "data/settings.h"
#include "nn/settings.h"
#include "optim/settings.h"
#include "parallel/settings.h"

enum { CADRE_RECOMPUTE_NONE, CADRE_RECOMPUTE_BLOCK, CADRE_RECOMPUTE_AUTO };

typedef struct cadre_train_cfg {
    int64_t steps;
    double epochs;
    int64_t batch, micro_batch, context, seed;
    int64_t eval_every, eval_samples;
    int recompute; /* CADRE_RECOMPUTE_... */
    int64_t memory_limit;
    bool canonical;
} cadre_train_cfg;

typedef struct cadre_precision_cfg {
    int compute; /* 0 f32, 1 bf16, 2 auto, 3 f64 (run.device=ref alone) */
    int reduce;
} cadre_precision_cfg;

typedef struct cadre_run_cfg {
    int64_t ranks, threads;
    bool pin;
    const char *dir, *name;
    int console; /* 0 auto, 1 bar, 2 lines, 3 quiet */
    int64_t log_every;
    bool tensorboard;
    const char *trace;
    int64_t exit_on_signal;
    const char *device; /* "cpu", "ref" */
} cadre_run_cfg;

extern const cadre_setting_table cadre_train_settings, cadre_precision_settings, cadre_run_settings;

/* Everything, typed. Text and lists belong to the settings it was filled from. */
typedef struct cadre_config {
    cadre_model_cfg model;
    cadre_data_cfg data;
    cadre_train_cfg train;
    cadre_optim_cfg optim;
    cadre_precision_cfg precision;
    cadre_parallel_cfg parallel;
    cadre_comm_cfg comm;
    cadre_checkpoint_cfg checkpoint;
    cadre_run_cfg run;
} cadre_config;

/* All tables in the order of interface.md. */
const cadre_setting_table *const *cadre_all_settings(int *ret_count);
cadre_status cadre_config_fill(const cadre_settings *set, cadre_config *ret_config);

/* What the world and the data decide about unset values. */
typedef struct cadre_facts {
    int world, local_size;     /* ranks in all, on this machine */
    int64_t vocab;             /* of the data; 0: not known */
    int64_t samples_per_epoch; /* 0: not known (train.epochs then stays unresolved) */
} cadre_facts;

/* Works out every unset value in a fixed order (preset, model, context, ranks, dp, batch
 * arithmetic, steps from epochs, warm-up, eval_every, threads, run.name ...), records it with
 * cadre_settings_derive, and checks combinations: batch not dividing (nearest values), steps and
 * epochs, canonical without micro_batch, context beyond model.context, run.ranks other than the
 * world ... Each refusal names the settings. */
cadre_status cadre_settings_resolve(cadre_settings *set, const cadre_facts *facts);

#endif
