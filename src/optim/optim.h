/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers: they get segments of spans and know no ranks. An optimizer is a row in the table: how
 * many state arrays it keeps and how it moves a segment. Kernels give the same bits for any number
 * of threads and on every instruction set.
 */
#ifndef CADRE_OPTIM_OPTIM_H
#define CADRE_OPTIM_OPTIM_H

#include "base/threads.h"
#include "optim/settings.h"
#include "tensor/tensor.h"

enum { CADRE_OPTIM_STATES = 2 };

/* A run of elements of one parameter: where it lies in the arrays and how it is treated. */
typedef struct cadre_segment {
    int param;       /* its id */
    int64_t offset;  /* in values, gradients and states */
    int64_t first;   /* element of the parameter that lies there */
    int64_t length;  /* elements */
    double decay;    /* weight decay, 0 for biases and norms */
    double lr_scale; /* of the step's learning rate, normally 1 */
} cadre_segment;

typedef struct cadre_optim_step {
    int64_t step;      /* 1-based: the step being taken */
    double lr;         /* at this step */
    double grad_scale; /* gradients are unscaled sums: 1 / count x clip factor, applied here and
                          nowhere else */
} cadre_optim_step;

/* What an optimizer works on; segments say where in all of them alike. */
typedef struct cadre_optim_arrays {
    cadre_dtype dtype;          /* of values and state: f32 or f64 */
    cadre_dtype gradient_dtype; /* the same, or bf16 beside f32 */
    void *values;
    const void *gradients;
    void *state[CADRE_OPTIM_STATES];
    uint16_t *copy; /* the values rounded to bf16, written in the same pass; NULL: none */
} cadre_optim_arrays;

typedef struct cadre_optimizer {
    const char *name, *help;
    int states;
    const char *state_name[CADRE_OPTIM_STATES]; /* in checkpoints: "adamw.m" */
    double default_lr;                          /* NaN: has to be given */
    void (*apply)(const cadre_optim_cfg *cfg, const cadre_segment *segments, int count,
                  const cadre_optim_step *step, const cadre_optim_arrays *arrays, cadre_pool *pool);
} cadre_optimizer;

extern const cadre_optimizer
    cadre_optimizers[]; /* indexed by cadre_optim_kind; lamb and lars come later: apply is NULL */
extern const int cadre_optimizer_count;

/* Learning rate of step `step` (1-based), a function of the step alone: warm-up line to lr over
 * warmup_steps, then the schedule down to min_lr at decay_steps. nanoGPT's formula: at step s
 * (0-based there) of warm-up lr x (s + 1) / (warmup + 1). Schedule "step": x 0.1 from half of
 * decay_steps, x 0.01 from three quarters; min_lr plays no part there nor in "constant". */
double cadre_lr_at(const cadre_optim_cfg *cfg, int64_t step);
/* Fills derived values into the settings: optim.lr by kind (refused when it has to be given),
 * min_lr = lr / 10, warmup_steps = min(100, train steps / 10), decay_steps = train steps; refuses
 * what cannot be (a kind that is not built, nesterov without momentum, scale_lr without
 * base_batch). The settings keep the learning rate as given: `cadre_optim_scale` comes after fill.
 */
cadre_status cadre_optim_resolve(cadre_settings *set, int64_t train_steps, int64_t batch);
/* Applies optim.scale_lr to the filled struct: lr and min_lr x batch / base_batch (linear) or its
 * square root. Once a fill. */
void cadre_optim_scale(cadre_optim_cfg *cfg, int64_t batch);

#endif
