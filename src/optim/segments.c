/* SPDX-License-Identifier: Apache-2.0
 *
 * Work is numbered in chunks of 1,024 elements over all segments; a thread gets a range of numbers
 * and finds its segments by walking the list.
 */
#include "optim/segments.h"

enum { CHUNK = 1024, GRAIN = 16 };

typedef struct walk {
    const cadre_segment *segments;
    int count;
    cadre_segment_fn *fn;
    void *arg;
} walk;

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
            w->fn(w->arg, s, s->offset + start, stop - start);
        }
        first += chunks;
    }
}

void cadre_segments_each(const cadre_segment *segments, int count, cadre_pool *pool,
                         cadre_segment_fn *fn, void *arg) {
    walk w = {segments, count, fn, arg};
    int64_t chunks = 0;
    for (int i = 0; i < count; i++) chunks += chunks_of(&segments[i]);
    cadre_pool_for(pool, chunks, GRAIN, walk_range, &w);
}
