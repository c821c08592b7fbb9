/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW: Adam (Kingma, Ba 2015) with decoupled weight decay (Loshchilov, Hutter 2019), one pass
 * over memory: reads value, gradient, m, v; writes value, m, v.
 *
 *   g = gradient x grad_scale
 *   value *= 1 - lr x decay
 *   m += (1 - beta1) (g - m)
 *   v  = beta2 v + (1 - beta2) g g
 *   value -= lr / (1 - beta1^t) x m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *
 * The factors are worked out in double and rounded once to the arrays' type.
 */
#include <math.h>

#include "optim/adamw.h"
#include "optim/segments.h"

typedef struct factors {
    double keep;    /* 1 - lr x decay */
    double gain1;   /* 1 - beta1 */
    double beta2;   /* */
    double gain2;   /* 1 - beta2 */
    double correct; /* 1 / sqrt(1 - beta2^t) */
    double pace;    /* lr / (1 - beta1^t) */
    double eps;
    double scale; /* of gradients */
} factors;

/* The one formula, for both types. */
#define ADAMW_KERNEL(name, type, root)                                                             \
    CADRE_CLONES static void name(type *restrict value, const type *restrict gradient,             \
                                  type *restrict m, type *restrict v, int64_t n,                   \
                                  const factors *f) {                                              \
        const type keep = (type)f->keep, gain1 = (type)f->gain1, beta2 = (type)f->beta2,           \
                   gain2 = (type)f->gain2, correct = (type)f->correct, pace = (type)f->pace,       \
                   eps = (type)f->eps, scale = (type)f->scale;                                     \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type g = gradient[i] * scale;                                                          \
            type mi = m[i] + gain1 * (g - m[i]);                                                   \
            type vi = beta2 * v[i] + gain2 * g * g;                                                \
            m[i] = mi;                                                                             \
            v[i] = vi;                                                                             \
            value[i] = value[i] * keep - pace * (mi / (root(vi) * correct + eps));                 \
        }                                                                                          \
    }

ADAMW_KERNEL(move_f32, float, sqrtf)
ADAMW_KERNEL(move_f64, double, sqrt)

typedef struct job {
    const cadre_optim_cfg *cfg;
    const cadre_optim_step *step;
    double correct1, correct2; /* 1 - beta^t */
} job;

static void move(void *arg, const cadre_segment_piece *piece) {
    const job *j = arg;
    double lr = j->step->lr * piece->segment->lr_scale;
    factors f = {.keep = 1 - lr * piece->segment->decay,
                 .gain1 = 1 - j->cfg->beta1,
                 .beta2 = j->cfg->beta2,
                 .gain2 = 1 - j->cfg->beta2,
                 .correct = 1 / sqrt(j->correct2),
                 .pace = lr / j->correct1,
                 .eps = j->cfg->eps,
                 .scale = j->step->grad_scale};
    if (piece->dtype == CADRE_F64)
        move_f64(piece->value, piece->gradient, piece->state[0], piece->state[1], piece->n, &f);
    else
        move_f32(piece->value, piece->gradient, piece->state[0], piece->state[1], piece->n, &f);
}

void cadre_adamw_apply(const cadre_optim_cfg *cfg, const cadre_segment *segments, int count,
                       const cadre_optim_step *step, const cadre_optim_arrays *arrays,
                       cadre_pool *pool) {
    job j = {.cfg = cfg,
             .step = step,
             .correct1 = 1 - pow(cfg->beta1, (double)step->step),
             .correct2 = 1 - pow(cfg->beta2, (double)step->step)};
    cadre_segments_each(arrays, segments, count, pool, move, &j);
}
