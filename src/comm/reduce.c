/* SPDX-License-Identifier: Apache-2.0
 *
 * T(a, b) = T(a, m) + T(m, b), m - a the largest power of two below b - a, worked in pieces of
 * PIECE elements that stay in the innermost cache:
 *
 *   P=5:  ((0+1)+(2+3))+4        P=3:  (0+1)+2
 *
 * A left part lands in the scratch row of its depth, a right part one row deeper.
 */
#include "comm/reduce.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/clones.h"
#include "base/tree.h"
#include "comm/world.h"
#include "tensor/tensor.h"

enum { PIECE = 1024, DEPTH = 24, STREAM_LINE = 64 };

#define DEFINE_KERNELS(name, type, sum_type)                                                       \
    CADRE_CLONES static void name##_sum(const void *a, const void *b, void *c, int64_t n) {        \
        const sum_type *x = a, *y = b;                                                             \
        sum_type *z = c;                                                                           \
        for (int64_t i = 0; i < n; i++) z[i] = x[i] + y[i];                                        \
    }                                                                                              \
    CADRE_CLONES static void name##_max(const void *a, const void *b, void *c, int64_t n) {        \
        const type *x = a, *y = b;                                                                 \
        type *z = c;                                                                               \
        for (int64_t i = 0; i < n; i++) z[i] = x[i] > y[i] ? x[i] : y[i];                          \
    }                                                                                              \
    CADRE_CLONES static void name##_min(const void *a, const void *b, void *c, int64_t n) {        \
        const type *x = a, *y = b;                                                                 \
        type *z = c;                                                                               \
        for (int64_t i = 0; i < n; i++) z[i] = x[i] < y[i] ? x[i] : y[i];                          \
    }

/* Integer sums wrap around: they are added as unsigned. */
DEFINE_KERNELS(f32, float, float)
DEFINE_KERNELS(f64, double, double)
DEFINE_KERNELS(i32, int32_t, uint32_t)
DEFINE_KERNELS(i64, int64_t, uint64_t)

typedef void pair_fn(const void *a, const void *b, void *c, int64_t n);

/* bf16 has no row: it is widened to f32 first. */
static pair_fn *const kernels[CADRE_DTYPES][3] = {
    [CADRE_F32] = {f32_sum, f32_max, f32_min},
    [CADRE_F64] = {f64_sum, f64_max, f64_min},
    [CADRE_I32] = {i32_sum, i32_max, i32_min},
    [CADRE_I64] = {i64_sum, i64_max, i64_min},
};

bool cadre_reducible(cadre_dtype dtype) {
    return dtype == CADRE_BF16 || ((unsigned)dtype < CADRE_DTYPES && kernels[dtype][CADRE_SUM]);
}

typedef struct piece {
    const void *const *ins;
    size_t offset; /* bytes into each input */
    int64_t n;
    cadre_dtype dtype;
    pair_fn *pair;
    double (*scratch)[PIECE];
} piece;

static const void *leaf(const piece *p, int rank, int depth) {
    const void *in = (const char *)p->ins[rank] + p->offset;
    if (p->dtype != CADRE_BF16) return in;
    float *wide = (float *)p->scratch[depth];
    for (int64_t i = 0; i < p->n; i++) wide[i] = cadre_bf16_to_f32(((const uint16_t *)in)[i]);
    return wide;
}

static const void *tree(const piece *p, int a, int b, int depth) {
    if (b - a == 1) return leaf(p, a, depth);
    int m = a + (int)cadre_tree_split(b - a);
    const void *left = tree(p, a, m, depth), *right = tree(p, m, b, depth + 1);
    p->pair(left, right, p->scratch[depth], p->n);
    return p->scratch[depth];
}

/* Past the caches: what is written is far larger than they are, and need not be read first (a third
 * of the time at 256 MiB). An output that is an input has been read: it is written plainly. */
static void stream(void *out, const void *from, size_t bytes) {
#if defined(__SSE2__)
    char *to = out;
    const char *x = from;
    size_t head = (size_t)(-(uintptr_t)to % STREAM_LINE);
    if (head > bytes) head = bytes;
    memcpy(to, x, head);
    size_t at = head;
    for (; at + STREAM_LINE <= bytes; at += STREAM_LINE)
        for (size_t k = 0; k < STREAM_LINE; k += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(to + at + k),
                             _mm_loadu_si128((const __m128i *)(x + at + k)));
    memcpy(to + at, x + at, bytes - at);
#else
    memcpy(out, from, bytes);
#endif
}

static bool is_input(const void *const *ins, int in_count, const void *out) {
    for (int i = 0; i < in_count; i++)
        if (ins[i] == out) return true;
    return false;
}

static void put(const piece *p, const void *sum, void *const *outs, int out_count,
                const bool *streams) {
    uint16_t narrow[PIECE];
    size_t bytes = (size_t)p->n * cadre_dtype_size(p->dtype);
    if (p->dtype == CADRE_BF16) {
        for (int64_t i = 0; i < p->n; i++) narrow[i] = cadre_f32_to_bf16(((const float *)sum)[i]);
        sum = narrow;
    }
    for (int k = 0; k < out_count; k++) {
        void *out = (char *)outs[k] + p->offset;
        if (out == sum) continue;
        if (streams[k])
            stream(out, sum, bytes);
        else
            memmove(out, sum, bytes);
    }
}

void cadre_reduce(cadre_dtype dtype, cadre_reduction op, const void *const *ins, int in_count,
                  void *const *outs, int out_count, int64_t n, bool large) {
    double scratch[DEPTH][PIECE];
    bool streams[CADRE_RANKS_MAX];
    size_t size = cadre_dtype_size(dtype);
    piece p = {.ins = ins,
               .dtype = dtype,
               .pair = kernels[dtype == CADRE_BF16 ? CADRE_F32 : dtype][op],
               .scratch = scratch};
    for (int k = 0; k < out_count; k++) streams[k] = large && !is_input(ins, in_count, outs[k]);
    for (int64_t i = 0; i < n; i += PIECE) {
        p.n = n - i < PIECE ? n - i : PIECE;
        p.offset = (size_t)i * size;
        if (in_count == 2 && dtype != CADRE_BF16 && !streams[0]) { /* writes an output at once */
            void *first = (char *)outs[0] + p.offset;
            p.pair((const char *)ins[0] + p.offset, (const char *)ins[1] + p.offset, first, p.n);
            put(&p, first, outs, out_count, streams);
        } else {
            put(&p, tree(&p, 0, in_count, 0), outs, out_count, streams);
        }
    }
#if defined(__SSE2__)
    if (large) _mm_sfence(); /* before anybody is told */
#endif
}
