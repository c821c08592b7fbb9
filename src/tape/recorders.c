/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorders of include/cadre/tape.h: one function an operation, each a call with its inputs and
 * attributes filled in.
 */
#include "tape/tape_private.h"

static cadre_tensor *linear(cadre_tape *t, cadre_tensor *x, const cadre_parameter *weight,
                            const cadre_parameter *bias, bool in_out, bool gelu) {
    cadre_call c = {.op = CADRE_OP_LINEAR, .in = {x}, .a = {.in_out = in_out, .gelu = gelu}};
    return cadre_tape_record(t, &c, weight, bias);
}

cadre_tensor *cadre_linear(cadre_tape *t, cadre_tensor *x, const cadre_parameter *weight,
                           const cadre_parameter *bias) {
    return linear(t, x, weight, bias, false, false);
}

cadre_tensor *cadre_linear_gelu(cadre_tape *t, cadre_tensor *x, const cadre_parameter *weight,
                                const cadre_parameter *bias) {
    return linear(t, x, weight, bias, false, true);
}

cadre_tensor *cadre_linear_in_out(cadre_tape *t, cadre_tensor *x, const cadre_parameter *weight,
                                  const cadre_parameter *bias) {
    return linear(t, x, weight, bias, true, false);
}

cadre_tensor *cadre_linear_in_out_gelu(cadre_tape *t, cadre_tensor *x,
                                       const cadre_parameter *weight, const cadre_parameter *bias) {
    return linear(t, x, weight, bias, true, true);
}

cadre_tensor *cadre_embedding(cadre_tape *t, cadre_tensor *ids, const cadre_parameter *table) {
    cadre_call c = {.op = CADRE_OP_EMBEDDING, .in = {ids}};
    return cadre_tape_record(t, &c, table, NULL);
}

cadre_tensor *cadre_positions(cadre_tape *t, cadre_tensor *x, const cadre_parameter *table) {
    cadre_call c = {.op = CADRE_OP_POSITIONS, .in = {x}};
    return cadre_tape_record(t, &c, table, NULL);
}

cadre_tensor *cadre_layer_norm(cadre_tape *t, cadre_tensor *x, const cadre_parameter *weight,
                               const cadre_parameter *bias, double eps) {
    cadre_call c = {.op = CADRE_OP_LAYER_NORM, .in = {x}, .a = {.eps = eps}};
    return cadre_tape_record(t, &c, weight, bias);
}

cadre_tensor *cadre_attention(cadre_tape *t, cadre_tensor *qkv, int64_t heads) {
    cadre_call c = {.op = CADRE_OP_ATTENTION, .in = {qkv}, .a = {.heads = heads}};
    return cadre_tape_record(t, &c, NULL, NULL);
}

cadre_tensor *cadre_gelu(cadre_tape *t, cadre_tensor *x) {
    cadre_call c = {.op = CADRE_OP_GELU, .in = {x}};
    return cadre_tape_record(t, &c, NULL, NULL);
}

cadre_tensor *cadre_add(cadre_tape *t, cadre_tensor *a, cadre_tensor *b) {
    cadre_call c = {.op = CADRE_OP_ADD, .in = {a, b}};
    return cadre_tape_record(t, &c, NULL, NULL);
}

static cadre_status check_dropout(const cadre_tape *t, const cadre_tensor *x, double rate,
                                  const char *site) {
    const cadre_draw_key *key = &t->pass.key;
    CADRE_CHECK(rate >= 0 && rate < 1, CADRE_EUSAGE,
                "dropout at \"%s\": the rate is %g; it takes 0 up to, but not including, 1",
                site ? site : "", rate);
    if (rate == 0 || !t->pass.training) return CADRE_OK;
    CADRE_CHECK(site, CADRE_EUSAGE, "dropout takes the name of its place");
    CADRE_CHECK(t->queue->meta || !x || x->dims.n < 1 || key->sample_count == x->dims.at[0],
                CADRE_EUSAGE,
                "dropout at \"%s\": the pass numbers %lld samples, the tensor has %lld rows", site,
                (long long)key->sample_count, (long long)x->dims.at[0]);
    return CADRE_OK;
}

cadre_tensor *cadre_dropout(cadre_tape *t, cadre_tensor *x, double rate, const char *site) {
    if (t->error.status) return &t->placeholder;
    cadre_tape_note(t, check_dropout(t, x, rate, site));
    if (t->error.status) return &t->placeholder;
    if (rate == 0 || !t->pass.training) return x;
    cadre_call c = {
        .op = CADRE_OP_DROPOUT, .in = {x}, .a = {.rate = rate, .site = site, .key = t->pass.key}};
    return cadre_tape_record(t, &c, NULL, NULL);
}

/* Without labels (generation) a loss hands its input through. */
static cadre_tensor *loss(cadre_tape *t, cadre_call *c) {
    if (t->pass.no_labels && !c->in[1]) return c->in[0];
    return cadre_tape_record(t, c, NULL, NULL);
}

cadre_tensor *cadre_cross_entropy(cadre_tape *t, cadre_tensor *logits, cadre_tensor *labels) {
    double smoothing = t->pass.training ? t->pass.label_smoothing : 0;
    cadre_call c = {
        .op = CADRE_OP_CROSS_ENTROPY, .in = {logits, labels}, .a = {.label_smoothing = smoothing}};
    return loss(t, &c);
}

cadre_tensor *cadre_linear_cross_entropy(cadre_tape *t, cadre_tensor *x,
                                         const cadre_parameter *weight, cadre_tensor *labels) {
    double smoothing = t->pass.training ? t->pass.label_smoothing : 0;
    if (t->pass.no_labels && !labels) return cadre_linear(t, x, weight, NULL);
    cadre_call c = {.op = CADRE_OP_LINEAR_CROSS_ENTROPY,
                    .in = {x, labels},
                    .a = {.label_smoothing = smoothing}};
    return cadre_tape_record(t, &c, weight, NULL);
}

cadre_tensor *cadre_squared_error(cadre_tape *t, cadre_tensor *x, cadre_tensor *target) {
    cadre_call c = {.op = CADRE_OP_SQUARED_ERROR, .in = {x, target}};
    return loss(t, &c);
}

cadre_tensor *cadre_sum(cadre_tape *t, cadre_tensor *x) {
    cadre_call c = {.op = CADRE_OP_SUM, .in = {x}};
    return cadre_tape_record(t, &c, NULL, NULL);
}
