/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal attention in f32 and bf16 (widened while it is packed), cut over the pool by (sample,
 * head). A head's q, k, v are packed into padded arrays that stay in the cache; queries are worked
 * in blocks (ROWS forward, BLOCK backward), whose scores over all keys so far lie in a strip of
 * block x T. Memory is linear in T; the backward pass computes the strips again.
 *
 *   packed: q, k, v, dy (T, D); k', v' (D, S)
 *   D = head dim, S = T, both rounded up to LANES, padding zero
 *   strip: s, p, ds (ROWS or BLOCK, S)
 *
 * Built with contraction (fused multiply-add): see src/CMakeLists.txt.
 */
#include "tensor/ops/cpu/piece.h"
#include "tensor/ops/cpu/pooled.h"
#include "tensor/ops/cpu/simd.h"
#include "tensor/ops/kernels.h"

enum { ROWS = 4, LANES = 16, WIDE = 4, BLOCK = LANES };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float))));

typedef struct shape {
    int64_t time, width, heads, d; /* of the tensor */
    int64_t D, S;                  /* padded */
    float scale;
} shape;

static shape shape_of(const cadre_call *c) {
    const cadre_dims *x = &c->in[0]->dims;
    int64_t width = x->at[2] / 3, d = width / c->a.heads;
    return (shape){.time = x->at[1],
                   .width = width,
                   .heads = c->a.heads,
                   .d = d,
                   .D = (d + LANES - 1) / LANES * LANES,
                   .S = (x->at[1] + LANES - 1) / LANES * LANES,
                   .scale = 1 / sqrtf((float)d)};
}

/* ---- packing ---- */

/* Rows of d elements from element `first` on, `stride` apart. */
static void pack(const shape *s, const cadre_tensor *from, int64_t first, int64_t stride,
                 float *to) {
    for (int64_t t = 0; t < s->time; t++, first += stride) {
        float *row = to + t * s->D;
        if (cadre_in_f32(from))
            memcpy(row, (const float *)from->data + first, (size_t)s->d * sizeof *row);
        else
            cadre_widen((const uint16_t *)from->data + first, row, s->d);
        memset(row + s->d, 0, (size_t)(s->D - s->d) * sizeof *row);
    }
    memset(to + s->time * s->D, 0, (size_t)((s->S - s->time) * s->D) * sizeof *to);
}

CADRE_INLINE void transpose(const shape *s, const float *packed, float *to) {
    for (int64_t t = 0; t < s->S; t += LANES)
        for (int64_t i = 0; i < s->d; i++)
            for (int64_t l = 0; l < LANES; l++) to[i * s->S + t + l] = packed[(t + l) * s->D + i];
}

/* Rows of d results to element `first` on, `stride` apart; added there with `add`. */
static void unpack(const shape *s, const float *packed, const cadre_tensor *to, int64_t first,
                   int64_t stride, bool add) {
    float room[CADRE_PIECE];
    for (int64_t t = 0; t < s->time; t++, first += stride)
        for (int64_t i = 0; i < s->d; i += CADRE_PIECE) {
            int64_t n = cadre_piece_length(i, s->d);
            float *row = cadre_piece_open(to, first + i, n, add, room);
            const float *from = packed + t * s->D + i;
            for (int64_t k = 0; k < n; k++) row[k] = add ? row[k] + from[k] : from[k];
            cadre_piece_close(to, first + i, n, row);
        }
}

/* ---- small products; each keeps a block of results in registers ---- */

/* strip[r][u] = sum over i of a[r][i] b'[i][u], u in [0, keys), keys a multiple of LANES. */
CADRE_INLINE void scores_block(const shape *s, const float *a, const float *bt, int64_t u,
                               int64_t n, float *strip) {
    lanes acc[ROWS][WIDE] = {0};
    for (int64_t i = 0; i < s->d; i++) {
        lanes b[WIDE];
        for (int64_t w = 0; w < n; w++) b[w] = *(const lanes *)(bt + i * s->S + u + w * LANES);
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t w = 0; w < n; w++) acc[r][w] += a[r * s->D + i] * b[w];
    }
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t w = 0; w < n; w++) *(lanes *)(strip + r * s->S + u + w * LANES) = acc[r][w];
}

