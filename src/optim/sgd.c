/* SPDX-License-Identifier: Apache-2.0
 *
 * Stochastic gradient descent with momentum, as PyTorch defines it. Weight decay is coupled: it is
 * part of the gradient and goes through the momentum.
 *
 *   g = gradient x grad_scale + decay x value
 *   buffer = momentum x buffer + g        (from zero, so the first step takes g)
 *   value -= lr x buffer                  (Nesterov: lr x (g + momentum x buffer))
 *
 * At momentum 0 the buffer is neither read nor written.
 */
#include "optim/sgd.h"
#include "optim/segments.h"

typedef struct factors {
    double lr, decay, momentum, scale;
} factors;

#define SGD_KERNELS(suffix, type)                                                                  \
    CADRE_CLONES static void plain_##suffix(type *restrict value, const type *restrict gradient,   \
                                            int64_t n, const factors *f) {                         \
        const type lr = (type)f->lr, decay = (type)f->decay, scale = (type)f->scale;               \
        for (int64_t i = 0; i < n; i++) value[i] -= lr * (gradient[i] * scale + decay * value[i]); \
    }                                                                                              \
    CADRE_CLONES static void momentum_##suffix(                                                    \
        type *restrict value, const type *restrict gradient, type *restrict buffer, int64_t n,     \
        const factors *f, bool nesterov) {                                                         \
        const type lr = (type)f->lr, decay = (type)f->decay, scale = (type)f->scale,               \
                   momentum = (type)f->momentum;                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type g = gradient[i] * scale + decay * value[i];                                       \
            type b = momentum * buffer[i] + g;                                                     \
            buffer[i] = b;                                                                         \
            value[i] -= lr * (nesterov ? g + momentum * b : b);                                    \
        }                                                                                          \
    }

SGD_KERNELS(f32, float)
SGD_KERNELS(f64, double)

typedef struct job {
    const cadre_optim_cfg *cfg;
    const cadre_optim_step *step;
    cadre_dtype dtype;
    void *values, *buffer;
    const void *gradients;
} job;

static void move(void *arg, const cadre_segment *segment, int64_t at, int64_t n) {
    const job *j = arg;
    factors f = {.lr = j->step->lr * segment->lr_scale,
                 .decay = segment->decay,
                 .momentum = j->cfg->momentum,
                 .scale = j->step->grad_scale};
    bool plain = j->cfg->momentum == 0, nesterov = j->cfg->nesterov;
    if (j->dtype == CADRE_F64) {
        double *value = (double *)j->values + at;
        const double *gradient = (const double *)j->gradients + at;
        if (plain)
            plain_f64(value, gradient, n, &f);
        else
            momentum_f64(value, gradient, (double *)j->buffer + at, n, &f, nesterov);
    } else {
        float *value = (float *)j->values + at;
        const float *gradient = (const float *)j->gradients + at;
        if (plain)
            plain_f32(value, gradient, n, &f);
        else
            momentum_f32(value, gradient, (float *)j->buffer + at, n, &f, nesterov);
    }
}

void cadre_sgd_apply(const cadre_optim_cfg *cfg, const cadre_segment *segments, int count,
                     const cadre_optim_step *step, cadre_dtype dtype, void *values,
                     const void *gradients, void *const state[], cadre_pool *pool) {
    job j = {.cfg = cfg,
             .step = step,
             .dtype = dtype,
             .values = values,
             .buffer = state[0],
             .gradients = gradients};
    cadre_segments_each(segments, count, pool, move, &j);
}
