/* SPDX-License-Identifier: Apache-2.0
 *
 * linear in f32 and bf16: products by oneDNN on plain row-major memory, in tiles of the result,
 * which the pool shares out. The tiles follow from the shape alone: oneDNN may sum in another order
 * for other sizes, and the bits must not depend on the threads. A product is cut along the longer
 * side of its result, so that the operand which every tile packs again is the smaller one.
 *
 * Backward of the fused GELU: dz = dy gelu'(z) is written over z in saved[0], once, by whichever
 * part comes first (dy itself may be shared with another call); the attribute slope_taken is the
 * mark.
 */
#include "tensor/ops/cpu/linear.h"

#include "tensor/ops/cpu/gelu.h"
#include "tensor/ops/cpu/piece.h"
#include "tensor/ops/cpu/pooled.h"
#include "tensor/ops/cpu/simd.h"
#include "tensor/ops/kernels.h"

enum { ROW_GRAIN = 16, TILE_GRAIN = 64, TILE_SIDE = 512, COLUMNS = 64 };

/* A product of TILE_LEAST operations is cut in two; tiles of more than TILE_MOST are cut again
 * while they stay longer than TILE_SIDE. */
static const double TILE_LEAST = 2e6, TILE_MOST = 2.5e9;

typedef struct shape {
    int64_t rows, in, out;
} shape;

static shape shape_of(const cadre_call *c) {
    return (shape){cadre_rows(c->in[0]), cadre_columns(c->in[0]), cadre_columns(c->out)};
}

/* ---- tiles of a product ---- */

typedef struct tiling {
    bool columns; /* cut along n, else along m */
    int64_t size, count;
} tiling;

static tiling tiling_of(const cadre_product *p) {
    bool columns = p->n > p->m;
    int64_t side = columns ? p->n : p->m, count = 1;
    double flops = 2 * (double)p->m * (double)p->n * (double)p->k;
    if (flops > TILE_LEAST) count = 2;
    while (flops / (double)count > TILE_MOST && side / count > 2 * TILE_SIDE) count *= 2;
    int64_t size = ((side + count - 1) / count + TILE_GRAIN - 1) / TILE_GRAIN * TILE_GRAIN;
    return (tiling){columns, size, (side + size - 1) / size};
}

typedef struct tiled {
    const cadre_product *p;
    tiling t;
    const char *a, *b;
    char *c;
} tiled;

/* Tiles [begin, end). */
static cadre_status run_tiles(void *self, int64_t begin, int64_t end) {
    const tiled *w = self;
    const cadre_product *p = w->p;
    size_t ab = cadre_dtype_size(p->ab), c = cadre_dtype_size(p->c);
    for (int64_t i = begin; i < end; i++) {
        cadre_product part = *p;
        int64_t first = i * w->t.size, side = w->t.columns ? p->n : p->m;
        int64_t n = side - first < w->t.size ? side - first : w->t.size;
        int64_t a_at = 0, b_at = 0, c_at = first;
        if (w->t.columns) {
            part.n = n;
            b_at = p->b_transposed ? first * p->ldb : first;
        } else {
            part.m = n;
            a_at = p->a_transposed ? first : first * p->lda;
            c_at = first * p->ldc;
        }
        CADRE_TRY(cadre_product_run(&part, w->a + (size_t)a_at * ab, w->b + (size_t)b_at * ab,
                                    w->c + (size_t)c_at * c));
    }
    return CADRE_OK;
}

cadre_status cadre_product_tiled(cadre_queue *q, const cadre_product *p, const void *a,
                                 const void *b, void *c) {
    tiled w = {p, tiling_of(p), a, b, c};
    return cadre_pooled_work(q, &w, w.t.count, 1, run_tiles);
}

void cadre_product_tiled_keeps(const cadre_product *p, cadre_kept *kept) {
    tiling t = tiling_of(p);
    cadre_product tile = *p;
    if (t.columns && t.size < p->n) tile.n = t.size;
    if (!t.columns && t.size < p->m) tile.m = t.size;
    cadre_kept k = cadre_product_keeps(&tile);
    if (kept->scratch < k.scratch) kept->scratch = k.scratch;
    if (kept->packed < k.packed) kept->packed = k.packed;
}

/* ---- the three products ---- */

static cadre_product forward_of(const cadre_call *c) {
    shape s = shape_of(c);
    return (cadre_product){.m = s.rows,
                           .n = s.out,
                           .k = s.in,
                           .lda = s.in,
                           .ldb = c->a.in_out ? s.out : s.in,
                           .ldc = s.out,
                           .ab = c->in[0]->dtype,
                           .c = c->out->dtype,
                           .b_transposed = !c->a.in_out};
}

/* dx = dz W */
static cadre_product inputs_of(const cadre_call *c) {
    shape s = shape_of(c);
    return (cadre_product){.m = s.rows,
                           .n = s.in,
                           .k = s.out,
                           .lda = s.out,
                           .ldb = c->a.in_out ? s.out : s.in,
                           .ldc = s.in,
                           .ab = c->in[0]->dtype,
                           .c = c->in[0]->dtype,
                           .b_transposed = c->a.in_out,
                           .add = c->din_add[0]};
}

/* dW = dz' x, with in_out x' dz */
static cadre_product params_of(const cadre_call *c) {
    shape s = shape_of(c);
    int64_t left = c->a.in_out ? s.in : s.out, right = c->a.in_out ? s.out : s.in;
    return (cadre_product){.m = left,
                           .n = right,
                           .k = s.rows,
                           .lda = left,
                           .ldb = right,
                           .ldc = right,
                           .ab = c->in[0]->dtype,
                           .c = c->dparam[0] ? c->dparam[0]->dtype : CADRE_F32,
                           .a_transposed = true,
                           .add = c->dparam_add[0]};
}

