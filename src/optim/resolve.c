/* SPDX-License-Identifier: Apache-2.0
 *
 * Working out the settings of optim.* that were left unset, and the scaling of the learning rate.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "optim/optim.h"

/* Records a number with as few digits as give it back. */
static cadre_status derive_real(cadre_settings *set, const char *name, double x) {
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    for (char *c = text; *c; c++) /* a host program's locale may print a decimal comma */
        if (*c == ',') *c = '.';
    return cadre_settings_derive(set, name, "%s", text);
}

static cadre_status resolve_lr(cadre_settings *set, cadre_optim_cfg *cfg) {
    const cadre_optimizer *row = &cadre_optimizers[cfg->kind];
    if (isnan(cfg->lr)) {
        CADRE_CHECK(!isnan(row->default_lr), CADRE_EUSAGE,
                    "optim.lr has to be given for optim.kind=%s, for example --optim.lr=0.1",
                    row->name);
        cfg->lr = row->default_lr;
        CADRE_TRY(derive_real(set, "optim.lr", cfg->lr));
    }
    if (isnan(cfg->min_lr)) {
        cfg->min_lr = cfg->lr / 10;
        CADRE_TRY(derive_real(set, "optim.min_lr", cfg->min_lr));
    }
    CADRE_CHECK(cfg->min_lr <= cfg->lr, CADRE_EUSAGE,
                "optim.min_lr=%g is above optim.lr=%g; it may be at most that", cfg->min_lr,
                cfg->lr);
    return CADRE_OK;
}

static cadre_status resolve_steps(cadre_settings *set, cadre_optim_cfg *cfg, int64_t train_steps) {
    if (cfg->warmup_steps == CADRE_UNSET) {
        cfg->warmup_steps = train_steps / 10 < 100 ? train_steps / 10 : 100;
        CADRE_TRY(cadre_settings_derive(set, "optim.warmup_steps", "%" PRId64, cfg->warmup_steps));
    }
    if (cfg->decay_steps == CADRE_UNSET) {
        cfg->decay_steps = train_steps;
        CADRE_TRY(cadre_settings_derive(set, "optim.decay_steps", "%" PRId64, cfg->decay_steps));
    }
    return CADRE_OK;
}

cadre_status cadre_optim_resolve(cadre_settings *set, int64_t train_steps, int64_t batch) {
    CADRE_CHECK(train_steps >= 0 && batch > 0, CADRE_EINTERNAL,
                "train.steps and train.batch have to be known before optim.* is worked out");
    cadre_optim_cfg cfg = {0};
    CADRE_TRY(cadre_settings_fill(set, &cadre_optim_settings, &cfg));
    const cadre_optimizer *row = &cadre_optimizers[cfg.kind];
    CADRE_CHECK(row->apply, CADRE_EUSAGE,
                "optim.kind=%s is not built yet; adamw and sgd would be accepted", row->name);
    CADRE_TRY(resolve_lr(set, &cfg));
    CADRE_TRY(resolve_steps(set, &cfg, train_steps));
    CADRE_CHECK(!cfg.nesterov || cfg.momentum > 0, CADRE_EUSAGE,
                "optim.nesterov=true needs optim.momentum above 0, for example 0.9");
    CADRE_CHECK(cfg.scale_lr == CADRE_SCALE_NONE || cfg.base_batch != CADRE_UNSET, CADRE_EUSAGE,
                "optim.scale_lr=%s needs optim.base_batch: the batch that optim.lr was chosen for",
                cfg.scale_lr == CADRE_SCALE_LINEAR ? "linear" : "sqrt");
    return CADRE_OK;
}

void cadre_optim_scale(cadre_optim_cfg *cfg, int64_t batch) {
    if (cfg->scale_lr == CADRE_SCALE_NONE) return;
    double factor = (double)batch / (double)cfg->base_batch;
    if (cfg->scale_lr == CADRE_SCALE_SQRT) factor = sqrt(factor);
    cfg->lr *= factor;
    cfg->min_lr *= factor;
}
