/* SPDX-License-Identifier: Apache-2.0
 *
 * The learning rate as a function of the step alone, so that a resumed run goes on exactly.
 * Warm-up and cosine are nanoGPT's formulas; s counts from 0 there.
 */
#include <math.h>

#include "optim/optim.h"

static double course(const cadre_optim_cfg *cfg, int64_t s) {
    int64_t warmup = cfg->warmup_steps, end = cfg->decay_steps;
    if (cfg->schedule == CADRE_LR_CONSTANT) return cfg->lr;
    if (cfg->schedule == CADRE_LR_STEP)
        return cfg->lr * (4 * s >= 3 * end ? 0.01 : 2 * s >= end ? 0.1 : 1);
    if (s >= end) return cfg->min_lr;
    double done = (double)(s - warmup) / (double)(end - warmup);
    double left = cfg->schedule == CADRE_LR_LINEAR ? 1 - done
                                                   : 0.5 * (1 + cos(3.14159265358979323846 * done));
    return cfg->min_lr + left * (cfg->lr - cfg->min_lr);
}

double cadre_lr_at(const cadre_optim_cfg *cfg, int64_t step) {
    int64_t s = step - 1;
    if (s < cfg->warmup_steps) return cfg->lr * (double)(s + 1) / (double)(cfg->warmup_steps + 1);
    return course(cfg, s);
}
