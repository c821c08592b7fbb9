/* SPDX-License-Identifier: Apache-2.0
 *
 * embedding: y[r] = W[id[r]], W (vocab, C), ids i32 of any shape
 *   dW[id[r]] += dy[r], rows in order
 *
 * positions: y[b, t] = x[b, t] + W[t], W (context, C), T <= context
 *   dx = dy, dW[t] = sum over b of dy[b, t]
 */
#include "tensor/ops/embedding.h"

#include "tensor/ops/ref.h"

cadre_status cadre_embedding_infer(const cadre_call *c, cadre_inferred *ret) {
    const cadre_tensor *ids = c->in[0], *w = c->param[0];
    CADRE_CHECK(ids->dtype == CADRE_I32, CADRE_EUSAGE, "embedding takes ids in i32, not %s",
                cadre_dtype_name(ids->dtype));
    CADRE_CHECK(w->dims.n == 2 && ids->dims.n < CADRE_DIMS_MAX, CADRE_EUSAGE,
                "embedding takes a table of 2 dims, not %d", w->dims.n);
    *ret = cadre_nothing_made();
    ret->out = (cadre_made){w->dtype, ids->dims};
    ret->out.dims.at[ret->out.dims.n++] = w->dims.at[1];
    return CADRE_OK;
}

cadre_status cadre_positions_infer(const cadre_call *c, cadre_inferred *ret) {
    const cadre_tensor *x = c->in[0], *w = c->param[0];
    char a[96], b[96];
    CADRE_CHECK_REAL(c);
    CADRE_CHECK_ALIKE(c);
    CADRE_CHECK(x->dims.n == 3 && w->dims.n == 2 && x->dims.at[1] <= w->dims.at[0] &&
                    x->dims.at[2] == w->dims.at[1],
                CADRE_EUSAGE, "positions: %s does not fit the table %s (context, width)",
                cadre_dims_text(a, sizeof a, &x->dims), cadre_dims_text(b, sizeof b, &w->dims));
    *ret = cadre_nothing_made();
    ret->out = (cadre_made){x->dtype, x->dims};
    return CADRE_OK;
}

void cadre_embedding_cost(const cadre_call *c, cadre_phase phase, cadre_cost *ret) {
    double n = (double)cadre_count(c->out);
    if (phase == CADRE_BACKWARD_INPUTS && c->op == CADRE_OP_EMBEDDING) return;
    *ret = (cadre_cost){.flops = phase == CADRE_FORWARD && c->op == CADRE_OP_EMBEDDING ? 0 : n,
                        .bytes = 2 * n * (double)cadre_dtype_size(c->out->dtype)};
}

cadre_status cadre_check_ids(const cadre_tensor *ids, int64_t vocab, const char *what) {
    const int32_t *id = ids->data;
    for (int64_t i = 0; i < cadre_count(ids); i++)
        CADRE_CHECK(id[i] >= 0 && id[i] < vocab, CADRE_EDATA,
                    "%s %d at place %lld is out of range; it takes 0 to %lld", what, id[i],
                    (long long)i, (long long)vocab - 1);
    return CADRE_OK;
}

cadre_status cadre_ref_embedding(cadre_queue *q, cadre_call *c) {
    (void)q;
    int64_t columns = cadre_columns(c->out);
    CADRE_TRY(cadre_check_ids(c->in[0], c->param[0]->dims.at[0], "token"));
    for (int64_t r = 0; r < cadre_count(c->in[0]); r++)
        for (int64_t k = 0; k < columns; k++)
            put(c->out, r * columns + k,
                at(c->param[0], ((const int32_t *)c->in[0]->data)[r] * columns + k));
    return CADRE_OK;
}

static void zero(cadre_tensor *t) {
    for (int64_t i = 0; i < cadre_count(t); i++) put(t, i, 0);
}

cadre_status cadre_ref_embedding_params(cadre_queue *q, cadre_call *c) {
    (void)q;
    int64_t columns = cadre_columns(c->out);
    if (!c->dparam[0]) return CADRE_OK;
    if (!c->dparam_add[0]) zero(c->dparam[0]);
    for (int64_t r = 0; r < cadre_count(c->in[0]); r++)
        for (int64_t k = 0; k < columns; k++)
            put_or_add(c->dparam[0], ((const int32_t *)c->in[0]->data)[r] * columns + k,
                       at(c->dout, r * columns + k), true);
    return CADRE_OK;
}

cadre_status cadre_ref_positions(cadre_queue *q, cadre_call *c) {
    (void)q;
    int64_t sample = c->out->dims.at[1] * c->out->dims.at[2];
    for (int64_t i = 0; i < cadre_count(c->out); i++)
        put(c->out, i, at(c->in[0], i) + at(c->param[0], i % sample));
    return CADRE_OK;
}

cadre_status cadre_ref_positions_inputs(cadre_queue *q, cadre_call *c) {
    (void)q;
    for (int64_t i = 0; i < cadre_count(c->out); i++)
        put_or_add(c->din[0], i, at(c->dout, i), c->din_add[0]);
    return CADRE_OK;
}

cadre_status cadre_ref_positions_params(cadre_queue *q, cadre_call *c) {
    (void)q;
    int64_t sample = c->out->dims.at[1] * c->out->dims.at[2];
    if (!c->dparam[0]) return CADRE_OK;
    if (!c->dparam_add[0]) zero(c->dparam[0]);
    for (int64_t i = 0; i < sample; i++) {
        double sum = 0;
        for (int64_t b = 0; b < c->out->dims.at[0]; b++) sum += at(c->dout, b * sample + i);
        put_or_add(c->dparam[0], i, sum, true);
    }
    return CADRE_OK;
}
