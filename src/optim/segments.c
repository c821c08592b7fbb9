/* SPDX-License-Identifier: Apache-2.0
 *
 * Work is numbered in chunks of 1,024 elements over all segments; a thread gets a range of numbers
 * and finds its segments by walking the list.
 */
#include "optim/segments.h"

enum { CHUNK = 1024, GRAIN = 16 };

typedef struct walk {
    const cadre_optim_arrays *arrays;
    const cadre_segment *segments;
    int count;
    cadre_segment_fn *fn;
    void *arg;
} walk;

static void *element(void *array, cadre_dtype dtype, int64_t i) {
    return array ? (char *)array + (size_t)i * cadre_dtype_size(dtype) : NULL;
}

static void run_piece(const walk *w, const cadre_segment *s, int64_t at, int64_t n) {
    const cadre_optim_arrays *a = w->arrays;
    float wide[CHUNK];
    cadre_segment_piece piece = {.segment = s, .dtype = a->dtype, .n = n};
    piece.value = element(a->values, a->dtype, at);
    piece.gradient = element((void *)a->gradients, a->gradient_dtype, at);
    for (int k = 0; k < CADRE_OPTIM_STATES; k++)
        piece.state[k] = element(a->state[k], a->dtype, at);
    if (a->gradient_dtype != a->dtype) {
        cadre_convert(piece.gradient, a->gradient_dtype, wide, CADRE_F32, n);
        piece.gradient = wide;
    }
    w->fn(w->arg, &piece);
    if (a->copy) cadre_narrow(piece.value, a->copy + at, n);
}

/* What is converted beside the kernel goes a chunk at a time. */
static void run_segment(const walk *w, const cadre_segment *s, int64_t at, int64_t n) {
    bool whole = w->arrays->gradient_dtype == w->arrays->dtype && !w->arrays->copy;
    if (whole) {
        run_piece(w, s, at, n);
        return;
    }
    for (int64_t i = 0; i < n; i += CHUNK) run_piece(w, s, at + i, n - i < CHUNK ? n - i : CHUNK);
}

static int64_t chunks_of(const cadre_segment *s) {
    return (s->length + CHUNK - 1) / CHUNK;
}

static void walk_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const walk *w = arg;
    int64_t first = 0; /* number of the segment's first chunk */
    for (int i = 0; i < w->count && first < end; i++) {
        const cadre_segment *s = &w->segments[i];
        int64_t chunks = chunks_of(s);
        int64_t from = begin > first ? begin - first : 0;
        int64_t to = end - first < chunks ? end - first : chunks;
        if (from < to) {
            int64_t start = from * CHUNK;
            int64_t stop = to * CHUNK < s->length ? to * CHUNK : s->length;
            run_segment(w, s, s->offset + start, stop - start);
        }
        first += chunks;
    }
}

void cadre_segments_each(const cadre_optim_arrays *arrays, const cadre_segment *segments, int count,
                         cadre_pool *pool, cadre_segment_fn *fn, void *arg) {
    walk w = {arrays, segments, count, fn, arg};
    int64_t chunks = 0;
    for (int i = 0; i < count; i++) chunks += chunks_of(&segments[i]);
    cadre_pool_for(pool, chunks, GRAIN, walk_range, &w);
}