CADRE_INLINE void scores(const shape *s, const float *a, const float *bt, int64_t keys,
                         float *strip) {
    int64_t u = 0;
    for (; u + WIDE * LANES <= keys; u += WIDE * LANES) scores_block(s, a, bt, u, WIDE, strip);
    int64_t rest = (keys - u) / LANES;
    if (rest == 3) scores_block(s, a, bt, u, 3, strip);
    if (rest == 2) scores_block(s, a, bt, u, 2, strip);
    if (rest == 1) scores_block(s, a, bt, u, 1, strip);
}

/* out[r][i] = sum over u of strip[r][u] b[u][i], i in [0, D). */
CADRE_INLINE void mix_block(const shape *s, const float *strip, const float *b, int64_t i,
                            int64_t n, int64_t keys, float *out) {
    lanes acc[ROWS][WIDE] = {0};
    for (int64_t u = 0; u < keys; u++) {
        lanes v[WIDE];
        for (int64_t w = 0; w < n; w++) v[w] = *(const lanes *)(b + u * s->D + i + w * LANES);
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t w = 0; w < n; w++) acc[r][w] += strip[r * s->S + u] * v[w];
    }
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t w = 0; w < n; w++) *(lanes *)(out + r * s->D + i + w * LANES) = acc[r][w];
}

CADRE_INLINE void mix(const shape *s, const float *strip, const float *b, int64_t keys,
                      float *out) {
    int64_t i = 0;
    for (; i + WIDE * LANES <= s->D; i += WIDE * LANES) mix_block(s, strip, b, i, WIDE, keys, out);
    for (; i + 2 * LANES <= s->D; i += 2 * LANES) mix_block(s, strip, b, i, 2, keys, out);
    for (; i < s->D; i += LANES) mix_block(s, strip, b, i, 1, keys, out);
}

/* to[u][i] += sum over the block's rows r of strip[r][u] a[r][i]. */
CADRE_INLINE void spread_block(const shape *s, const float *strip, const float *a, int64_t i,
                               int64_t n, int64_t keys, float *to) {
    for (int64_t u = 0; u < keys; u += ROWS) {
        lanes acc[ROWS][WIDE];
        for (int64_t k = 0; k < ROWS; k++)
            for (int64_t w = 0; w < n; w++)
                acc[k][w] = *(const lanes *)(to + (u + k) * s->D + i + w * LANES);
        for (int64_t r = 0; r < BLOCK; r++) {
            lanes v[WIDE];
            for (int64_t w = 0; w < n; w++) v[w] = *(const lanes *)(a + r * s->D + i + w * LANES);
            for (int64_t k = 0; k < ROWS; k++)
                for (int64_t w = 0; w < n; w++) acc[k][w] += strip[r * s->S + u + k] * v[w];
        }
        for (int64_t k = 0; k < ROWS; k++)
            for (int64_t w = 0; w < n; w++)
                *(lanes *)(to + (u + k) * s->D + i + w * LANES) = acc[k][w];
    }
}

CADRE_INLINE void spread(const shape *s, const float *strip, const float *a, int64_t keys,
                         float *to) {
    int64_t i = 0;
    for (; i + WIDE * LANES <= s->D; i += WIDE * LANES)
        spread_block(s, strip, a, i, WIDE, keys, to);
    for (; i + 2 * LANES <= s->D; i += 2 * LANES) spread_block(s, strip, a, i, 2, keys, to);
    for (; i < s->D; i += LANES) spread_block(s, strip, a, i, 1, keys, to);
}

/* ---- forward ---- */

/* The row's scores become probabilities (not yet divided); returns their sum. Keys past `last` are
 * 0. */
