/* SPDX-License-Identifier: Apache-2.0
 *
 * Presets set model.* alone: the sizes of GPT-2 (Radford et al. 2019), a 13-billion one of GPT-3's
 * shape (Brown et al. 2020), and the small character model of nanoGPT's CPU recipe.
 */
#include <string.h>

#include "base/status.h"
#include "nn/model.h"

#define GPT2(layers, heads, width, context)                                                        \
    "model.kind", "gpt2", "model.layers", layers, "model.heads", heads, "model.width", width,      \
        "model.context", context
#define PAIRS(...)                                                                                 \
    (const char *const[]) {                                                                        \
        __VA_ARGS__, NULL                                                                          \
    }
#define WORDS "model.vocab", "50257" /* GPT-2's byte-level BPE */

#define SMALL PAIRS(GPT2("12", "12", "768", "1024"), WORDS)
#define MEDIUM PAIRS(GPT2("24", "16", "1024", "1024"), WORDS)
#define LARGE PAIRS(GPT2("36", "20", "1280", "1024"), WORDS)
#define XL PAIRS(GPT2("48", "25", "1600", "1024"), WORDS)

const cadre_model_preset cadre_model_presets[] = {
    {"gpt2-char", "characters: 4 layers, 4 heads, width 128, context 64",
     PAIRS(GPT2("4", "4", "128", "64"))},
    {"gpt2-124m", "12 layers, 12 heads, width 768, context 1024", SMALL},
    {"gpt2", "gpt2-124m under Hugging Face's name", SMALL},
    {"gpt2-355m", "24 layers, 16 heads, width 1024, context 1024", MEDIUM},
    {"gpt2-medium", "gpt2-355m under Hugging Face's name", MEDIUM},
    {"gpt2-774m", "36 layers, 20 heads, width 1280, context 1024", LARGE},
    {"gpt2-large", "gpt2-774m under Hugging Face's name", LARGE},
    {"gpt2-1.5b", "48 layers, 25 heads, width 1600, context 1024", XL},
    {"gpt2-xl", "gpt2-1.5b under Hugging Face's name", XL},
    {"gpt2-13b", "40 layers, 40 heads, width 5120, context 2048",
     PAIRS(GPT2("40", "40", "5120", "2048"), WORDS)},
};
const int cadre_model_preset_count = CADRE_COUNT(cadre_model_presets);

static const cadre_model_preset *find(const char *name) {
    for (int i = 0; i < cadre_model_preset_count; i++)
        if (strcmp(cadre_model_presets[i].name, name) == 0) return &cadre_model_presets[i];
    return NULL;
}

static cadre_status unknown(const char *name) {
    const char *names[CADRE_COUNT(cadre_model_presets)];
    char list[256] = "";
    for (int i = 0; i < cadre_model_preset_count; i++) {
        names[i] = cadre_model_presets[i].name;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
    }
    int nearest = cadre_nearest(name, names, cadre_model_preset_count);
    if (nearest >= 0)
        return CADRE_FAIL(CADRE_EUSAGE, "unknown model.preset=%s; did you mean %s?", name,
                          names[nearest]);
    return CADRE_FAIL(CADRE_EUSAGE, "unknown model.preset=%s; it takes one of %s", name, list);
}

cadre_status cadre_model_apply_preset(cadre_settings *set) {
    char where[64];
    const char *kind = cadre_settings_get(set, "model.kind");
    if (!cadre_settings_given(set, "model.preset")) {
        if (!kind || strcmp(kind, "gpt2") != 0) return CADRE_OK;
        if (cadre_settings_given(set, "model.from")) return CADRE_OK; /* its config.json says */
        CADRE_TRY(cadre_settings_derive(set, "model.preset", "gpt2-char"));
    }
    const char *name = cadre_settings_get(set, "model.preset");
    if (!name) return CADRE_OK;
    const cadre_model_preset *preset = find(name);
    if (!preset) return unknown(name);
    CADRE_CHECK(!cadre_settings_given(set, "model.kind") || strcmp(kind, preset->pairs[1]) == 0,
                CADRE_EUSAGE, "model.preset=%s is of model.kind=%s, but model.kind=%s is given",
                name, preset->pairs[1], kind);
    snprintf(where, sizeof where, "preset %s", name);
    for (int i = 0; preset->pairs[i]; i += 2)
        CADRE_TRY(cadre_settings_put(set, preset->pairs[i], preset->pairs[i + 1], CADRE_FROM_PRESET,
                                     where));
    return CADRE_OK;
}
