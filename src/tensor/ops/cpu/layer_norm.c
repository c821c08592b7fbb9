/* SPDX-License-Identifier: Apache-2.0
 *
 * layer norm in f32 and bf16, cut over the pool by rows; the gradients of weight and bias by
 * columns, rows in order.
 */
#include "tensor/ops/cpu/piece.h"
#include "tensor/ops/cpu/pooled.h"
#include "tensor/ops/cpu/simd.h"
#include "tensor/ops/kernels.h"

enum { ROW_GRAIN = 16, COLUMN_GRAIN = 64 };

CADRE_CLONES static void norm_row(const float *x, const float *w, const float *b, int64_t n,
                                  float eps, float *y, float *ret_mean, float *ret_rstd) {
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < n; k++) sum += x[k];
    float mean = sum / (float)n;
#pragma omp simd reduction(+ : squares)
    for (int64_t k = 0; k < n; k++) squares += (x[k] - mean) * (x[k] - mean);
    float rstd = 1.0f / sqrtf(squares / (float)n + eps);
#pragma omp simd
    for (int64_t k = 0; k < n; k++) y[k] = (x[k] - mean) * rstd * w[k] + b[k];
    *ret_mean = mean;
    *ret_rstd = rstd;
}

CADRE_CLONES static void back_row(const float *x, const float *w, const float *dy, int64_t n,
                                  float mean, float rstd, bool add, float *dx) {
    float g_sum = 0, gn_sum = 0;
#pragma omp simd reduction(+ : g_sum, gn_sum)
    for (int64_t k = 0; k < n; k++) {
        float g = dy[k] * w[k];
        g_sum += g;
        gn_sum += g * ((x[k] - mean) * rstd);
    }
    float g_mean = g_sum / (float)n, gn_mean = gn_sum / (float)n;
    if (add) {
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            dx[k] += rstd * (dy[k] * w[k] - g_mean - (x[k] - mean) * rstd * gn_mean);
    } else {
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            dx[k] = rstd * (dy[k] * w[k] - g_mean - (x[k] - mean) * rstd * gn_mean);
    }
}

/* n columns of x and dy, n <= COLUMN_GRAIN; rows in order. */
#define BACK_COLUMNS(name, type, wide)                                                             \
    CADRE_CLONES static void name(const type *x, const type *dy, const float *mean,                \
                                  const float *rstd, int64_t rows, int64_t stride, int64_t n,      \
                                  float *dw, float *db) {                                          \
        memset(dw, 0, COLUMN_GRAIN * sizeof *dw);                                                  \
        memset(db, 0, COLUMN_GRAIN * sizeof *db);                                                  \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            const type *row = x + r * stride, *grad = dy + r * stride;                             \
            _Pragma("omp simd") for (int64_t k = 0; k < n; k++) {                                  \
                dw[k] += wide(grad[k]) * ((wide(row[k]) - mean[r]) * rstd[r]);                     \
                db[k] += wide(grad[k]);                                                            \
            }                                                                                      \
        }                                                                                          \
    }

BACK_COLUMNS(back_columns_f32, float, from_f32)
BACK_COLUMNS(back_columns_bf16, uint16_t, from_bf16)

/* Rows of bf16 are widened into the thread's scratch; `rooms` rows of it. */
static cadre_status row_rooms(const cadre_call *c, int rooms, float **ret_rooms) {
    *ret_rooms = NULL;
    if (cadre_in_f32(c->out)) return CADRE_OK;
    return cadre_scratch((size_t)(rooms * cadre_columns(c->out)) * sizeof(float), ret_rooms);
}

static float *room_at(float *rooms, int which, int64_t n) {
    return rooms ? rooms + which * n : NULL;
}

static cadre_status forward_rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t n = cadre_columns(c->in[0]);
    float *mean = c->saved[0]->data, *rstd = c->saved[1]->data, *rooms;
    CADRE_TRY(row_rooms(c, 4, &rooms));
    const float *w = cadre_piece_read(c->param[0], 0, n, room_at(rooms, 0, n));
    const float *b = cadre_piece_read(c->param[1], 0, n, room_at(rooms, 1, n));
    for (int64_t r = begin; r < end; r++) {
        const float *x = cadre_piece_read(c->in[0], r * n, n, room_at(rooms, 2, n));
        float *y = cadre_piece_open(c->out, r * n, n, false, room_at(rooms, 3, n));
        norm_row(x, w, b, n, (float)c->a.eps, y, mean + r, rstd + r);
        cadre_piece_close(c->out, r * n, n, y);
    }
    return CADRE_OK;
}

static cadre_status input_rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t n = cadre_columns(c->in[0]);
    const float *mean = c->saved[0]->data, *rstd = c->saved[1]->data;
    float *rooms;
    CADRE_TRY(row_rooms(c, 4, &rooms));
    const float *w = cadre_piece_read(c->param[0], 0, n, room_at(rooms, 0, n));
    for (int64_t r = begin; r < end; r++) {
        const float *x = cadre_piece_read(c->in[0], r * n, n, room_at(rooms, 1, n));
        const float *dy = cadre_piece_read(c->dout, r * n, n, room_at(rooms, 2, n));
        float *dx = cadre_piece_open(c->din[0], r * n, n, c->din_add[0], room_at(rooms, 3, n));
        back_row(x, w, dy, n, mean[r], rstd[r], c->din_add[0], dx);
        cadre_piece_close(c->din[0], r * n, n, dx);
    }
    return CADRE_OK;
}

static void put_columns(cadre_call *c, int which, int64_t at, int64_t n, const float *sums) {
    if (!c->dparam[which]) return;
    bool add = c->dparam_add[which];
    float room[COLUMN_GRAIN], *to = cadre_piece_open(c->dparam[which], at, n, add, room);
    for (int64_t k = 0; k < n; k++) to[k] = add ? to[k] + sums[k] : sums[k];
    cadre_piece_close(c->dparam[which], at, n, to);
}

static cadre_status param_columns(cadre_call *c, int64_t begin, int64_t end) {
    float dw[COLUMN_GRAIN], db[COLUMN_GRAIN];
    const cadre_tensor *x = c->in[0], *dy = c->dout;
    const float *mean = c->saved[0]->data, *rstd = c->saved[1]->data;
    int64_t rows = cadre_rows(x), columns = cadre_columns(x);
    for (int64_t at = begin; at < end; at += COLUMN_GRAIN) {
        int64_t n = end - at < COLUMN_GRAIN ? end - at : COLUMN_GRAIN;
        if (cadre_in_f32(x))
            back_columns_f32((const float *)x->data + at, (const float *)dy->data + at, mean, rstd,
                             rows, columns, n, dw, db);
        else
            back_columns_bf16((const uint16_t *)x->data + at, (const uint16_t *)dy->data + at, mean,
                              rstd, rows, columns, n, dw, db);
        put_columns(c, 0, at, n, dw);
        put_columns(c, 1, at, n, db);
    }
    return CADRE_OK;
}

cadre_status cadre_cpu_layer_norm(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_layer_norm(q, c);
    return cadre_pooled(q, c, cadre_rows(c->in[0]), ROW_GRAIN, forward_rows);
}

cadre_status cadre_cpu_layer_norm_inputs(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_layer_norm_inputs(q, c);
    return cadre_pooled(q, c, cadre_rows(c->in[0]), ROW_GRAIN, input_rows);
}

cadre_status cadre_cpu_layer_norm_params(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_layer_norm_params(q, c);
    return cadre_pooled(q, c, cadre_columns(c->in[0]), COLUMN_GRAIN, param_columns);
}
