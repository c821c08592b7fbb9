/* SPDX-License-Identifier: Apache-2.0
 *
 * layer norm in f32, cut over the pool by rows; the gradients of weight and bias by columns, rows
 * in order.
 */
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

/* Columns [at, at + n), n <= COLUMN_GRAIN. */
CADRE_CLONES static void back_columns(const float *x, const float *dy, const float *mean,
                                      const float *rstd, int64_t rows, int64_t columns, int64_t at,
                                      int64_t n, float *dw, float *db) {
    memset(dw, 0, COLUMN_GRAIN * sizeof *dw);
    memset(db, 0, COLUMN_GRAIN * sizeof *db);
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r * columns + at, *grad = dy + r * columns + at;
#pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            dw[k] += grad[k] * ((row[k] - mean[r]) * rstd[r]);
            db[k] += grad[k];
        }
    }
}

static cadre_status forward_rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t n = cadre_columns(c->in[0]);
    float *mean = c->saved[0]->data, *rstd = c->saved[1]->data;
    for (int64_t r = begin; r < end; r++)
        norm_row((const float *)c->in[0]->data + r * n, c->param[0]->data, c->param[1]->data, n,
                 (float)c->a.eps, (float *)c->out->data + r * n, mean + r, rstd + r);
    return CADRE_OK;
}

static cadre_status input_rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t n = cadre_columns(c->in[0]);
    const float *mean = c->saved[0]->data, *rstd = c->saved[1]->data;
    for (int64_t r = begin; r < end; r++)
        back_row((const float *)c->in[0]->data + r * n, c->param[0]->data,
                 (const float *)c->dout->data + r * n, n, mean[r], rstd[r], c->din_add[0],
                 (float *)c->din[0]->data + r * n);
    return CADRE_OK;
}

static void put_columns(cadre_call *c, int which, int64_t at, int64_t n, const float *sums) {
    if (!c->dparam[which]) return;
    float *to = (float *)c->dparam[which]->data + at;
    for (int64_t k = 0; k < n; k++) to[k] = c->dparam_add[which] ? to[k] + sums[k] : sums[k];
}

static cadre_status param_columns(cadre_call *c, int64_t begin, int64_t end) {
    float dw[COLUMN_GRAIN], db[COLUMN_GRAIN];
    for (int64_t at = begin; at < end; at += COLUMN_GRAIN) {
        int64_t n = end - at < COLUMN_GRAIN ? end - at : COLUMN_GRAIN;
        back_columns(c->in[0]->data, c->dout->data, c->saved[0]->data, c->saved[1]->data,
                     cadre_rows(c->in[0]), cadre_columns(c->in[0]), at, n, dw, db);
        put_columns(c, 0, at, n, dw);
        put_columns(c, 1, at, n, db);
    }
    return CADRE_OK;
}

cadre_status cadre_cpu_layer_norm(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_layer_norm(q, c);
    return cadre_pooled(q, c, cadre_rows(c->in[0]), ROW_GRAIN, forward_rows);
}

cadre_status cadre_cpu_layer_norm_inputs(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_layer_norm_inputs(q, c);
    return cadre_pooled(q, c, cadre_rows(c->in[0]), ROW_GRAIN, input_rows);
}

cadre_status cadre_cpu_layer_norm_params(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_layer_norm_params(q, c);
    return cadre_pooled(q, c, cadre_columns(c->in[0]), COLUMN_GRAIN, param_columns);
}
