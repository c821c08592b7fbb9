/* SPDX-License-Identifier: Apache-2.0
 *
 * gelu and add in f32 and bf16, cut over the pool in pieces of 4,096 elements.
 */
#include "tensor/ops/cpu/gelu.h"
#include "tensor/ops/cpu/piece.h"
#include "tensor/ops/cpu/pooled.h"
#include "tensor/ops/cpu/simd.h"
#include "tensor/ops/kernels.h"

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

void cadre_gelu_pieces(const cadre_tensor *from, const cadre_tensor *to, int64_t begin,
                       int64_t end) {
    float a[CADRE_PIECE], b[CADRE_PIECE];
    for (int64_t at = begin; at < end; at += CADRE_PIECE) {
        int64_t n = cadre_piece_length(at, end);
        const float *x = cadre_piece_read(from, at, n, a);
        float *y = cadre_piece_open(to, at, n, false, b);
        gelu_of(x, y, n);
        cadre_piece_close(to, at, n, y);
    }
}

void cadre_gelu_back_pieces(const cadre_tensor *from, const cadre_tensor *gradient,
                            const cadre_tensor *to, bool add, int64_t begin, int64_t end) {
    float a[CADRE_PIECE], b[CADRE_PIECE], d[CADRE_PIECE];
    for (int64_t at = begin; at < end; at += CADRE_PIECE) {
        int64_t n = cadre_piece_length(at, end);
        const float *x = cadre_piece_read(from, at, n, a);
        const float *dy = cadre_piece_read(gradient, at, n, b);
        float *dx = cadre_piece_open(to, at, n, add, d);
        gelu_back(x, dy, dx, n, add);
        cadre_piece_close(to, at, n, dx);
    }
}

static cadre_status gelu_range(cadre_call *c, int64_t begin, int64_t end) {
    cadre_gelu_pieces(c->in[0], c->out, begin, end);
    return CADRE_OK;
}

static cadre_status gelu_back_range(cadre_call *c, int64_t begin, int64_t end) {
    cadre_gelu_back_pieces(c->in[0], c->dout, c->din[0], c->din_add[0], begin, end);
    return CADRE_OK;
}

static cadre_status add_range(cadre_call *c, int64_t begin, int64_t end) {
    float a[CADRE_PIECE], b[CADRE_PIECE], sum[CADRE_PIECE];
    for (int64_t at = begin; at < end; at += CADRE_PIECE) {
        int64_t n = cadre_piece_length(at, end);
        const float *x = cadre_piece_read(c->in[0], at, n, a);
        const float *z = cadre_piece_read(c->in[1], at, n, b);
        float *y = cadre_piece_open(c->out, at, n, false, sum);
        add_of(x, z, y, n);
        cadre_piece_close(c->out, at, n, y);
    }
    return CADRE_OK;
}

static cadre_status add_back_range(cadre_call *c, int64_t begin, int64_t end) {
    float a[CADRE_PIECE], b[CADRE_PIECE];
    size_t size = cadre_dtype_size(c->dout->dtype);
    for (int k = 0; k < 2; k++) {
        if (!c->din[k]) continue;
        char *to = (char *)c->din[k]->data + (size_t)begin * size;
        const char *from = (const char *)c->dout->data + (size_t)begin * size;
        if (!c->din_add[k] && to != from) memcpy(to, from, (size_t)(end - begin) * size);
        for (int64_t at = begin; c->din_add[k] && at < end; at += CADRE_PIECE) {
            int64_t n = cadre_piece_length(at, end);
            const float *dy = cadre_piece_read(c->dout, at, n, a);
            float *dx = cadre_piece_open(c->din[k], at, n, true, b);
            add_of(dx, dy, dx, n);
            cadre_piece_close(c->din[k], at, n, dx);
        }
    }
    return CADRE_OK;
}

cadre_status cadre_cpu_gelu(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_gelu(q, c);
    return cadre_pooled(q, c, cadre_count(c->out), 4 * CADRE_PIECE, gelu_range);
}

cadre_status cadre_cpu_gelu_inputs(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_gelu_inputs(q, c);
    return cadre_pooled(q, c, cadre_count(c->out), 4 * CADRE_PIECE, gelu_back_range);
}

cadre_status cadre_cpu_add(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_add(q, c);
    return cadre_pooled(q, c, cadre_count(c->out), 4 * CADRE_PIECE, add_range);
}

cadre_status cadre_cpu_add_inputs(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_add_inputs(q, c);
    return cadre_pooled(q, c, cadre_count(c->out), 4 * CADRE_PIECE, add_back_range);
}
