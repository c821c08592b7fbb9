/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of model.* (interface.md, section 3), and what is worked out from them.
 */
#include "nn/settings.h"

#include <inttypes.h>

#include "base/status.h"

#define AT(field) offsetof(cadre_model_cfg, field)
#define GPT2_LLAMA "model.kind=gpt2|llama"

static const cadre_setting rows[] = {
    {.name = "model.kind",
     .type = CADRE_SET_CHOICE,
     .fallback = "gpt2",
     .offset = AT(kind),
     .choices = "mlp|gpt2|llama|cnn|resnet",
     .help = "the family of models (llama, cnn and resnet are reserved names, not built yet)"},
    {.name = "model.preset",
     .type = CADRE_SET_TEXT,
     .offset = AT(preset),
     .derived = "gpt2-char for kind gpt2",
     .help = "a named set of sizes: gpt2-char, gpt2-124m, gpt2-355m, gpt2-774m, gpt2-1.5b (also "
             "gpt2, gpt2-medium, gpt2-large, gpt2-xl), gpt2-13b"},
    {.name = "model.layers",
     .type = CADRE_SET_INT,
     .offset = AT(layers),
     .low = 0,
     .high = 10000,
     .derived = "the preset's; 2 for mlp",
     .help = "transformer layers, or hidden layers of an mlp"},
    {.name = "model.heads",
     .type = CADRE_SET_INT,
     .offset = AT(heads),
     .low = 1,
     .high = 1e6,
     .derived = "the preset's",
     .of = GPT2_LLAMA,
     .help = "attention heads; they divide model.width"},
    {.name = "model.kv_heads",
     .type = CADRE_SET_INT,
     .offset = AT(kv_heads),
     .low = 1,
     .high = 1e6,
     .derived = "model.heads",
     .of = "model.kind=llama",
     .help = "heads of keys and values, each shared by several heads of queries"},
    {.name = "model.head_dim",
     .type = CADRE_SET_INT,
     .offset = AT(head_dim),
     .low = 1,
     .high = 1e6,
     .derived = "model.width / model.heads",
     .of = GPT2_LLAMA,
     .help = "numbers a head"},
    {.name = "model.width",
     .type = CADRE_SET_INT,
     .offset = AT(width),
     .low = 1,
     .high = 1e7,
     .derived = "the preset's; 128 for mlp",
     .help = "numbers a token carries from layer to layer, or units of a hidden layer"},
    {.name = "model.ffn_width",
     .type = CADRE_SET_INT,
     .offset = AT(ffn_width),
     .low = 1,
     .high = 1e8,
     .derived = "4 x model.width for gpt2",
     .of = GPT2_LLAMA,
     .help = "units of the feed-forward part of a layer"},
    {.name = "model.context",
     .type = CADRE_SET_INT,
     .offset = AT(context),
     .low = 1,
     .high = 1e9,
     .derived = "the preset's; for mlp the number of features, to be given",
     .help = "tokens that the model sees at once, or features of a sample of an mlp"},
    {.name = "model.vocab",
     .type = CADRE_SET_INT,
     .offset = AT(vocab),
     .low = 1,
     .high = 1e8,
     .derived = "the preset's, else the tokenizer's; for mlp the number of classes, to be given",
     .help = "tokens that the model knows, or classes"},
    {.name = "model.dropout",
     .type = CADRE_SET_REAL,
     .fallback = "0",
     .offset = AT(dropout),
     .low = 0,
     .high = 0.999,
     .help = "share of numbers that training zeroes after the embedding, the attention and the "
             "feed-forward part (not among the attention's probabilities), or a hidden layer"},
    {.name = "model.tied",
     .type = CADRE_SET_BOOL,
     .fallback = "true",
     .offset = AT(tied),
     .of = GPT2_LLAMA,
     .help = "the head uses the embedding's matrix instead of one of its own"},
    {.name = "model.norm_eps",
     .type = CADRE_SET_REAL,
     .fallback = "1e-5",
     .offset = AT(norm_eps),
     .low = 0,
     .high = 1,
     .of = "model.kind=gpt2|llama|cnn|resnet",
     .help = "added to the variance before its root is taken"},
    {.name = "model.rope_theta",
     .type = CADRE_SET_REAL,
     .fallback = "10000",
     .offset = AT(rope_theta),
     .low = 1,
     .high = 1e12,
     .of = "model.kind=llama",
     .help = "base of the rotary positions' wavelengths"},
    {.name = "model.batchnorm",
     .type = CADRE_SET_CHOICE,
     .fallback = "sync",
     .offset = AT(batchnorm),
     .choices = "sync|local",
     .of = "model.kind=cnn|resnet",
     .help = "batch statistics over all ranks, or of each rank alone"},
    {.name = "model.from",
     .type = CADRE_SET_TEXT,
     .offset = AT(from),
     .help = "weights to start from: a checkpoint, a run folder or a Hugging Face folder, whose "
             "config.json then gives the model's sizes"},
};

