/* SPDX-License-Identifier: Apache-2.0
 *
 * linear: y = x W' + b, optionally through GELU.
 *
 *   x (R, in), W (out, in) or with in_out (in, out), b (out) or none, y (R, out)
 *   R = all dims but the last
 *   dx = dz W        dW = dz' x (in_out: x' dz)        db = sum over rows of dz
 *
 * Without GELU dz = dy. With it saved[0] keeps z = x W' + b, y = gelu(z), dz = dy gelu'(z).
 */
#include "tensor/ops/ref.h"

cadre_status cadre_linear_infer(const cadre_call *c, cadre_inferred *ret) {
    CADRE_CHECK_REAL(c);
    CADRE_CHECK_ALIKE(c);
    const cadre_tensor *x = c->in[0], *w = c->param[0], *b = c->param[1];
    CADRE_CHECK(w->dims.n == 2, CADRE_EUSAGE, "linear: the weight has %d dims; it takes 2",
                w->dims.n);
    int64_t in = w->dims.at[!c->a.in_out], out = w->dims.at[c->a.in_out];
    char shape[96];
    CADRE_CHECK(x->dims.n >= 1 && cadre_columns(x) == in, CADRE_EUSAGE,
                "linear: the input is %s, the weight takes %lld columns",
                cadre_dims_text(shape, sizeof shape, &x->dims), (long long)in);
    CADRE_CHECK(!b || (b->dims.n == 1 && b->dims.at[0] == out), CADRE_EUSAGE,
                "linear: the bias is %s, the weight gives %lld columns",
                b ? cadre_dims_text(shape, sizeof shape, &b->dims) : "", (long long)out);
    *ret = cadre_nothing_made();
    ret->out = (cadre_made){x->dtype, x->dims};
    ret->out.dims.at[x->dims.n - 1] = out;
    if (c->a.gelu && c->a.training) ret->saved[0] = ret->out;
    return CADRE_OK;
}

void cadre_linear_cost(const cadre_call *c, cadre_phase phase, cadre_cost *ret) {
    double rows = (double)cadre_rows(c->in[0]), in = (double)cadre_columns(c->in[0]),
           out = (double)cadre_columns(c->out);
    double size = (double)cadre_dtype_size(c->in[0]->dtype);
    (void)phase; /* one product of the same size in each */
    ret->matmul_flops = 2 * rows * in * out;
    ret->flops = ret->matmul_flops;
    ret->bytes = size * (rows * in + in * out + rows * out);
}

static double weight(const cadre_call *c, int64_t o, int64_t i, int64_t in, int64_t out) {
    return at(c->param[0], c->a.in_out ? i * out + o : o * in + i);
}

cadre_status cadre_ref_linear(cadre_queue *q, cadre_call *c) {
    (void)q;
    int64_t rows = cadre_rows(c->in[0]), in = cadre_columns(c->in[0]), out = cadre_columns(c->out);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out; o++) {
            double sum = 0;
            for (int64_t i = 0; i < in; i++)
                sum += at(c->in[0], r * in + i) * weight(c, o, i, in, out);
            if (c->param[1]) sum += at(c->param[1], o);
            if (c->saved[0]) put(c->saved[0], r * out + o, sum);
            put(c->out, r * out + o, c->a.gelu ? cadre_gelu_of(sum) : sum);
        }
    return CADRE_OK;
}

static double dz(const cadre_call *c, int64_t i) {
    double dy = at(c->dout, i);
    return c->a.gelu ? dy * cadre_gelu_slope(at(c->saved[0], i)) : dy;
}

cadre_status cadre_ref_linear_inputs(cadre_queue *q, cadre_call *c) {
    (void)q;
    int64_t rows = cadre_rows(c->in[0]), in = cadre_columns(c->in[0]), out = cadre_columns(c->out);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < in; i++) {
            double sum = 0;
            for (int64_t o = 0; o < out; o++) sum += dz(c, r * out + o) * weight(c, o, i, in, out);
            put_or_add(c->din[0], r * in + i, sum, c->din_add[0]);
        }
    return CADRE_OK;
}

cadre_status cadre_ref_linear_params(cadre_queue *q, cadre_call *c) {
    (void)q;
    int64_t rows = cadre_rows(c->in[0]), in = cadre_columns(c->in[0]), out = cadre_columns(c->out);
    for (int64_t o = 0; o < out; o++) {
        for (int64_t i = 0; c->dparam[0] && i < in; i++) {
            double sum = 0;
            for (int64_t r = 0; r < rows; r++) sum += dz(c, r * out + o) * at(c->in[0], r * in + i);
            put_or_add(c->dparam[0], c->a.in_out ? i * out + o : o * in + i, sum, c->dparam_add[0]);
        }
        double sum = 0;
        for (int64_t r = 0; c->dparam[1] && r < rows; r++) sum += dz(c, r * out + o);
        if (c->dparam[1]) put_or_add(c->dparam[1], o, sum, c->dparam_add[1]);
    }
    return CADRE_OK;
}
