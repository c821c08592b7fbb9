/* SPDX-License-Identifier: Apache-2.0
 *
 * The known kinds of models, one row each, in the order of cadre_kind, and opening one.
 */
#include "nn/model_private.h"

static cadre_status open_built(cadre_model **ret_model, const cadre_settings *set,
                               const cadre_model_cfg *cfg, cadre_status (*build)(cadre_model *)) {
    cadre_model *m = NULL;
    CADRE_TRY(cadre_alloc(&m, CADRE_MEM_OTHER, sizeof *m));
    m->cfg = *cfg;
    cadre_status st = cadre_model_set_up(m, set);
    if (!st) st = build(m);
    if (st) {
        cadre_model_close(&m);
        return st;
    }
    *ret_model = m;
    return CADRE_OK;
}

static cadre_status open_mlp(cadre_model **ret_model, const cadre_settings *set,
                             const cadre_model_cfg *cfg) {
    return open_built(ret_model, set, cfg, cadre_mlp_build);
}

static cadre_status open_gpt2(cadre_model **ret_model, const cadre_settings *set,
                              const cadre_model_cfg *cfg) {
    return open_built(ret_model, set, cfg, cadre_gpt2_build);
}

static cadre_status open_later(cadre_model **ret_model, const cadre_settings *set,
                               const cadre_model_cfg *cfg) {
    (void)ret_model;
    (void)set;
    return cadre_model_kind_check(cfg->kind);
}

cadre_status cadre_model_kind_check(int kind) {
    CADRE_CHECK(cadre_model_kinds[kind].open != open_later, CADRE_EUSAGE,
                "model.kind=%s is not built yet; it takes gpt2 or mlp",
                cadre_model_kinds[kind].name);
    return CADRE_OK;
}

const cadre_model_kind cadre_model_kinds[] = {
    [CADRE_KIND_MLP] = {"mlp", "layers of linear and GELU over features, and a classifier",
                        open_mlp},
    [CADRE_KIND_GPT2] = {"gpt2", "the decoder of GPT-2: pre-norm, learned positions, tied head",
                         open_gpt2},
    [CADRE_KIND_LLAMA] = {"llama", "the decoder of Llama (not built yet)", open_later},
    [CADRE_KIND_CNN] = {"cnn", "a small convolutional network (not built yet)", open_later},
    [CADRE_KIND_RESNET] = {"resnet", "residual convolutional networks (not built yet)", open_later},
};
const int cadre_model_kind_count = CADRE_COUNT(cadre_model_kinds);

static cadre_status open_own(cadre_model **ret_model, cadre_settings *own) {
    cadre_model_cfg cfg;
    CADRE_TRY(cadre_model_apply_preset(own));
    CADRE_TRY(cadre_settings_check_kinds(own));
    CADRE_TRY(cadre_settings_fill(own, &cadre_model_settings, &cfg));
    if (cfg.kind == CADRE_KIND_MLP || cfg.kind == CADRE_KIND_GPT2) {
        CADRE_TRY(cadre_model_resolve(own));
        CADRE_TRY(cadre_settings_fill(own, &cadre_model_settings, &cfg));
    }
    return cadre_model_kinds[cfg.kind].open(ret_model, own, &cfg);
}

cadre_status cadre_model_open(cadre_model **ret_model, const cadre_settings *set) {
    cadre_settings *own = NULL; /* the settings are the caller's; what is worked out goes here */
    cadre_model *m = NULL;
    CADRE_TRY(cadre_settings_copy(&own, set));
    cadre_status st = open_own(&m, own);
    if (st) {
        cadre_settings_close(&own);
        return st;
    }
    m->settings = own;
    *ret_model = m;
    return CADRE_OK;
}
