/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal self-attention of GPT-2: qkv (B, T, 3C) holds q | k | v, each C = heads x d wide.
 *
 *   s[t, u] = q[t] . k[u] / sqrt(d) for u <= t
 *   p = softmax of s over u,  y[t] = sum over u of p[t, u] v[u]
 *   saved[0] (B, heads, T): log of the sum of exp(s) of each row, from which p is made again
 *
 *   D[t] = dy[t] . y[t],  ds = p (dy . v - D) / sqrt(d)
 *   dq = ds k,  dk = ds' q,  dv = p' dy
 */
#include "tensor/ops/ref.h"

cadre_status cadre_attention_infer(const cadre_call *c, cadre_inferred *ret) {
    const cadre_tensor *x = c->in[0];
    char shape[96];
    CADRE_CHECK_REAL(c);
    CADRE_CHECK(x->dims.n == 3 && x->dims.at[2] % 3 == 0, CADRE_EUSAGE,
                "attention takes (B, T, 3C), not %s",
                cadre_dims_text(shape, sizeof shape, &x->dims));
    int64_t width = x->dims.at[2] / 3;
    CADRE_CHECK(c->a.heads >= 1 && width % c->a.heads == 0, CADRE_EUSAGE,
                "attention: %lld heads do not divide the width %lld", (long long)c->a.heads,
                (long long)width);
    *ret = cadre_nothing_made();
    ret->out = (cadre_made){x->dtype, cadre_dims3(x->dims.at[0], x->dims.at[1], width)};
    ret->saved[0] = (cadre_made){cadre_sum_dtype(x->dtype),
                                 cadre_dims3(x->dims.at[0], c->a.heads, x->dims.at[1])};
    return CADRE_OK;
}

/* Half of the T x T products, since u <= t. */
void cadre_attention_cost(const cadre_call *c, cadre_phase phase, cadre_cost *ret) {
    double b = (double)c->in[0]->dims.at[0], t = (double)c->in[0]->dims.at[1],
           width = (double)c->in[0]->dims.at[2] / 3;
    double product = b * t * (t + 1) * width, size = (double)cadre_dtype_size(c->in[0]->dtype);
    if (phase == CADRE_BACKWARD_PARAMS) return;
    ret->matmul_flops = product * (phase == CADRE_FORWARD ? 2 : 5);
    ret->flops = ret->matmul_flops;
    ret->bytes = size * b * t * width * (phase == CADRE_FORWARD ? 4 : 8);
}

/* Where things lie. */
typedef struct view {
    int64_t batch, time, width, heads, d;
    double scale;
} view;

static view view_of(const cadre_call *c) {
    const cadre_dims *x = &c->in[0]->dims;
    int64_t width = x->at[2] / 3, d = width / c->a.heads;
    return (view){x->at[0], x->at[1], width, c->a.heads, d, 1 / sqrt((double)d)};
}

/* Element i of part (0 q, 1 k, 2 v) of head h at (b, t). */
static int64_t place(const view *s, int part, int64_t b, int64_t h, int64_t t, int64_t i) {
    return (b * s->time + t) * 3 * s->width + part * s->width + h * s->d + i;
}

static double score(const view *s, const cadre_tensor *x, int64_t b, int64_t h, int64_t t,
                    int64_t u) {
    double sum = 0;
    for (int64_t i = 0; i < s->d; i++)
        sum += at(x, place(s, 0, b, h, t, i)) * at(x, place(s, 1, b, h, u, i));
    return sum * s->scale;
}

cadre_status cadre_ref_attention(cadre_queue *q, cadre_call *c) {
    (void)q;
    view s = view_of(c);
    for (int64_t row = 0; row < s.batch * s.heads * s.time; row++) {
        int64_t t = row % s.time, h = row / s.time % s.heads, b = row / s.time / s.heads;
        double most = -INFINITY, sum = 0;
        for (int64_t u = 0; u <= t; u++) most = fmax(most, score(&s, c->in[0], b, h, t, u));
        for (int64_t u = 0; u <= t; u++) sum += exp(score(&s, c->in[0], b, h, t, u) - most);
        for (int64_t i = 0; i < s.d; i++) {
            double y = 0;
            for (int64_t u = 0; u <= t; u++)
                y += exp(score(&s, c->in[0], b, h, t, u) - most) / sum *
                     at(c->in[0], place(&s, 2, b, h, u, i));
            put(c->out, (b * s.time + t) * s.width + h * s.d + i, y);
        }
        put(c->saved[0], row, most + log(sum));
    }
    return CADRE_OK;
}

static void backward_pair(const view *s, cadre_call *c, int64_t row, int64_t u, double delta) {
    int64_t t = row % s->time, h = row / s->time % s->heads, b = row / s->time / s->heads;
    const cadre_tensor *x = c->in[0];
    int64_t y = (b * s->time + t) * s->width + h * s->d;
    double p = exp(score(s, x, b, h, t, u) - at(c->saved[0], row)), dp = 0;
    for (int64_t i = 0; i < s->d; i++) dp += at(c->dout, y + i) * at(x, place(s, 2, b, h, u, i));
    double ds = p * (dp - delta) * s->scale;
    for (int64_t i = 0; i < s->d; i++) {
        put_or_add(c->din[0], place(s, 0, b, h, t, i), ds * at(x, place(s, 1, b, h, u, i)), true);
        put_or_add(c->din[0], place(s, 1, b, h, u, i), ds * at(x, place(s, 0, b, h, t, i)), true);
        put_or_add(c->din[0], place(s, 2, b, h, u, i), p * at(c->dout, y + i), true);
    }
}

cadre_status cadre_ref_attention_inputs(cadre_queue *q, cadre_call *c) {
    (void)q;
    view s = view_of(c);
    for (int64_t i = 0; !c->din_add[0] && i < cadre_count(c->din[0]); i++) put(c->din[0], i, 0);
    for (int64_t row = 0; row < s.batch * s.heads * s.time; row++) {
        int64_t t = row % s.time, h = row / s.time % s.heads, b = row / s.time / s.heads;
        int64_t y = (b * s.time + t) * s.width + h * s.d;
        double delta = 0;
        for (int64_t i = 0; i < s.d; i++) delta += at(c->dout, y + i) * at(c->out, y + i);
        for (int64_t u = 0; u <= t; u++) backward_pair(&s, c, row, u, delta);
    }
    return CADRE_OK;
}
