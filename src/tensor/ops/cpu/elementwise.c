/* SPDX-License-Identifier: Apache-2.0
 *
 * gelu and add in f32, cut over the pool in pieces of 4,096 elements.
 */
#include "tensor/ops/cpu/pooled.h"
#include "tensor/ops/cpu/simd.h"
#include "tensor/ops/kernels.h"

enum { PIECE = 4096 };

CADRE_CLONES static void gelu_of(const float *x, float *y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = gelu_fast(x[i]);
}

CADRE_CLONES static void gelu_back(const float *x, const float *dy, float *dx, int64_t n,
                                   bool add) {
    if (add) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dx[i] += dy[i] * gelu_slope_fast(x[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * gelu_slope_fast(x[i]);
    }
}

CADRE_CLONES static void add_of(const float *a, const float *b, float *y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static cadre_status gelu_range(cadre_call *c, int64_t begin, int64_t end) {
    gelu_of((const float *)c->in[0]->data + begin, (float *)c->out->data + begin, end - begin);
    return CADRE_OK;
}

static cadre_status gelu_back_range(cadre_call *c, int64_t begin, int64_t end) {
    gelu_back((const float *)c->in[0]->data + begin, (const float *)c->dout->data + begin,
              (float *)c->din[0]->data + begin, end - begin, c->din_add[0]);
    return CADRE_OK;
}

static cadre_status add_range(cadre_call *c, int64_t begin, int64_t end) {
    add_of((const float *)c->in[0]->data + begin, (const float *)c->in[1]->data + begin,
           (float *)c->out->data + begin, end - begin);
    return CADRE_OK;
}

static cadre_status add_back_range(cadre_call *c, int64_t begin, int64_t end) {
    const float *dy = (const float *)c->dout->data + begin;
    for (int k = 0; k < 2; k++) {
        if (!c->din[k]) continue;
        float *dx = (float *)c->din[k]->data + begin;
        if (c->din_add[k])
            add_of(dx, dy, dx, end - begin);
        else if (dx != dy)
            memcpy(dx, dy, (size_t)(end - begin) * sizeof *dx);
    }
    return CADRE_OK;
}

cadre_status cadre_cpu_gelu(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_gelu(q, c);
    return cadre_pooled(q, c, cadre_count(c->out), PIECE, gelu_range);
}

cadre_status cadre_cpu_gelu_inputs(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_gelu_inputs(q, c);
    return cadre_pooled(q, c, cadre_count(c->out), PIECE, gelu_back_range);
}

cadre_status cadre_cpu_add(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_add(q, c);
    return cadre_pooled(q, c, cadre_count(c->out), PIECE, add_range);
}

cadre_status cadre_cpu_add_inputs(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_add_inputs(q, c);
    return cadre_pooled(q, c, cadre_count(c->out), PIECE, add_back_range);
}
