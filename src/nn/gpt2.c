/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2: the decoder of GPT-2 (Radford et al. 2019), with Hugging Face's names and orientation.
 *
 *   stem      (B, T) ids -> wte[id] + wpe[t] -> dropout -> (B, T, C)
 *   layer     x = x + dropout(c_proj(attention(c_attn(ln_1(x)))))
 *             x = x + dropout(c_proj(gelu(c_fc(ln_2(x)))))
 *   head      logits = ln_f(x) wte', or lm_head' when not tied -> cross-entropy with "labels"
 *
 * Matrices of the layers are stored (in, out). Start: normal(0, 0.02), the two that end in the
 * residual stream normal(0, 0.02 / sqrt(2 layers)), biases zero, norms one. Dropout is applied
 * where shown, not to the attention's probabilities; the key of a mask is the name of the parameter
 * whose result it falls on.
 */
#include <math.h>

#include "nn/model_private.h"

static const float std = 0.02f;

/* ---- stem ---- */

enum { WTE, WPE };

static cadre_status stem_params(cadre_block *b, const void *arg) {
    const cadre_model_cfg *c = arg;
    cadre_param(b, "transformer.wte.weight", cadre_dims2(c->vocab, c->width), cadre_normal(std));
    return cadre_param(b, "transformer.wpe.weight", cadre_dims2(c->context, c->width),
                       cadre_normal(std));
}

static cadre_tensor *stem(cadre_tape *t, const cadre_block *b, cadre_tensor *ids) {
    const cadre_model_cfg *c = cadre_block_arg(b);
    const cadre_parameter *wte = cadre_block_param(b, WTE);
    cadre_tensor *x = cadre_embedding(t, ids, wte);
    x = cadre_positions(t, x, cadre_block_param(b, WPE));
    return cadre_dropout(t, x, c->dropout, wte->name);
}

/* ---- layer ---- */

enum {
    LN_1_WEIGHT,
    LN_1_BIAS,
    C_ATTN_WEIGHT,
    C_ATTN_BIAS,
    ATTN_PROJ_WEIGHT,
    ATTN_PROJ_BIAS,
    LN_2_WEIGHT,
    LN_2_BIAS,
    C_FC_WEIGHT,
    C_FC_BIAS,
    MLP_PROJ_WEIGHT,
    MLP_PROJ_BIAS
};

static cadre_status declare(cadre_block *b, const char *key, cadre_dims dims, cadre_init init) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", b->name, key);
    return cadre_param(b, name, dims, init);
}

static cadre_status layer_params(cadre_block *b, const void *arg) {
    const cadre_model_cfg *c = arg;
    int64_t width = c->width, ffn = c->ffn_width;
    cadre_init normal = cadre_normal(std), zeros = cadre_zeros(), ones = cadre_ones();
    cadre_init residual = cadre_normal((float)(std / sqrt(2.0 * (double)c->layers)));
    declare(b, "ln_1.weight", cadre_dims1(width), ones);
    declare(b, "ln_1.bias", cadre_dims1(width), zeros);
    declare(b, "attn.c_attn.weight", cadre_dims2(width, 3 * width), normal);
    declare(b, "attn.c_attn.bias", cadre_dims1(3 * width), zeros);
    declare(b, "attn.c_proj.weight", cadre_dims2(width, width), residual);
    declare(b, "attn.c_proj.bias", cadre_dims1(width), zeros);
    declare(b, "ln_2.weight", cadre_dims1(width), ones);
    declare(b, "ln_2.bias", cadre_dims1(width), zeros);
    declare(b, "mlp.c_fc.weight", cadre_dims2(width, ffn), normal);
    declare(b, "mlp.c_fc.bias", cadre_dims1(ffn), zeros);
    declare(b, "mlp.c_proj.weight", cadre_dims2(ffn, width), residual);
    return declare(b, "mlp.c_proj.bias", cadre_dims1(width), zeros);
}

