/* SPDX-License-Identifier: Apache-2.0
 *
 * embedding and positions in f32 and bf16. The gradient of a table is cut over the pool by columns,
 * rows in order: a token may come twice.
 */
#include "tensor/ops/embedding.h"

#include "tensor/ops/cpu/piece.h"
#include "tensor/ops/cpu/pooled.h"
#include "tensor/ops/cpu/simd.h"
#include "tensor/ops/kernels.h"

enum { ROW_GRAIN = 32, COLUMN_GRAIN = 64 };

static cadre_status gather_rows(cadre_call *c, int64_t begin, int64_t end) {
    size_t bytes = (size_t)cadre_columns(c->out) * cadre_dtype_size(c->out->dtype);
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

/* to[to_first ..] += from[from_first ..], n elements. */
static void add_pieces(const cadre_tensor *to, int64_t to_first, const cadre_tensor *from,
                       int64_t from_first, int64_t n) {
    float a[CADRE_PIECE], b[CADRE_PIECE];
    for (int64_t at = 0; at < n; at += CADRE_PIECE) {
        int64_t part = cadre_piece_length(at, n);
        float *sum = cadre_piece_open(to, to_first + at, part, true, a);
        add_to(sum, cadre_piece_read(from, from_first + at, part, b), part);
        cadre_piece_close(to, to_first + at, part, sum);
    }
}

static void zero(const cadre_tensor *t, int64_t first, int64_t n) {
    size_t size = cadre_dtype_size(t->dtype);
    memset((char *)t->data + (size_t)first * size, 0, (size_t)n * size);
}

static cadre_status scatter_columns(cadre_call *c, int64_t begin, int64_t end) {
    int64_t columns = cadre_columns(c->out);
    const int32_t *id = c->in[0]->data;
    for (int64_t r = 0; !c->dparam_add[0] && r < cadre_rows(c->dparam[0]); r++)
        zero(c->dparam[0], r * columns + begin, end - begin);
    for (int64_t r = 0; r < cadre_count(c->in[0]); r++)
        add_pieces(c->dparam[0], id[r] * columns + begin, c->dout, r * columns + begin,
                   end - begin);
    return CADRE_OK;
}

static cadre_status position_rows(cadre_call *c, int64_t begin, int64_t end) {
    float a[CADRE_PIECE], b[CADRE_PIECE], sum[CADRE_PIECE];
    int64_t time = c->out->dims.at[1], columns = c->out->dims.at[2];
    for (int64_t r = begin; r < end; r++)
        for (int64_t k = 0; k < columns; k += CADRE_PIECE) {
            int64_t n = cadre_piece_length(k, columns);
            const float *x = cadre_piece_read(c->in[0], r * columns + k, n, a);
            const float *w = cadre_piece_read(c->param[0], r % time * columns + k, n, b);
            float *y = cadre_piece_open(c->out, r * columns + k, n, false, sum);
            add_pair(x, w, y, n);
            cadre_piece_close(c->out, r * columns + k, n, y);
        }
    return CADRE_OK;
}

static cadre_status position_input_rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t columns = c->out->dims.at[2], first = begin * columns, n = (end - begin) * columns;
    size_t size = cadre_dtype_size(c->dout->dtype);
    if (c->din_add[0])
        add_pieces(c->din[0], first, c->dout, first, n);
    else
        memcpy((char *)c->din[0]->data + (size_t)first * size,
               (const char *)c->dout->data + (size_t)first * size, (size_t)n * size);
    return CADRE_OK;
}

/* Rows of the table [begin, end): sums over samples in order. */
static cadre_status position_param_rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t time = c->out->dims.at[1], columns = c->out->dims.at[2];
    if (!c->dparam_add[0]) zero(c->dparam[0], begin * columns, (end - begin) * columns);
    int64_t last = end < time ? end : time;
    for (int64_t b = 0; begin < last && b < c->out->dims.at[0]; b++)
        add_pieces(c->dparam[0], begin * columns, c->dout, (b * time + begin) * columns,
                   (last - begin) * columns);
    return CADRE_OK;
}

cadre_status cadre_cpu_embedding(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_embedding(q, c);
    CADRE_TRY(cadre_check_ids(c->in[0], c->param[0]->dims.at[0], "token"));
    return cadre_pooled(q, c, cadre_count(c->in[0]), ROW_GRAIN, gather_rows);
}

cadre_status cadre_cpu_embedding_params(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_embedding_params(q, c);
    if (!c->dparam[0]) return CADRE_OK;
    return cadre_pooled(q, c, cadre_columns(c->out), COLUMN_GRAIN, scatter_columns);
}

cadre_status cadre_cpu_positions(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_positions(q, c);
    return cadre_pooled(q, c, cadre_rows(c->out), ROW_GRAIN, position_rows);
}

cadre_status cadre_cpu_positions_inputs(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_positions_inputs(q, c);
    return cadre_pooled(q, c, cadre_rows(c->out), ROW_GRAIN, position_input_rows);
}

cadre_status cadre_cpu_positions_params(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_positions_params(q, c);
    if (!c->dparam[0]) return CADRE_OK;
    return cadre_pooled(q, c, c->dparam[0]->dims.at[0], ROW_GRAIN, position_param_rows);
}
