/* SPDX-License-Identifier: Apache-2.0
 *
 * mlp: layers of linear and GELU over a row of features, and a classifier.
 *
 *   inputs f32 (rows, context) -> [ linear, GELU, dropout ] x layers of `width` -> (rows, vocab)
 *   labels i32 (rows)
 *
 * One block a layer. Weights (out, in) start as normal(0, sqrt(2 / in)) (He et al. 2015), biases at
 * zero; the classifier's as normal(0, 0.02), so that the first loss is about log(vocab).
 */
#include <inttypes.h>
#include <math.h>

#include "nn/model_private.h"

enum { WEIGHT, BIAS };

static cadre_status declare(cadre_block *b, const char *stem, int64_t out, int64_t in, float std) {
    char name[64];
    snprintf(name, sizeof name, "%s.weight", stem);
    cadre_param(b, name, cadre_dims2(out, in), cadre_normal(std));
    snprintf(name, sizeof name, "%s.bias", stem);
    return cadre_param(b, name, cadre_dims1(out), cadre_zeros());
}

static cadre_status layer_params(cadre_block *b, const void *arg) {
    const cadre_model_cfg *c = arg;
    int64_t in = b->index == 0 ? c->context : c->width;
    return declare(b, b->name, c->width, in, (float)sqrt(2.0 / (double)in));
}

static cadre_tensor *layer(cadre_tape *t, const cadre_block *b, cadre_tensor *x) {
    const cadre_model_cfg *c = cadre_block_arg(b);
    const cadre_parameter *weight = cadre_block_param(b, WEIGHT);
    cadre_tensor *h = cadre_linear_gelu(t, x, weight, cadre_block_param(b, BIAS));
    return cadre_dropout(t, h, c->dropout, weight->name);
}

static cadre_status head_params(cadre_block *b, const void *arg) {
    const cadre_model_cfg *c = arg;
    return declare(b, "head", c->vocab, c->layers > 0 ? c->width : c->context, 0.02f);
}

static cadre_tensor *head(cadre_tape *t, const cadre_block *b, cadre_tensor *x) {
    cadre_tensor *logits =
        cadre_linear(t, x, cadre_block_param(b, WEIGHT), cadre_block_param(b, BIAS));
    return cadre_cross_entropy(t, logits, cadre_input(t, "labels"));
}

static cadre_status build(cadre_model *m, cadre_block_kind *chain, char (*names)[32]) {
    int layers = (int)m->cfg.layers;
    for (int i = 0; i < layers; i++) {
        snprintf(names[i], sizeof names[i], "fc.%d", i);
        chain[i] = CADRE_BLOCK(names[i], layer_params, layer, &m->cfg);
    }
    chain[layers] = CADRE_BLOCK("head", head_params, head, &m->cfg);
    return cadre_model_build(m, chain, layers + 1);
}

cadre_status cadre_mlp_build(cadre_model *m) {
    cadre_block_kind *chain = NULL;
    char(*names)[32] = NULL;
    const cadre_model_cfg *c = &m->cfg;
    CADRE_CHECK(c->context > 0, CADRE_EUSAGE,
                "model.context is not set; for mlp it is the number of features of a sample");
    CADRE_CHECK(c->vocab > 0, CADRE_EUSAGE,
                "model.vocab is not set; for mlp it is the number of classes");
    cadre_status st = cadre_alloc_array(&chain, CADRE_MEM_OTHER, c->layers + 1, sizeof *chain);
    if (!st) st = cadre_alloc_array(&names, CADRE_MEM_OTHER, c->layers + 1, sizeof *names);
    if (!st) st = build(m, chain, names);
    cadre_free(&chain);
    cadre_free(&names);
    return st;
}
