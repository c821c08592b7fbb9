/* SPDX-License-Identifier: Apache-2.0
 *
 * linear in f32: products by oneDNN on plain row-major memory, cut over the pool by rows of the
 * result (a cut by rows does not change a row's bits). With GELU a range is worked in bands of rows
 * that are still in the cache when the GELU follows.
 *
 * Backward of the fused GELU: dz = dy gelu'(z) is written over dy, once, by whichever part comes
 * first; the attribute slope_taken is the mark.
 */
#include "tensor/ops/cpu/dnnl.h"
#include "tensor/ops/cpu/pooled.h"
#include "tensor/ops/cpu/simd.h"
#include "tensor/ops/kernels.h"

enum { BAND = 64, ROW_GRAIN = 16 };

typedef struct shape {
    int64_t rows, in, out;
} shape;

static shape shape_of(const cadre_call *c) {
    return (shape){cadre_rows(c->in[0]), cadre_columns(c->in[0]), cadre_columns(c->out)};
}

static bool plain(const cadre_call *c) {
    return c->in[0]->dtype != CADRE_F32;
}

CADRE_CLONES static void gelu_rows(const float *z, float *y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = gelu_fast(z[i]);
}

CADRE_CLONES static void gelu_slopes(const float *z, float *dy, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dy[i] *= gelu_slope_fast(z[i]);
}

/* Rows [begin, end) of z or y. */
static cadre_status forward_rows(cadre_call *c, int64_t begin, int64_t end) {
    shape s = shape_of(c);
    const float *x = c->in[0]->data, *bias = c->param[1] ? c->param[1]->data : NULL;
    float *y = c->out->data, *z = c->saved[0] ? c->saved[0]->data : y;
    int64_t band = c->a.gelu ? BAND : end - begin;
    for (int64_t r = begin; r < end; r += band) {
        int64_t rows = r + band < end ? band : end - r;
        cadre_product p = {.m = rows,
                           .n = s.out,
                           .k = s.in,
                           .lda = s.in,
                           .ldc = s.out,
                           .ldb = c->a.in_out ? s.out : s.in,
                           .b_transposed = !c->a.in_out};
        CADRE_TRY(cadre_product_run(&p, x + r * s.in, c->param[0]->data, bias, z + r * s.out));
        if (c->a.gelu) gelu_rows(z + r * s.out, y + r * s.out, rows * s.out);
    }
    return CADRE_OK;
}

cadre_status cadre_cpu_linear(cadre_queue *q, cadre_call *c) {
    if (plain(c)) return cadre_ref_linear(q, c);
    return cadre_pooled(q, c, cadre_rows(c->in[0]), ROW_GRAIN, forward_rows);
}

static cadre_status slope_rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t out = cadre_columns(c->out);
    gelu_slopes((const float *)c->saved[0]->data + begin * out,
                (float *)c->dout->data + begin * out, (end - begin) * out);
    return CADRE_OK;
}

static cadre_status input_rows(cadre_call *c, int64_t begin, int64_t end) {
    shape s = shape_of(c);
    cadre_product p = {.m = end - begin,
                       .n = s.in,
                       .k = s.out,
                       .lda = s.out,
                       .ldc = s.in,
                       .ldb = c->a.in_out ? s.out : s.in,
                       .b_transposed = c->a.in_out,
                       .add = c->din_add[0]};
    return cadre_product_run(&p, (const float *)c->dout->data + begin * s.out, c->param[0]->data,
                             NULL, (float *)c->din[0]->data + begin * s.in);
}

/* dz over dy, in place: the tape drops dy after this call. */
static cadre_status take_slope(cadre_queue *q, cadre_call *c) {
    if (!c->a.gelu || c->a.slope_taken) return CADRE_OK;
    c->a.slope_taken = true;
    return cadre_pooled(q, c, cadre_rows(c->in[0]), ROW_GRAIN, slope_rows);
}

cadre_status cadre_cpu_linear_inputs(cadre_queue *q, cadre_call *c) {
    if (plain(c)) return cadre_ref_linear_inputs(q, c);
    CADRE_TRY(take_slope(q, c));
    return cadre_pooled(q, c, cadre_rows(c->in[0]), ROW_GRAIN, input_rows);
}

/* Rows [begin, end) of the weight's gradient: outputs, or with in_out inputs. */
static cadre_status weight_rows(cadre_call *c, int64_t begin, int64_t end) {
    shape s = shape_of(c);
    const float *x = c->in[0]->data, *dz = c->dout->data;
    int64_t left = c->a.in_out ? s.in : s.out, right = c->a.in_out ? s.out : s.in;
    cadre_product p = {.m = end - begin,
                       .n = right,
                       .k = s.rows,
                       .lda = left,
                       .ldb = right,
                       .ldc = right,
                       .a_transposed = true,
                       .add = c->dparam_add[0]};
    return cadre_product_run(&p, (c->a.in_out ? x : dz) + begin, c->a.in_out ? dz : x, NULL,
                             (float *)c->dparam[0]->data + begin * right);
}

/* Columns [begin, end) of the bias's gradient, rows in order. */
CADRE_CLONES static void column_sums(const float *dz, int64_t rows, int64_t columns, int64_t begin,
                                     int64_t end, bool add, float *sums) {
    float part[64];
    for (int64_t at = begin; at < end; at += 64) {
        int64_t n = end - at < 64 ? end - at : 64;
        memset(part, 0, sizeof part);
        for (int64_t r = 0; r < rows; r++)
#pragma omp simd
            for (int64_t k = 0; k < n; k++) part[k] += dz[r * columns + at + k];
        for (int64_t k = 0; k < n; k++) sums[at + k] = add ? sums[at + k] + part[k] : part[k];
    }
}

static cadre_status bias_columns(cadre_call *c, int64_t begin, int64_t end) {
    shape s = shape_of(c);
    column_sums(c->dout->data, s.rows, s.out, begin, end, c->dparam_add[1], c->dparam[1]->data);
    return CADRE_OK;
}

cadre_status cadre_cpu_linear_params(cadre_queue *q, cadre_call *c) {
    if (plain(c)) return cadre_ref_linear_params(q, c);
    CADRE_TRY(take_slope(q, c));
    shape s = shape_of(c);
    if (c->dparam[0])
        CADRE_TRY(cadre_pooled(q, c, c->a.in_out ? s.in : s.out, ROW_GRAIN, weight_rows));
    if (c->dparam[1]) CADRE_TRY(cadre_pooled(q, c, s.out, 64, bias_columns));
    return CADRE_OK;
}