void cadre_linear_keeps(const cadre_call *c, cadre_kept *ret) {
    cadre_product forward = forward_of(c), inputs = inputs_of(c), params = params_of(c);
    cadre_product_tiled_keeps(&forward, ret);
    cadre_product_tiled_keeps(&inputs, ret);
    cadre_product_tiled_keeps(&params, ret);
}

/* ---- forward ---- */

static const cadre_tensor *sums_of(const cadre_call *c) {
    return c->saved[0] ? c->saved[0] : c->out;
}

/* The bias lies where the product is then added to it, so that the sum is rounded once. */
static cadre_status bias_rows(cadre_call *c, int64_t begin, int64_t end) {
    const cadre_tensor *sums = sums_of(c);
    size_t bytes = (size_t)cadre_columns(sums) * cadre_dtype_size(sums->dtype);
    for (int64_t r = begin; r < end; r++)
        memcpy((char *)sums->data + (size_t)r * bytes, c->param[1]->data, bytes);
    return CADRE_OK;
}

static cadre_status gelu_range(cadre_call *c, int64_t begin, int64_t end) {
    cadre_gelu_pieces(sums_of(c), c->out, begin, end);
    return CADRE_OK;
}

cadre_status cadre_cpu_linear(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->in[0])) return cadre_ref_linear(q, c);
    cadre_product p = forward_of(c);
    c->a.slope_taken = false;
    p.add = c->param[1] != NULL;
    if (p.add) CADRE_TRY(cadre_pooled(q, c, p.m, ROW_GRAIN, bias_rows));
    CADRE_TRY(cadre_product_tiled(q, &p, c->in[0]->data, c->param[0]->data, sums_of(c)->data));
    if (!c->a.gelu) return CADRE_OK;
    return cadre_pooled(q, c, cadre_count(c->out), 4 * CADRE_PIECE, gelu_range);
}

/* ---- backward ---- */

static const cadre_tensor *dz_of(const cadre_call *c) {
    return c->a.gelu ? c->saved[0] : c->dout;
}

static cadre_status slope_range(cadre_call *c, int64_t begin, int64_t end) {
    cadre_gelu_back_pieces(c->saved[0], c->dout, c->saved[0], false, begin, end);
    return CADRE_OK;
}

/* Makes dz, once. */
static cadre_status take_slope(cadre_queue *q, cadre_call *c) {
    if (!c->a.gelu || c->a.slope_taken) return CADRE_OK;
    c->a.slope_taken = true;
    return cadre_pooled(q, c, cadre_count(c->out), 4 * CADRE_PIECE, slope_range);
}

cadre_status cadre_cpu_linear_inputs(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->in[0])) return cadre_ref_linear_inputs(q, c);
    CADRE_TRY(take_slope(q, c));
    cadre_product p = inputs_of(c);
    return cadre_product_tiled(q, &p, dz_of(c)->data, c->param[0]->data, c->din[0]->data);
}

/* Sums over rows of n columns, n <= COLUMNS; rows in order. */
#define COLUMN_SUMS(name, type, wide)                                                              \
    CADRE_CLONES static void name(const type *from, int64_t rows, int64_t stride, int64_t n,       \
                                  float *sums) {                                                   \
        memset(sums, 0, COLUMNS * sizeof *sums);                                                   \
        for (int64_t r = 0; r < rows; r++)                                                         \
            _Pragma("omp simd") for (int64_t k = 0; k < n; k++) sums[k] +=                         \
                wide(from[r * stride + k]);                                                        \
    }

COLUMN_SUMS(sums_f32, float, from_f32)
COLUMN_SUMS(sums_bf16, uint16_t, from_bf16)

/* Columns [begin, end) of the bias's gradient. */
static cadre_status bias_columns(cadre_call *c, int64_t begin, int64_t end) {
    float sums[COLUMNS], room[COLUMNS];
    const cadre_tensor *dz = dz_of(c);
    int64_t rows = cadre_rows(dz), out = cadre_columns(dz);
    bool add = c->dparam_add[1];
    for (int64_t at = begin; at < end; at += COLUMNS) {
        int64_t n = end - at < COLUMNS ? end - at : COLUMNS;
        if (cadre_in_f32(dz))
            sums_f32((const float *)dz->data + at, rows, out, n, sums);
        else
            sums_bf16((const uint16_t *)dz->data + at, rows, out, n, sums);
        float *to = cadre_piece_open(c->dparam[1], at, n, add, room);
        for (int64_t k = 0; k < n; k++) to[k] = add ? to[k] + sums[k] : sums[k];
        cadre_piece_close(c->dparam[1], at, n, to);
    }
    return CADRE_OK;
}

cadre_status cadre_cpu_linear_params(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->in[0])) return cadre_ref_linear_params(q, c);
    CADRE_TRY(take_slope(q, c));
    const void *x = c->in[0]->data, *dz = dz_of(c)->data;
    if (c->dparam[0]) {
        cadre_product p = params_of(c);
        CADRE_TRY(cadre_product_tiled(q, &p, c->a.in_out ? x : dz, c->a.in_out ? dz : x,
                                      c->dparam[0]->data));
    }
    if (c->dparam[1]) CADRE_TRY(cadre_pooled(q, c, cadre_columns(c->out), COLUMNS, bias_columns));
    return CADRE_OK;
}
