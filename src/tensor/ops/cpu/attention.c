/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal attention in f32, cut over the pool by (sample, head). A head's q, k, v are packed into
 * padded arrays that stay in the cache; queries are worked in blocks (ROWS forward, BLOCK
 * backward), whose scores over all keys so far lie in a strip of block x T. Memory is linear in T;
 * the backward pass computes the strips again.
 *
 *   packed: q, k, v, dy (T, D); k', v' (D, S)
 *   D = head dim, S = T, both rounded up to LANES, padding zero
 *   strip: s, p, ds (ROWS or BLOCK, S)
 *
 * Built with contraction (fused multiply-add): see src/CMakeLists.txt.
 */
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

CADRE_INLINE void pack(const shape *s, const float *from, int64_t stride, float *to) {
    int64_t whole = s->d / LANES * LANES;
    for (int64_t t = 0; t < s->time; t++) {
        for (int64_t i = 0; i < whole; i += LANES)
            *(lanes *)(to + t * s->D + i) = *(const lanes *)(from + t * stride + i);
        for (int64_t i = whole; i < s->D; i++)
            to[t * s->D + i] = i < s->d ? from[t * stride + i] : 0;
    }
    memset(to + s->time * s->D, 0, (size_t)((s->S - s->time) * s->D) * sizeof *to);
}

CADRE_INLINE void transpose(const shape *s, const float *packed, float *to) {
    for (int64_t t = 0; t < s->S; t += LANES)
        for (int64_t i = 0; i < s->d; i++)
            for (int64_t l = 0; l < LANES; l++) to[i * s->S + t + l] = packed[(t + l) * s->D + i];
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

CADRE_CLONES static void forward_head(const shape *s, const float *qkv, float *memory, float *y,
                                      float *log_sums) {
    int64_t area = s->S * s->D;
    float *q = memory, *k = q + area, *v = k + area, *kt = v + area, *strip = kt + s->D * s->S,
          *out = strip + ROWS * s->S;
    pack(s, qkv, 3 * s->width, q);
    pack(s, qkv + s->width, 3 * s->width, k);
    pack(s, qkv + 2 * s->width, 3 * s->width, v);
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
                y[(t + r) * s->width + i] = out[r * s->D + i] * inverse[r];
    }
}

static cadre_status forward_heads(cadre_call *c, int64_t begin, int64_t end) {
    shape s = shape_of(c);
    float *memory = NULL;
    size_t floats = (size_t)(3 * s.S * s.D + s.D * s.S + ROWS * s.S + ROWS * s.D);
    CADRE_TRY(cadre_scratch(floats * sizeof(float), &memory));
    memset(memory, 0, floats * sizeof(float)); /* rows past the end, read in the last block */
    for (int64_t n = begin; n < end; n++) {
        int64_t b = n / s.heads, h = n % s.heads;
        forward_head(&s, (const float *)c->in[0]->data + b * s.time * 3 * s.width + h * s.d, memory,
                     (float *)c->out->data + b * s.time * s.width + h * s.d,
                     (float *)c->saved[0]->data + n * s.time);
    }
    return CADRE_OK;
}

cadre_status cadre_cpu_attention(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_attention(q, c);
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

CADRE_INLINE void unpack(const shape *s, const float *packed, bool add, float *to) {
    for (int64_t t = 0; t < s->time; t++) {
        const float *from = packed + t * s->D;
        float *row = to + t * 3 * s->width;
        if (add) {
#pragma omp simd
            for (int64_t i = 0; i < s->d; i++) row[i] += from[i];
        } else {
#pragma omp simd
            for (int64_t i = 0; i < s->d; i++) row[i] = from[i];
        }
    }
}

typedef struct head {
    const float *qkv, *y, *dy, *log_sums;
    float *dqkv;
    bool add;
} head;

/* Row t; past the end of the sequence all is 0. */
CADRE_INLINE void soften_back_row(const shape *s, const head *h, int64_t t, int64_t keys, float *p,
                                  float *ds) {
    bool real = t < s->time;
    float delta = real ? dot(h->dy + t * s->width, h->y + t * s->width, s->d) : 0;
    soften_back(p, ds, real ? t : -1, keys, real ? h->log_sums[t] : 0, delta, s->scale);
}

CADRE_CLONES static void backward_head(const shape *s, const head *h, float *memory) {
    int64_t area = s->S * s->D;
    float *q = memory, *k = q + area, *v = k + area, *dy = v + area, *dq = dy + area,
          *dk = dq + area, *dv = dk + area;
    float *kt = dv + area, *vt = kt + s->D * s->S, *p = vt + s->D * s->S, *ds = p + BLOCK * s->S;
    pack(s, h->qkv, 3 * s->width, q);
    pack(s, h->qkv + s->width, 3 * s->width, k);
    pack(s, h->qkv + 2 * s->width, 3 * s->width, v);
    pack(s, h->dy, s->width, dy);
    transpose(s, k, kt);
    transpose(s, v, vt);
    memset(dk, 0, (size_t)(2 * area) * sizeof *dk); /* dk and dv */
    for (int64_t t = 0; t < s->time; t += BLOCK) {
        int64_t keys = t + BLOCK;
        for (int64_t r = 0; r < BLOCK; r += ROWS) {
            float *p_rows = p + r * s->S, *ds_rows = ds + r * s->S;
            scores(s, q + (t + r) * s->D, kt, keys, p_rows);
            scores(s, dy + (t + r) * s->D, vt, keys, ds_rows);
            for (int64_t i = 0; i < ROWS; i++)
                soften_back_row(s, h, t + r + i, keys, p_rows + i * s->S, ds_rows + i * s->S);
            mix(s, ds_rows, k, keys, dq + (t + r) * s->D);
        }
        spread(s, ds, q + t * s->D, keys, dk);
        spread(s, p, dy + t * s->D, keys, dv);
    }
    unpack(s, dq, h->add, h->dqkv);
    unpack(s, dk, h->add, h->dqkv + s->width);
    unpack(s, dv, h->add, h->dqkv + 2 * s->width);
}

static cadre_status backward_heads(cadre_call *c, int64_t begin, int64_t end) {
    shape s = shape_of(c);
    float *memory = NULL;
    size_t floats = (size_t)(7 * s.S * s.D + 2 * s.D * s.S + 2 * BLOCK * s.S);
    CADRE_TRY(cadre_scratch(floats * sizeof(float), &memory));
    memset(memory, 0, floats * sizeof(float)); /* rows past the end, read in the last block */
    for (int64_t n = begin; n < end; n++) {
        int64_t b = n / s.heads, at = n % s.heads * s.d;
        head h = {
            .qkv = (const float *)c->in[0]->data + b * s.time * 3 * s.width + at,
            .y = (const float *)c->out->data + b * s.time * s.width + at,
            .dy = (const float *)c->dout->data + b * s.time * s.width + at,
            .log_sums = (const float *)c->saved[0]->data + n * s.time,
            .dqkv = (float *)c->din[0]->data + b * s.time * 3 * s.width + at,
            .add = c->din_add[0],
        };
        backward_head(&s, &h, memory);
    }
    return CADRE_OK;
}

cadre_status cadre_cpu_attention_inputs(cadre_queue *q, cadre_call *c) {
    if (c->out->dtype != CADRE_F32) return cadre_ref_attention_inputs(q, c);
    return cadre_pooled(q, c, c->in[0]->dims.at[0] * c->a.heads, 1, backward_heads);
}
