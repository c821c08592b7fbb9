/* SPDX-License-Identifier: Apache-2.0
 *
 * embedding and positions in f32. The gradient of a table is cut over the pool by columns, rows in
 * order: a token may come twice.
 */
#include "tensor/ops/embedding.h"

#include "tensor/ops/cpu/pooled.h"
#include "tensor/ops/cpu/simd.h"
#include "tensor/ops/kernels.h"

enum { ROW_GRAIN = 32, COLUMN_GRAIN = 64 };

static cadre_status gather_rows(cadre_call *c, int64_t begin, int64_t end) {
    size_t bytes = (size_t)cadre_columns(c->out) * sizeof(float);
    const int32_t *id = c->in[0]->data;
    for (int64_t r = begin; r < end; r++)
        memcpy((char *)c->out->data + (size_t)r * bytes,
               (const char *)c->param[0]->data + (size_t)id[r] * bytes, bytes);
    return CADRE_OK;
}

CADRE_CLONES static void add_to(float *to, const float *from, int64_t n) {
#pragma omp simd
    for (int64_t k = 0; k < n; k++) to[k] += from[k];
}

CADRE_CLONES static void add_pair(const float *a, const float *b, float *y, int64_t n) {
#pragma omp simd
    for (int64_t k = 0; k < n; k++) y[k] = a[k] + b[k];
}

static void zero_columns(cadre_tensor *t, int64_t begin, int64_t end) {
    int64_t columns = cadre_columns(t);
    for (int64_t r = 0; r < cadre_rows(t); r++)
        memset((float *)t->data + r * columns + begin, 0, (size_t)(end - begin) * sizeof(float));
}

static cadre_status scatter_columns(cadre_call *c, int64_t begin, int64_t end) {
    int64_t columns = cadre_columns(c->out);
    const int32_t *id = c->in[0]->data;
    if (!c->dparam_add[0]) zero_columns(c->dparam[0], begin, end);
    for (int64_t r = 0; r < cadre_count(c->in[0]); r++)
        add_to((float *)c->dparam[0]->data + id[r] * columns + begin,
               (const float *)c->dout->data + r * columns + begin, end - begin);
    return CADRE_OK;
}

static cadre_status position_rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t time = c->out->dims.at[1], columns = c->out->dims.at[2];
    for (int64_t r = begin; r < end; r++)
        add_pair((const float *)c->in[0]->data + r * columns,
                 (const float *)c->param[0]->data + r % time * columns,
                 (float *)c->out->data + r * columns, columns);
    return CADRE_OK;
}

static cadre_status position_input_rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t columns = c->out->dims.at[2];
    float *dx = (float *)c->din[0]->data + begin * columns;
    const float *dy = (const float *)c->dout->data + begin * columns;
    if (c->din_add[0])
        add_to(dx, dy, (end - begin) * columns);
    else
        memcpy(dx, dy, (size_t)((end - begin) * columns) * sizeof *dx);
    return CADRE_OK;
}

/* Rows of the table [begin, end): sums over samples in order. */
static cadre_status position_param_rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t time = c->out->dims.at[1], columns = c->out->dims.at[2];
    float *dw = c->dparam[0]->data;
    if (!c->dparam_add[0])
        memset(dw + begin * columns, 0, (size_t)((end - begin) * columns) * sizeof *dw);
    int64_t last = end < time ? end : time;
    for (int64_t b = 0; begin < last && b < c->out->dims.at[0]; b++)
        add_to(dw + begin * columns, (const float *)c->dout->data + (b * time + begin) * columns,
               (last - begin) * columns);
    return CADRE_OK;
}

cadre_status cadre_cpu_embedding(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_embedding(q, c);
    CADRE_TRY(cadre_check_ids(c->in[0], c->param[0]->dims.at[0], "token"));
    return cadre_pooled(q, c, cadre_count(c->in[0]), ROW_GRAIN, gather_rows);
}

cadre_status cadre_cpu_embedding_params(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_embedding_params(q, c);
    if (!c->dparam[0]) return CADRE_OK;
    return cadre_pooled(q, c, cadre_columns(c->out), COLUMN_GRAIN, scatter_columns);
}

cadre_status cadre_cpu_positions(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_positions(q, c);
    return cadre_pooled(q, c, cadre_rows(c->out), ROW_GRAIN, position_rows);
}

cadre_status cadre_cpu_positions_inputs(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_positions_inputs(q, c);
    return cadre_pooled(q, c, cadre_rows(c->out), ROW_GRAIN, position_input_rows);
}

cadre_status cadre_cpu_positions_params(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_positions_params(q, c);
    if (!c->dparam[0]) return CADRE_OK;
    return cadre_pooled(q, c, c->dparam[0]->dims.at[0], ROW_GRAIN, position_param_rows);
}
