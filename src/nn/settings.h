/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_NN_SETTINGS_H
#define CADRE_NN_SETTINGS_H

#include "base/settings.h"

typedef enum cadre_kind {
    CADRE_KIND_MLP,
    CADRE_KIND_GPT2,
    CADRE_KIND_LLAMA,
    CADRE_KIND_CNN,
    CADRE_KIND_RESNET
} cadre_kind;

typedef struct cadre_model_cfg {
    int kind;           /* cadre_kind */
    const char *preset; /* "gpt2-char", ... */
    int64_t layers, heads, kv_heads, head_dim, width, ffn_width, context, vocab;
    double dropout;
    bool tied;
    double norm_eps, rope_theta;
    int batchnorm;
    const char *from;
} cadre_model_cfg;

extern const cadre_setting_table cadre_model_settings;

/* A preset sets model.* alone; unset values of the table take the preset's. */
typedef struct cadre_model_preset {
    const char *name, *help;
    const char *const *pairs; /* "model.layers", "4", ..., NULL */
} cadre_model_preset;
extern const cadre_model_preset cadre_model_presets[];
extern const int cadre_model_preset_count;
/* Puts the preset named by model.preset (default gpt2-char for kind gpt2) into the settings, source
 * CADRE_FROM_PRESET. */
cadre_status cadre_model_apply_preset(cadre_settings *set);
/* Fills in derived values (ffn_width = 4 x width, head_dim = width / heads) and checks them (heads
 * dividing width with the nearest valid values). model.vocab may still be unset: the data decides
 * (train puts it with cadre_settings_derive first). */
cadre_status cadre_model_resolve(cadre_settings *set);

#endif
