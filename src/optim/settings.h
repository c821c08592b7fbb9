/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_OPTIM_SETTINGS_H
#define CADRE_OPTIM_SETTINGS_H

#include "base/settings.h"

typedef enum cadre_optim_kind { CADRE_ADAMW, CADRE_SGD, CADRE_LAMB, CADRE_LARS } cadre_optim_kind;
typedef enum cadre_lr_schedule {
    CADRE_LR_COSINE,
    CADRE_LR_CONSTANT,
    CADRE_LR_LINEAR,
    CADRE_LR_STEP
} cadre_lr_schedule;
typedef enum cadre_lr_scaling {
    CADRE_SCALE_NONE,
    CADRE_SCALE_LINEAR,
    CADRE_SCALE_SQRT
} cadre_lr_scaling;

typedef struct cadre_optim_cfg {
    int kind;
    double lr, min_lr; /* after scale_lr */
    int schedule;
    int64_t warmup_steps, decay_steps;
    double beta1, beta2, eps, weight_decay, momentum;
    bool nesterov;
    double clip; /* 0: off */
    double label_smoothing;
    int scale_lr;
    int64_t base_batch;
    cadre_list decay, freeze; /* name patterns (glob); decay unset: matrices and embeddings */
    int nonfinite;            /* 0 stop, 1 skip */
} cadre_optim_cfg;

extern const cadre_setting_table cadre_optim_settings;

#endif
