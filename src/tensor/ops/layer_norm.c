/* SPDX-License-Identifier: Apache-2.0
 *
 * layer norm (Ba, Kiros, Hinton 2016): n = (x - mean) rstd over the last dim, y = n w + b.
 *
 *   saved[0] mean, saved[1] rstd, one a row
 *   dx = rstd (g - mean(g) - n mean(g n)), g = dy w
 *   dw = sum over rows of dy n,  db = sum over rows of dy
 */
#include "tensor/ops/ref.h"

cadre_status cadre_layer_norm_infer(const cadre_call *c, cadre_inferred *ret) {
    CADRE_CHECK_REAL(c);
    CADRE_CHECK_ALIKE(c);
    int64_t columns = cadre_columns(c->in[0]);
    for (int k = 0; k < 2; k++)
        CADRE_CHECK(c->param[k] && c->param[k]->dims.n == 1 && c->param[k]->dims.at[0] == columns,
                    CADRE_EUSAGE,
                    "layer norm: %s must have %lld elements, as the input has columns",
                    k ? "the bias" : "the weight", (long long)columns);
    *ret = cadre_nothing_made();
    ret->out = (cadre_made){c->in[0]->dtype, c->in[0]->dims};
    ret->saved[0] = ret->saved[1] =
        (cadre_made){cadre_sum_dtype(c->in[0]->dtype), cadre_dims1(cadre_rows(c->in[0]))};
    return CADRE_OK;
}

void cadre_layer_norm_cost(const cadre_call *c, cadre_phase phase, cadre_cost *ret) {
    double n = (double)cadre_count(c->in[0]), size = (double)cadre_dtype_size(c->in[0]->dtype);
    *ret = (cadre_cost){.flops = (phase == CADRE_FORWARD           ? 7
                                  : phase == CADRE_BACKWARD_INPUTS ? 9
                                                                   : 4) *
                                 n,
                        .bytes = (phase == CADRE_BACKWARD_INPUTS ? 3 : 2) * n * size};
}

cadre_status cadre_ref_layer_norm(cadre_queue *q, cadre_call *c) {
    (void)q;
    int64_t columns = cadre_columns(c->in[0]);
    for (int64_t r = 0; r < cadre_rows(c->in[0]); r++) {
        double sum = 0, squares = 0;
        for (int64_t k = 0; k < columns; k++) sum += at(c->in[0], r * columns + k);
        double mean = sum / (double)columns;
        for (int64_t k = 0; k < columns; k++) {
            double d = at(c->in[0], r * columns + k) - mean;
            squares += d * d;
        }
        double rstd = 1 / sqrt(squares / (double)columns + c->a.eps);
        for (int64_t k = 0; k < columns; k++)
            put(c->out, r * columns + k,
                (at(c->in[0], r * columns + k) - mean) * rstd * at(c->param[0], k) +
                    at(c->param[1], k));
        put(c->saved[0], r, mean);
        put(c->saved[1], r, rstd);
    }
    return CADRE_OK;
}

static double normalised(const cadre_call *c, int64_t r, int64_t i) {
    return (at(c->in[0], i) - at(c->saved[0], r)) * at(c->saved[1], r);
}

cadre_status cadre_ref_layer_norm_inputs(cadre_queue *q, cadre_call *c) {
    (void)q;
    int64_t columns = cadre_columns(c->in[0]);
    for (int64_t r = 0; r < cadre_rows(c->in[0]); r++) {
        double g_sum = 0, gn_sum = 0;
        for (int64_t k = 0, i = r * columns; k < columns; k++, i++) {
            double g = at(c->dout, i) * at(c->param[0], k);
            g_sum += g;
            gn_sum += g * normalised(c, r, i);
        }
        for (int64_t k = 0, i = r * columns; k < columns; k++, i++) {
            double g = at(c->dout, i) * at(c->param[0], k);
            double dx = at(c->saved[1], r) * (g - g_sum / (double)columns -
                                              normalised(c, r, i) * gn_sum / (double)columns);
            put_or_add(c->din[0], i, dx, c->din_add[0]);
        }
    }
    return CADRE_OK;
}

cadre_status cadre_ref_layer_norm_params(cadre_queue *q, cadre_call *c) {
    (void)q;
    int64_t columns = cadre_columns(c->in[0]);
    for (int64_t k = 0; k < columns; k++) {
        double dw = 0, db = 0;
        for (int64_t r = 0; r < cadre_rows(c->in[0]); r++) {
            dw += at(c->dout, r * columns + k) * normalised(c, r, r * columns + k);
            db += at(c->dout, r * columns + k);
        }
        if (c->dparam[0]) put_or_add(c->dparam[0], k, dw, c->dparam_add[0]);
        if (c->dparam[1]) put_or_add(c->dparam[1], k, db, c->dparam_add[1]);
    }
    return CADRE_OK;
}