const cadre_setting_table cadre_model_settings = {
    .room = "model", .rows = rows, .count = CADRE_COUNT(rows)};

/* The divisors of `width` next to `heads`, below and above. */
static cadre_status check_heads(const cadre_model_cfg *c) {
    int64_t below = c->heads < c->width ? c->heads : c->width, above = c->heads;
    if (c->width % c->heads == 0) return CADRE_OK;
    while (c->width % below) below--;
    while (above < c->width && c->width % above) above++;
    int64_t less = c->width / c->heads * c->heads, more = less + c->heads;
    if (above > c->width || below == above)
        return CADRE_FAIL(CADRE_EUSAGE,
                          "model.heads=%" PRId64 " does not divide model.width=%" PRId64
                          "; nearest: %" PRId64 " heads, or width %" PRId64,
                          c->heads, c->width, below, more);
    if (less == 0) less = more;
    return CADRE_FAIL(CADRE_EUSAGE,
                      "model.heads=%" PRId64 " does not divide model.width=%" PRId64
                      "; nearest: %" PRId64 " or %" PRId64 " heads, or width %" PRId64
                      " or %" PRId64,
                      c->heads, c->width, below, above, less, more);
}

static cadre_status resolve_gpt2(cadre_settings *set) {
    cadre_model_cfg c;
    CADRE_TRY(cadre_settings_fill(set, &cadre_model_settings, &c));
    const struct {
        const char *name;
        int64_t value;
    } needed[] = {{"model.layers", c.layers},
                  {"model.heads", c.heads},
                  {"model.width", c.width},
                  {"model.context", c.context}};
    for (int i = 0; i < CADRE_COUNT(needed); i++)
        CADRE_CHECK(needed[i].value != CADRE_UNSET, CADRE_EUSAGE,
                    "%s is not set; give it, or a model.preset", needed[i].name);
    CADRE_CHECK(c.layers >= 1, CADRE_EUSAGE, "model.layers=%" PRId64 "; gpt2 takes at least 1",
                c.layers);
    CADRE_TRY(check_heads(&c));
    CADRE_CHECK(c.head_dim == CADRE_UNSET || c.head_dim * c.heads == c.width, CADRE_EUSAGE,
                "model.head_dim=%" PRId64 " x model.heads=%" PRId64 " is not model.width=%" PRId64
                "; gpt2 takes head_dim %" PRId64,
                c.head_dim, c.heads, c.width, c.width / c.heads);
    CADRE_TRY(cadre_settings_derive(set, "model.head_dim", "%" PRId64, c.width / c.heads));
    /* What the config.json of given weights says stays. */
    if (c.from && c.ffn_width != CADRE_UNSET) return CADRE_OK;
    return cadre_settings_derive(set, "model.ffn_width", "%" PRId64, 4 * c.width);
}

cadre_status cadre_model_resolve(cadre_settings *set) {
    cadre_model_cfg c;
    CADRE_TRY(cadre_settings_fill(set, &cadre_model_settings, &c));
    if (c.kind == CADRE_KIND_GPT2) return resolve_gpt2(set);
    if (c.kind != CADRE_KIND_MLP) return CADRE_OK;
    CADRE_TRY(cadre_settings_derive(set, "model.layers", "2"));
    return cadre_settings_derive(set, "model.width", "128");
}