static cadre_tensor *layer(cadre_tape *t, const cadre_block *b, cadre_tensor *x) {
    const cadre_model_cfg *c = cadre_block_arg(b);
    const cadre_parameter *p[MLP_PROJ_BIAS + 1];
    for (int k = 0; k <= MLP_PROJ_BIAS; k++) p[k] = cadre_block_param(b, k);

    cadre_tensor *h = cadre_layer_norm(t, x, p[LN_1_WEIGHT], p[LN_1_BIAS], c->norm_eps);
    h = cadre_linear_in_out(t, h, p[C_ATTN_WEIGHT], p[C_ATTN_BIAS]); /* (B, T, 3C): q | k | v */
    h = cadre_attention(t, h, c->heads);
    h = cadre_linear_in_out(t, h, p[ATTN_PROJ_WEIGHT], p[ATTN_PROJ_BIAS]);
    x = cadre_add(t, x, cadre_dropout(t, h, c->dropout, p[ATTN_PROJ_WEIGHT]->name));

    h = cadre_layer_norm(t, x, p[LN_2_WEIGHT], p[LN_2_BIAS], c->norm_eps);
    h = cadre_linear_in_out_gelu(t, h, p[C_FC_WEIGHT], p[C_FC_BIAS]);
    h = cadre_linear_in_out(t, h, p[MLP_PROJ_WEIGHT], p[MLP_PROJ_BIAS]);
    return cadre_add(t, x, cadre_dropout(t, h, c->dropout, p[MLP_PROJ_WEIGHT]->name));
}

/* ---- head ---- */

enum { LN_F_WEIGHT, LN_F_BIAS, OUT_WEIGHT };

static cadre_status head_params(cadre_block *b, const void *arg) {
    const cadre_model_cfg *c = arg;
    cadre_param(b, "transformer.ln_f.weight", cadre_dims1(c->width), cadre_ones());
    cadre_param(b, "transformer.ln_f.bias", cadre_dims1(c->width), cadre_zeros());
    if (c->tied) return cadre_param_tied(b, "transformer.wte.weight");
    return cadre_param(b, "lm_head.weight", cadre_dims2(c->vocab, c->width), cadre_normal(std));
}

static cadre_tensor *head(cadre_tape *t, const cadre_block *b, cadre_tensor *x) {
    const cadre_model_cfg *c = cadre_block_arg(b);
    x = cadre_layer_norm(t, x, cadre_block_param(b, LN_F_WEIGHT), cadre_block_param(b, LN_F_BIAS),
                         c->norm_eps);
    return cadre_linear_cross_entropy(t, x, cadre_block_param(b, OUT_WEIGHT),
                                      cadre_input(t, "labels"));
}

/* ---- the chain ---- */

static cadre_status build(cadre_model *m, cadre_block_kind *chain, char (*names)[32]) {
    int layers = (int)m->cfg.layers;
    chain[0] = CADRE_BLOCK("stem", stem_params, stem, &m->cfg);
    for (int i = 0; i < layers; i++) {
        snprintf(names[i], sizeof names[i], "transformer.h.%d", i);
        chain[i + 1] = CADRE_BLOCK(names[i], layer_params, layer, &m->cfg);
    }
    chain[layers + 1] = CADRE_BLOCK("head", head_params, head, &m->cfg);
    return cadre_model_build(m, chain, layers + 2);
}

cadre_status cadre_gpt2_build(cadre_model *m) {
    cadre_block_kind *chain = NULL;
    char(*names)[32] = NULL;
    CADRE_CHECK(m->cfg.vocab > 0, CADRE_EUSAGE,
                "model.vocab is not set; the tokenizer of the data decides it");
    m->context = m->cfg.context;
    cadre_status st = cadre_alloc_array(&chain, CADRE_MEM_OTHER, m->cfg.layers + 2, sizeof *chain);
    if (!st) st = cadre_alloc_array(&names, CADRE_MEM_OTHER, m->cfg.layers, sizeof *names);
    if (!st) st = build(m, chain, names);
    cadre_free(&chain);
    cadre_free(&names);
    return st;
}
