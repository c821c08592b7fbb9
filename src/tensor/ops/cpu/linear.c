/* SPDX-License-Identifier: Apache-2.0
 *
 * linear in f32: products by oneDNN on plain row-major memory, in tiles of rows of the result,
 * which the pool shares out. The tile follows from the shape alone: oneDNN may sum in another order
 * for other numbers of rows, and the bits must not depend on the threads. A tile is still in the
 * cache when its GELU follows.
 *
 * Backward of the fused GELU: dz = dy gelu'(z) is written over z in saved[0], once, by whichever
 * part comes first (dy itself may be shared with another call); the attribute slope_taken is the
 * mark.
 */
#include "tensor/ops/cpu/dnnl.h"
#include "tensor/ops/cpu/pooled.h"
#include "tensor/ops/cpu/simd.h"
#include "tensor/ops/kernels.h"

enum { ROW_GRAIN = 16, TILE_LEAST = 64, TILE_MOST = 256, TILES = 8 };

typedef struct shape {
    int64_t rows, in, out;
} shape;

static shape shape_of(const cadre_call *c) {
    return (shape){cadre_rows(c->in[0]), cadre_columns(c->in[0]), cadre_columns(c->out)};
}

/* Rows of a product: enough tiles for a few threads, none too small for oneDNN's blocks. */
static int64_t tile_of(int64_t rows) {
    int64_t tile = ((rows + TILES - 1) / TILES + ROW_GRAIN - 1) / ROW_GRAIN * ROW_GRAIN;
    return tile < TILE_LEAST ? TILE_LEAST : tile > TILE_MOST ? TILE_MOST : tile;
}

static int64_t tile_end(int64_t begin, int64_t tile, int64_t end) {
    return begin + tile < end ? begin + tile : end;
}

static bool plain(const cadre_call *c) {
    return c->in[0]->dtype != CADRE_F32;
}

CADRE_CLONES static void gelu_rows(const float *z, float *y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = gelu_fast(z[i]);
}

CADRE_CLONES static void gelu_slopes(float *z, const float *dy, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) z[i] = dy[i] * gelu_slope_fast(z[i]);
}

static cadre_status forward_tile(cadre_call *c, int64_t begin, int64_t end) {
    shape s = shape_of(c);
    const float *x = c->in[0]->data, *bias = c->param[1] ? c->param[1]->data : NULL;
    float *y = c->out->data, *z = c->saved[0] ? c->saved[0]->data : y;
    cadre_product p = {.m = end - begin,
                       .n = s.out,
                       .k = s.in,
                       .lda = s.in,
                       .ldc = s.out,
                       .ldb = c->a.in_out ? s.out : s.in,
                       .b_transposed = !c->a.in_out};
    CADRE_TRY(cadre_product_run(&p, x + begin * s.in, c->param[0]->data, bias, z + begin * s.out));
    if (c->a.gelu) gelu_rows(z + begin * s.out, y + begin * s.out, (end - begin) * s.out);
    return CADRE_OK;
}

/* Runs `fn` tile by tile over [begin, end), which begins at a tile. */
static cadre_status by_tiles(cadre_call *c, int64_t begin, int64_t end, int64_t tile,
                             cadre_pooled_fn *fn) {
    for (int64_t r = begin; r < end; r += tile) CADRE_TRY(fn(c, r, tile_end(r, tile, end)));
    return CADRE_OK;
}

static cadre_status forward_rows(cadre_call *c, int64_t begin, int64_t end) {
    return by_tiles(c, begin, end, tile_of(cadre_rows(c->in[0])), forward_tile);
}

cadre_status cadre_cpu_linear(cadre_queue *q, cadre_call *c) {
    if (plain(c)) return cadre_ref_linear(q, c);
    c->a.slope_taken = false;
    return cadre_pooled(q, c, cadre_rows(c->in[0]), tile_of(cadre_rows(c->in[0])), forward_rows);
}

static const float *dz_of(const cadre_call *c) {
    return c->a.gelu ? c->saved[0]->data : c->dout->data;
}

static cadre_status slope_rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t out = cadre_columns(c->out);
    gelu_slopes((float *)c->saved[0]->data + begin * out,
                (const float *)c->dout->data + begin * out, (end - begin) * out);
    return CADRE_OK;
}

static cadre_status input_tile(cadre_call *c, int64_t begin, int64_t end) {
    shape s = shape_of(c);
    cadre_product p = {.m = end - begin,
                       .n = s.in,
                       .k = s.out,
                       .lda = s.out,
                       .ldc = s.in,
                       .ldb = c->a.in_out ? s.out : s.in,
                       .b_transposed = c->a.in_out,
                       .add = c->din_add[0]};
    return cadre_product_run(&p, dz_of(c) + begin * s.out, c->param[0]->data, NULL,
                             (float *)c->din[0]->data + begin * s.in);
}

static cadre_status input_rows(cadre_call *c, int64_t begin, int64_t end) {
    return by_tiles(c, begin, end, tile_of(cadre_rows(c->in[0])), input_tile);
}

/* Makes dz, once. */
static cadre_status take_slope(cadre_queue *q, cadre_call *c) {
    if (!c->a.gelu || c->a.slope_taken) return CADRE_OK;
    c->a.slope_taken = true;
    return cadre_pooled(q, c, cadre_rows(c->in[0]), ROW_GRAIN, slope_rows);
}

cadre_status cadre_cpu_linear_inputs(cadre_queue *q, cadre_call *c) {
    if (plain(c)) return cadre_ref_linear_inputs(q, c);
    CADRE_TRY(take_slope(q, c));
    return cadre_pooled(q, c, cadre_rows(c->in[0]), tile_of(cadre_rows(c->in[0])), input_rows);
}

/* Rows [begin, end) of the weight's gradient: outputs, or with in_out inputs. */
static cadre_status weight_tile(cadre_call *c, int64_t begin, int64_t end) {
    shape s = shape_of(c);
    const float *x = c->in[0]->data, *dz = dz_of(c);
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

static int64_t weight_rows_of(const cadre_call *c) {
    return c->a.in_out ? cadre_columns(c->in[0]) : cadre_columns(c->out);
}

static cadre_status weight_rows(cadre_call *c, int64_t begin, int64_t end) {
    return by_tiles(c, begin, end, tile_of(weight_rows_of(c)), weight_tile);
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
    column_sums(dz_of(c), s.rows, s.out, begin, end, c->dparam_add[1], c->dparam[1]->data);
    return CADRE_OK;
}

cadre_status cadre_cpu_linear_params(cadre_queue *q, cadre_call *c) {
    if (plain(c)) return cadre_ref_linear_params(q, c);
    CADRE_TRY(take_slope(q, c));
    shape s = shape_of(c);
    if (c->dparam[0])
        CADRE_TRY(cadre_pooled(q, c, weight_rows_of(c), tile_of(weight_rows_of(c)), weight_rows));
    if (c->dparam[1]) CADRE_TRY(cadre_pooled(q, c, s.out, 64, bias_columns));
    return CADRE_OK;
}