CADRE_INLINE float soften(float *row, int64_t last, int64_t keys, float scale, float *ret_most) {
    float most = -INFINITY, sum = 0;
    int64_t whole = keys / LANES * LANES; /* keys itself, but the compiler needs no tail */
    for (int64_t u = last + 1; u < keys; u++) row[u] = -INFINITY;
#pragma omp simd reduction(max : most)
    for (int64_t u = 0; u < whole; u++) most = row[u] > most ? row[u] : most;
#pragma omp simd reduction(+ : sum)
    for (int64_t u = 0; u < whole; u++) sum += row[u] = exp_fast((row[u] - most) * scale);
    *ret_most = most * scale;
    return sum;
}

static int64_t keys_of(const shape *s, int64_t t) {
    int64_t end = t + ROWS < s->time ? t + ROWS : s->time;
    return (end + LANES - 1) / LANES * LANES;
}

/* q, k, v are packed; the result takes the place of q, row by row. */
CADRE_CLONES static void forward_head(const shape *s, float *memory, float *log_sums) {
    int64_t area = s->S * s->D;
    float *q = memory, *k = q + area, *v = k + area, *kt = v + area, *strip = kt + s->D * s->S,
          *out = strip + ROWS * s->S;
    transpose(s, k, kt);
    for (int64_t t = 0; t < s->time; t += ROWS) {
        int64_t keys = keys_of(s, t);
        float inverse[ROWS];
        scores(s, q + t * s->D, kt, keys, strip);
        for (int64_t r = 0; r < ROWS; r++) {
            int64_t last = t + r < s->time ? t + r : s->time - 1;
            float most, sum = soften(strip + r * s->S, last, keys, s->scale, &most);
            inverse[r] = 1 / sum;
            if (t + r < s->time) log_sums[t + r] = most + logf(sum);
        }
        mix(s, strip, v, keys, out);
        for (int64_t r = 0; r < ROWS && t + r < s->time; r++)
#pragma omp simd
            for (int64_t i = 0; i < s->d; i++)
                q[(t + r) * s->D + i] = out[r * s->D + i] * inverse[r];
    }
}

static cadre_status forward_heads(cadre_call *c, int64_t begin, int64_t end) {
    shape s = shape_of(c);
    float *memory = NULL;
    size_t floats = (size_t)(3 * s.S * s.D + s.D * s.S + ROWS * s.S + ROWS * s.D);
    CADRE_TRY(cadre_scratch(floats * sizeof(float), &memory));
    for (int64_t n = begin; n < end; n++) {
        int64_t b = n / s.heads, h = n % s.heads;
        for (int part = 0; part < 3; part++)
            pack(&s, c->in[0], b * s.time * 3 * s.width + part * s.width + h * s.d, 3 * s.width,
                 memory + part * s.S * s.D);
        forward_head(&s, memory, (float *)c->saved[0]->data + n * s.time);
        unpack(&s, memory, c->out, b * s.time * s.width + h * s.d, s.width, false);
    }
    return CADRE_OK;
}

cadre_status cadre_cpu_attention(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_attention(q, c);
    return cadre_pooled(q, c, c->in[0]->dims.at[0] * c->a.heads, 1, forward_heads);
}

/* ---- backward ---- */

/* p from s and the row's log sum; ds = p (dp - delta) scale. Keys past `last` are 0. */
CADRE_INLINE void soften_back(float *p, float *ds, int64_t last, int64_t keys, float log_sum,
                              float delta, float scale) {
    int64_t whole = keys / LANES * LANES;
    for (int64_t u = last + 1; u < keys; u++) p[u] = -INFINITY;
#pragma omp simd
    for (int64_t u = 0; u < whole; u++) {
        p[u] = exp_fast(p[u] * scale - log_sum);
        ds[u] = p[u] * (ds[u] - delta) * scale;
    }
}

