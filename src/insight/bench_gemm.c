/* SPDX-License-Identifier: Apache-2.0
 *
 * bench gemm: the matrix products of a model's step, each alone and as the step runs it, beside the
 * fastest product seen in the same run: a large square one, measured in turn with all of them. The
 * list comes from a dry run of the step.
 *
 * All ranks run a product at once; a sample is the mean of their times.
 */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "insight/bench_model.h"
#include "insight/document.h"

enum { SQUARE = 1536 };

static const char *const phase_names[CADRE_PHASES] = {"forward", "inputs", "weights"};

typedef struct job {
    cadre_bench_model model;
    const cadre_bench_opts *opts;
    cadre_bench_products list;
    cadre_bench_runner runner, square_runner;
    cadre_bench_product square;
    cadre_bench_stats *stats; /* of each product as the step runs it, in nanoseconds */
    cadre_bench_stats *best;  /* of the fastest other way */
    int *best_way;
    double peak; /* flop/ns of the fastest square one */
} job;

static cadre_status sample(job *j, cadre_bench_runner *r, const cadre_bench_product *p, int way,
                           double *ret_ns) {
    CADRE_TRY(cadre_barrier(j->model.world, "bench product"));
    int64_t begin = cadre_now_ns();
    CADRE_TRY(cadre_bench_runner_run(r, p, way, NULL));
    *ret_ns = (double)(cadre_now_ns() - begin);
    return cadre_bench_mean(j->model.world, ret_ns, 1);
}

static cadre_status sample_square(job *j) {
    double ns = 0;
    CADRE_TRY(sample(j, &j->square_runner, &j->square, 1, &ns));
    double rate = cadre_bench_product_flops(&j->square) / ns;
    if (rate > j->peak) j->peak = rate;
    return CADRE_OK;
}

/* Samples of all ways in turn, `n` each, into ns[way * n ..]. */
static cadre_status sample_ways(job *j, const cadre_bench_product *p, int64_t n, double *ns) {
    for (int64_t i = 0; i < n; i++) {
        for (int way = 0; way < cadre_bench_way_count(j->model.queue); way++)
            CADRE_TRY(sample(j, &j->runner, p, way, &ns[way * n + i]));
        if (i % 4 == 0) CADRE_TRY(sample_square(j));
    }
    return CADRE_OK;
}

static cadre_status measure(job *j, int which) {
    const cadre_bench_product *p = &j->list.at[which];
    double first = 0, *ns = NULL;
    int64_t n = 0;
    for (int way = 0; way < cadre_bench_way_count(j->model.queue); way++)
        for (int i = 0; i < 2; i++) CADRE_TRY(sample(j, &j->runner, p, way, &first));
    CADRE_TRY(cadre_bench_samples(j->model.world, j->opts, 1, first * CADRE_BENCH_WAYS, &n));
    CADRE_TRY(cadre_alloc_array(&ns, CADRE_MEM_OTHER, n * CADRE_BENCH_WAYS, sizeof *ns));
    cadre_status st = sample_ways(j, p, n, ns);
    for (int way = 0; !st && way < cadre_bench_way_count(j->model.queue); way++) {
        cadre_bench_stats s = cadre_bench_stats_of(ns + way * n, n);
        if (way == 0) j->stats[which] = s;
        if (way == 0 || s.median < j->best[which].median) {
            j->best[which] = s;
            j->best_way[which] = way;
        }
    }
    cadre_free(&ns);
    return st;
}

/* ---- rows ---- */

static double gflops(const job *j, double flops, double ns) {
    return flops * cadre_comm_size(j->model.world) / ns;
}

static json_t *row_of(const job *j, int which) {
    const cadre_bench_product *p = &j->list.at[which];
    double flops = cadre_bench_product_flops(p);
    double rate = flops / j->stats[which].median;
    json_t *row = cadre_bench_model_row(&j->model);
    json_t *more = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:o, s:f, s:f, s:s, s:f}", "op", "linear", "who",
        "cadre", "phase", phase_names[p->phase], "rows", (json_int_t)p->rows, "in",
        (json_int_t)p->in, "out", (json_int_t)p->out, "calls", (json_int_t)j->list.calls[which],
        "repeats", j->stats[which].repeats, "us", cadre_bench_spread(&j->stats[which], 1e-3),
        "gflop_per_s", gflops(j, flops, j->stats[which].median), "of_limit", rate / j->peak,
        "best_layout", cadre_bench_ways[j->best_way[which]], "best_gflop_per_s",
        gflops(j, flops, j->best[which].median));
    json_object_update(row, more);
    json_decref(more);
    return row;
}

