/* SPDX-License-Identifier: Apache-2.0
 *
 * The global norm, one number whatever the layout: squares of chunks of 1,024 elements, summed in
 * f64, joined along the tree T.
 *
 *   chunk    16 lanes (element i goes to lane i mod 16), then the lanes along T
 *   chunks   T over all chunks of the span
 */
#include "parallel/clip.h"

#include "base/clones.h"
#include "parallel/parallel.h"

enum { LANES = 16 };

/* The lanes are independent sums, so that vectors of any width give the same bits. */
#define CHUNK_SQUARE(name, type)                                                                   \
    CADRE_CLONES static double name(const type *restrict x) {                                      \
        double lane[LANES] = {0};                                                                  \
        for (int i = 0; i < CADRE_CHUNK; i += LANES)                                               \
            for (int l = 0; l < LANES; l++) lane[l] += (double)x[i + l] * (double)x[i + l];        \
        for (int half = LANES / 2; half > 0; half /= 2)                                            \
            for (int l = 0; l < half; l++) lane[l] = lane[2 * l] + lane[2 * l + 1];                \
        return lane[0];                                                                            \
    }

CHUNK_SQUARE(square_f32, float)
CHUNK_SQUARE(square_f64, double)

typedef uint32_t __attribute__((may_alias)) bits32;
typedef uint64_t __attribute__((may_alias)) bits64;

/* Whether any of n elements has an exponent of ones: infinite or not a number. */
#define ANY_NONFINITE(name, bits_type, ones)                                                       \
    CADRE_CLONES static bool name(const bits_type *restrict x, int64_t n) {                        \
        bits_type any = 0;                                                                         \
        for (int64_t i = 0; i < n; i++) any |= (bits_type) - ((x[i] & (ones)) == (ones));          \
        return any != 0;                                                                           \
    }

ANY_NONFINITE(nonfinite_32, bits32, UINT32_C(0x7f800000))
ANY_NONFINITE(nonfinite_64, bits64, UINT64_C(0x7ff0000000000000))

typedef struct squares {
    const char *values;
    cadre_dtype dtype;
    double *to;
} squares;

static void square_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const squares *s = arg;
    for (int64_t c = begin; c < end; c++) {
        if (s->dtype == CADRE_F64)
            s->to[c] = square_f64((const double *)s->values + c * CADRE_CHUNK);
        else
            s->to[c] = square_f32((const float *)s->values + c * CADRE_CHUNK);
    }
}

void cadre_chunk_squares(const void *values, cadre_dtype dtype, int64_t first_chunk, int64_t chunks,
                         double *ret_squares, cadre_pool *pool) {
    size_t skip = (size_t)first_chunk * CADRE_CHUNK * cadre_dtype_size(dtype);
    squares s = {(const char *)values + skip, dtype, ret_squares};
    cadre_pool_for(pool, chunks, 16, square_range, &s);
}

bool cadre_any_nonfinite(const void *values, cadre_dtype dtype, int64_t first, int64_t count) {
    if (dtype == CADRE_F64) return nonfinite_64((const bits64 *)values + first, count);
    return nonfinite_32((const bits32 *)values + first, count);
}

cadre_status cadre_norm_open(cadre_norm *ret_norm, cadre_comm *comm, int64_t length) {
    int64_t size = cadre_comm_size(comm), chunks = length / CADRE_CHUNK;
    cadre_norm n = {.comm = comm, .chunks = chunks, .share = (chunks + size - 1) / size};
    n.bytes = (size_t)(n.share * size) * sizeof(double);
    void *memory = NULL;
    CADRE_TRY(cadre_comm_alloc(comm, n.bytes, &memory));
    n.squares = memory;
    cadre_mem_note(CADRE_MEM_BUCKETS, (int64_t)n.bytes);
    *ret_norm = n;
    return CADRE_OK;
}

cadre_status cadre_norm_squared(cadre_norm *n, const void *values, cadre_dtype dtype,
                                cadre_pool *pool, double *ret_sum) {
    int64_t first = n->share * cadre_comm_rank(n->comm);
    int64_t mine = first < n->chunks ? n->chunks - first : 0;
    if (mine > n->share) mine = n->share;
    double *own = n->squares + first;
    if (mine > 0) cadre_chunk_squares(values, dtype, first, mine, own, pool);
    CADRE_TRY(
        cadre_all_gather(n->comm, own, n->squares, n->share, CADRE_F64, "norm squares", NULL));
    *ret_sum = cadre_tree_sum(n->squares, n->chunks);
    return CADRE_OK;
}

double cadre_clip_factor(double norm, double limit) {
    double factor = limit > 0 ? limit / (norm + 1e-6) : 1;
    return factor < 1 ? factor : 1;
}

void cadre_norm_close(cadre_norm *n) {
    if (n->squares) {
        cadre_comm_free(n->comm, n->squares);
        cadre_mem_note(CADRE_MEM_BUCKETS, -(int64_t)n->bytes);
    }
    *n = (cadre_norm){0};
}
