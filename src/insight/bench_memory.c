/* SPDX-License-Identifier: Apache-2.0
 *
 * bench memory: how fast this machine moves bytes. Arrays far beyond the caches, each thread of
 * each rank on a part of its own; first by rank 0 alone, then by more ranks at once.
 *
 *   copy   c = a       2 bytes moved for each byte of an array
 *   add    c = a + b   3
 *
 * What a store reads before it writes is not counted.
 */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/clones.h"
#include "insight/bench.h"
#include "insight/document.h"
#include "tensor/device.h"
#include "train/rank.h"
#include "train/settings.h"

static const char standard_size[] = "512MiB";

enum { GRAIN = 1024 }; /* floats */

typedef struct arrays {
    float *a, *b, *c;
} arrays;

typedef struct op {
    const char *name;
    int moved; /* bytes for each byte of an array */
    cadre_range_fn *fn;
} op;

static void copy_range(void *arg, int64_t begin, int64_t end, int worker) {
    const arrays *x = arg;
    (void)worker;
    memcpy(x->c + begin, x->a + begin, (size_t)(end - begin) * sizeof(float));
}

CADRE_CLONES static void add_floats(const float *a, const float *b, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++) c[i] = a[i] + b[i];
}

static void add_range(void *arg, int64_t begin, int64_t end, int worker) {
    const arrays *x = arg;
    (void)worker;
    add_floats(x->a + begin, x->b + begin, x->c + begin, end - begin);
}

static void touch_range(void *arg, int64_t begin, int64_t end, int worker) {
    const arrays *x = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) x->a[i] = x->b[i] = x->c[i] = (float)(i % 7);
}

static const op ops[] = {{"copy", 2, copy_range}, {"add", 3, add_range}};

typedef struct job {
    cadre_comm *world;
    const cadre_bench_opts *opts;
    cadre_pool *pool;
    int64_t bytes; /* of an array */
    arrays at;
} job;

/* One sample: ranks below `active` at once; what it took, on their average. */
static cadre_status sample(job *j, const op *o, int active, double *ret_ns) {
    int64_t ns = 0;
    CADRE_TRY(cadre_barrier(j->world, "bench memory"));
    if (cadre_comm_rank(j->world) < active) {
        int64_t begin = cadre_now_ns();
        cadre_pool_for(j->pool, j->bytes / 4, GRAIN, o->fn, &j->at);
        ns = cadre_now_ns() - begin;
    }
    *ret_ns = (double)ns;
    CADRE_TRY(cadre_bench_mean(j->world, ret_ns, 1));
    *ret_ns *= (double)cadre_comm_size(j->world) / active;
    return CADRE_OK;
}

static json_t *row_of(const job *j, const op *o, int active, const cadre_bench_stats *s,
                      double alone) {
    double rate = (double)active * o->moved * (double)j->bytes / s->median;
    json_t *row =
        json_pack("{s:s, s:i, s:i, s:I, s:i, s:o, s:f}", "op", o->name, "ranks", active, "threads",
                  cadre_pool_threads(j->pool), "bytes", (json_int_t)j->bytes, "repeats", s->repeats,
                  "ms", cadre_bench_spread(s, 1e-6), "gb_per_s", rate);
    if (row) cadre_document_number(row, "of_alone", alone / s->median);
    return row;
}

static cadre_status measure(job *j, const op *o, int active, double *alone, cadre_bench *bench) {
    double first = 0, *ns = NULL;
    int64_t n = 0;
    CADRE_TRY(sample(j, o, active, &first));
    CADRE_TRY(cadre_bench_samples(j->world, j->opts, 1, first, &n));
    CADRE_TRY(cadre_alloc_array(&ns, CADRE_MEM_OTHER, n, sizeof *ns));
    cadre_status st = CADRE_OK;
    for (int64_t i = 0; !st && i < n; i++) st = sample(j, o, active, &ns[i]);
    if (!st) {
        cadre_bench_stats s = cadre_bench_stats_of(ns, n);
        if (active == 1) *alone = s.median;
        if (cadre_comm_rank(j->world) == 0)
            st = cadre_bench_add(bench, row_of(j, o, active, &s, *alone));
    }
    cadre_free(&ns);
    return st;
}

/* 1, 2, 4, ... ranks, and all of them. */
static cadre_status measure_all(job *j, cadre_bench *bench) {
    int size = cadre_comm_size(j->world);
    for (int k = 0; k < CADRE_COUNT(ops); k++) {
        double alone = 0;
        for (int active = 1; active < size; active *= 2)
            CADRE_TRY(measure(j, &ops[k], active, &alone, bench));
        CADRE_TRY(measure(j, &ops[k], size, &alone, bench));
    }
    return CADRE_OK;
}

static cadre_status measure_size(job *j, cadre_bench *bench) {
    cadre_status st = cadre_alloc(&j->at.a, CADRE_MEM_OTHER, (size_t)j->bytes);
    if (!st) st = cadre_alloc(&j->at.b, CADRE_MEM_OTHER, (size_t)j->bytes);
    if (!st) st = cadre_alloc(&j->at.c, CADRE_MEM_OTHER, (size_t)j->bytes);
    if (!st) cadre_pool_for(j->pool, j->bytes / 4, GRAIN, touch_range, &j->at);
    if (!st) st = measure_all(j, bench);
    cadre_free(&j->at.a);
    cadre_free(&j->at.b);
    cadre_free(&j->at.c);
    return st;
}

static cadre_status threads_of(const cadre_bench_opts *opts, int64_t *ret_threads) {
    cadre_run_cfg run;
    CADRE_TRY(cadre_settings_fill(opts->set, &cadre_run_settings, &run));
    *ret_threads = run.threads == CADRE_UNSET ? 1 : run.threads;
    return CADRE_OK;
}

cadre_status cadre_bench_memory(cadre_comm *world, const cadre_bench_opts *opts,
                                cadre_bench *bench) {
    job j = {.world = world, .opts = opts};
    cadre_binding binding;
    int64_t sizes[32], threads = 1;
    int count = 0;
    CADRE_TRY(cadre_bench_sizes(opts->bytes, standard_size, sizes, &count));
    CADRE_TRY(threads_of(opts, &threads));
    CADRE_TRY(cadre_rank_threads(world, threads, true, &j.pool, &binding));
    cadre_bind(&binding, true);
    cadre_status st = CADRE_OK;
    for (int i = 0; !st && i < count; i++) {
        j.bytes = sizes[i];
        st = measure_size(&j, bench);
    }
    cadre_bind(&binding, false);
    cadre_pool_close(&j.pool);
    return st;
}
