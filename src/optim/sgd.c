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
} job;

static void move(void *arg, const cadre_segment_piece *piece) {
    const job *j = arg;
    factors f = {.lr = j->step->lr * piece->segment->lr_scale,
                 .decay = piece->segment->decay,
                 .momentum = j->cfg->momentum,
                 .scale = j->step->grad_scale};
    bool plain = j->cfg->momentum == 0, nesterov = j->cfg->nesterov;
    void *value = piece->value, *buffer = piece->state[0];
    if (piece->dtype == CADRE_F64 && plain)
        plain_f64(value, piece->gradient, piece->n, &f);
    else if (piece->dtype == CADRE_F64)
        momentum_f64(value, piece->gradient, buffer, piece->n, &f, nesterov);
    else if (plain)
        plain_f32(value, piece->gradient, piece->n, &f);
    else
        momentum_f32(value, piece->gradient, buffer, piece->n, &f, nesterov);
}

void cadre_sgd_apply(const cadre_optim_cfg *cfg, const cadre_segment *segments, int count,
                     const cadre_optim_step *step, const cadre_optim_arrays *arrays,
                     cadre_pool *pool) {
    job j = {cfg, step};
    cadre_segments_each(arrays, segments, count, pool, move, &j);
}
