/* SPDX-License-Identifier: Apache-2.0
 *
 * gelu: y = gelu(x), tanh form.        dx = dy gelu'(x)
 * add:  y = a + b, of one shape.       da = dy, db = dy
 */
#include "tensor/ops/ref.h"

cadre_status cadre_gelu_infer(const cadre_call *c, cadre_inferred *ret) {
    CADRE_CHECK_REAL(c);
    *ret = cadre_nothing_made();
    ret->out = (cadre_made){c->in[0]->dtype, c->in[0]->dims};
    return CADRE_OK;
}

cadre_status cadre_add_infer(const cadre_call *c, cadre_inferred *ret) {
    char a[96], b[96];
    CADRE_CHECK_REAL(c);
    CADRE_CHECK(cadre_dims_equal(&c->in[0]->dims, &c->in[1]->dims) &&
                    c->in[0]->dtype == c->in[1]->dtype,
                CADRE_EUSAGE, "add: %s %s and %s %s are not of one shape and type",
                cadre_dtype_name(c->in[0]->dtype), cadre_dims_text(a, sizeof a, &c->in[0]->dims),
                cadre_dtype_name(c->in[1]->dtype), cadre_dims_text(b, sizeof b, &c->in[1]->dims));
    return cadre_gelu_infer(c, ret);
}

void cadre_gelu_cost(const cadre_call *c, cadre_phase phase, cadre_cost *ret) {
    double n = (double)cadre_count(c->in[0]);
    if (phase == CADRE_BACKWARD_PARAMS) return;
    *ret =
        (cadre_cost){.flops = 10 * n, .bytes = 2 * n * (double)cadre_dtype_size(c->in[0]->dtype)};
}

void cadre_add_cost(const cadre_call *c, cadre_phase phase, cadre_cost *ret) {
    double n = (double)cadre_count(c->in[0]);
    if (phase == CADRE_BACKWARD_PARAMS) return;
    *ret = (cadre_cost){.flops = n, .bytes = 3 * n * (double)cadre_dtype_size(c->in[0]->dtype)};
}

cadre_status cadre_ref_gelu(cadre_queue *q, cadre_call *c) {
    (void)q;
    for (int64_t i = 0; i < cadre_count(c->out); i++)
        put(c->out, i, cadre_gelu_of(at(c->in[0], i)));
    return CADRE_OK;
}

cadre_status cadre_ref_gelu_inputs(cadre_queue *q, cadre_call *c) {
    (void)q;
    for (int64_t i = 0; i < cadre_count(c->out); i++)
        put_or_add(c->din[0], i, at(c->dout, i) * cadre_gelu_slope(at(c->in[0], i)), c->din_add[0]);
    return CADRE_OK;
}

cadre_status cadre_ref_add(cadre_queue *q, cadre_call *c) {
    (void)q;
    for (int64_t i = 0; i < cadre_count(c->out); i++)
        put(c->out, i, at(c->in[0], i) + at(c->in[1], i));
    return CADRE_OK;
}

cadre_status cadre_ref_add_inputs(cadre_queue *q, cadre_call *c) {
    (void)q;
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; c->din[k] && i < cadre_count(c->out); i++)
            put_or_add(c->din[k], i, at(c->dout, i), c->din_add[k]);
    return CADRE_OK;
}