CADRE_INLINE float dot(const float *a, const float *b, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Where a head's arrays lie in the scratch, one after the other. */
typedef struct head {
    float *q, *k, *v, *dy; /* packed */
    float *dq, *dk, *dv;
    float *kt, *vt, *p, *ds, *delta;
} head;

static size_t head_floats(const shape *s) {
    return (size_t)(7 * s->S * s->D + 2 * s->D * s->S + 2 * BLOCK * s->S + s->S);
}

static head head_at(const shape *s, float *memory) {
    int64_t area = s->S * s->D;
    head h = {.q = memory};
    h.k = h.q + area;
    h.v = h.k + area;
    h.dy = h.v + area;
    h.dq = h.dy + area;
    h.dk = h.dq + area;
    h.dv = h.dk + area;
    h.kt = h.dv + area;
    h.vt = h.kt + area;
    h.p = h.vt + area;
    h.ds = h.p + BLOCK * s->S;
    h.delta = h.ds + BLOCK * s->S;
    return h;
}

/* Row t; past the end of the sequence all is 0. */
CADRE_INLINE void soften_back_row(const shape *s, const head *h, const float *log_sums, int64_t t,
                                  int64_t keys, float *p, float *ds) {
    bool real = t < s->time;
    soften_back(p, ds, real ? t : -1, keys, real ? log_sums[t] : 0, h->delta[t], s->scale);
}

/* The forward's result lies in dq until its place is needed. */
CADRE_CLONES static void backward_head(const shape *s, const head *h, const float *log_sums) {
    for (int64_t t = 0; t < s->S; t++) h->delta[t] = dot(h->dy + t * s->D, h->dq + t * s->D, s->D);
    transpose(s, h->k, h->kt);
    transpose(s, h->v, h->vt);
    memset(h->dk, 0, (size_t)(2 * s->S * s->D) * sizeof(float)); /* dk and dv */
    for (int64_t t = 0; t < s->time; t += BLOCK) {
        int64_t keys = t + BLOCK;
        for (int64_t r = 0; r < BLOCK; r += ROWS) {
            float *p_rows = h->p + r * s->S, *ds_rows = h->ds + r * s->S;
            scores(s, h->q + (t + r) * s->D, h->kt, keys, p_rows);
            scores(s, h->dy + (t + r) * s->D, h->vt, keys, ds_rows);
            for (int64_t i = 0; i < ROWS; i++)
                soften_back_row(s, h, log_sums, t + r + i, keys, p_rows + i * s->S,
                                ds_rows + i * s->S);
            mix(s, ds_rows, h->k, keys, h->dq + (t + r) * s->D);
        }
        spread(s, h->ds, h->q + t * s->D, keys, h->dk);
        spread(s, h->p, h->dy + t * s->D, keys, h->dv);
    }
}

/* More than the forward pass takes. */
void cadre_attention_keeps(const cadre_call *c, cadre_kept *ret) {
    shape s = shape_of(c);
    ret->scratch = (int64_t)(head_floats(&s) * sizeof(float));
}

static cadre_status backward_heads(cadre_call *c, int64_t begin, int64_t end) {
    shape s = shape_of(c);
    float *memory = NULL;
    CADRE_TRY(cadre_scratch(head_floats(&s) * sizeof(float), &memory));
    head h = head_at(&s, memory);
    for (int64_t n = begin; n < end; n++) {
        int64_t row = n / s.heads * s.time, at = n % s.heads * s.d;
        float *const parts[3] = {h.q, h.k, h.v}, *const grads[3] = {h.dq, h.dk, h.dv};
        for (int i = 0; i < 3; i++)
            pack(&s, c->in[0], row * 3 * s.width + i * s.width + at, 3 * s.width, parts[i]);
        pack(&s, c->dout, row * s.width + at, s.width, h.dy);
        pack(&s, c->out, row * s.width + at, s.width, h.dq);
        backward_head(&s, &h, (const float *)c->saved[0]->data + n * s.time);
        for (int i = 0; i < 3; i++)
            unpack(&s, grads[i], c->din[0], row * 3 * s.width + i * s.width + at, 3 * s.width,
                   c->din_add[0]);
    }
    return CADRE_OK;
}

cadre_status cadre_cpu_attention_inputs(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out)) return cadre_ref_attention_inputs(q, c);
    return cadre_pooled(q, c, c->in[0]->dims.at[0] * c->a.heads, 1, backward_heads);
}