/* All products of a step together, as the step runs them and at their best; and the limit. */
static cadre_status add_totals(const job *j, cadre_bench *bench) {
    double flops = 0, ns = 0, best = 0;
    for (int i = 0; i < j->list.count; i++) {
        flops += (double)j->list.calls[i] * cadre_bench_product_flops(&j->list.at[i]);
        ns += (double)j->list.calls[i] * j->stats[i].median;
        best += (double)j->list.calls[i] * j->best[i].median;
    }
    json_t *row = cadre_bench_model_row(&j->model), *limit = cadre_bench_model_row(&j->model);
    json_t *more = json_pack("{s:s, s:s, s:s, s:i, s:{s:f}, s:f, s:f, s:f}", "op", "linear", "who",
                             "cadre", "phase", "all", "calls", j->list.places, "us", "median",
                             ns * 1e-3, "gflop_per_s", gflops(j, flops, ns), "of_limit",
                             flops / ns / j->peak, "best_gflop_per_s", gflops(j, flops, best));
    json_object_update(row, more);
    json_decref(more);
    more = json_pack("{s:s, s:s, s:i, s:i, s:i, s:f}", "op", "square", "who", "limit", "rows",
                     SQUARE, "in", SQUARE, "out", SQUARE, "gflop_per_s", gflops(j, j->peak, 1));
    json_object_update(limit, more);
    json_decref(more);
    cadre_status st = cadre_bench_add(bench, row);
    cadre_status other = cadre_bench_add(bench, limit);
    return st ? st : other;
}

/* ---- the whole ---- */

static cadre_status open_all(job *j, cadre_comm *world) {
    CADRE_TRY(cadre_bench_model_open(&j->model, world, j->opts));
    CADRE_TRY(cadre_bench_products_list(&j->model, &j->list));
    CADRE_TRY(cadre_bench_runner_open(&j->runner, j->model.queue, &j->list));
    cadre_dtype dtype = cadre_model_dtype(j->model.model);
    j->square = (cadre_bench_product){.rows = SQUARE,
                                      .in = SQUARE,
                                      .out = SQUARE,
                                      .dtype = dtype,
                                      .gradient = dtype,
                                      .in_out = true};
    cadre_bench_products square = {.at = &j->square, .count = 1};
    CADRE_TRY(cadre_bench_runner_open(&j->square_runner, j->model.queue, &square));
    int64_t n = j->list.count;
    CADRE_TRY(cadre_alloc_array(&j->stats, CADRE_MEM_OTHER, n, sizeof *j->stats));
    CADRE_TRY(cadre_alloc_array(&j->best, CADRE_MEM_OTHER, n, sizeof *j->best));
    return cadre_alloc_array(&j->best_way, CADRE_MEM_OTHER, n, sizeof *j->best_way);
}

static void close_all(job *j) {
    cadre_free(&j->best_way);
    cadre_free(&j->best);
    cadre_free(&j->stats);
    cadre_bench_runner_close(&j->square_runner);
    cadre_bench_runner_close(&j->runner);
    cadre_bench_products_free(&j->list);
    cadre_bench_model_close(&j->model);
}

cadre_status cadre_bench_gemm(cadre_comm *world, const cadre_bench_opts *opts, cadre_bench *bench) {
    job j = {.opts = opts};
    cadre_status st = open_all(&j, world);
    for (int i = 0; !st && i < 4; i++) st = sample_square(&j);
    for (int i = 0; !st && i < j.list.count; i++)
        if (j.list.calls[i]) st = measure(&j, i);
    if (!st && cadre_comm_rank(world) == 0) {
        for (int i = 0; !st && i < j.list.count; i++)
            if (j.list.calls[i]) st = cadre_bench_add(bench, row_of(&j, i));
        if (!st) st = add_totals(&j, bench);
    }
    close_all(&j);
    return st;
}
