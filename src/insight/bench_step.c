/* SPDX-License-Identifier: Apache-2.0
 *
 * bench step: a training step taken apart, beside the time that its own matrix products take alone.
 *
 * The limit: all linear layers of the step (forward, input gradients, weight gradients), one after
 * the other, on the layers' own weights and gradients, each in the fastest way known (found before,
 * product by product), on all ranks at once. Steps and limits are measured in turn, so that
 * whatever else the machine does falls on both.
 *
 * Parts come from a watch on the queue: time in products is `matmul`, what else an operation takes
 * goes to the part of its kind. `rest` is what is left of the step.
 *
 * With --independent the same step is also taken, in turn, by worlds of one rank: all of them at
 * once, and rank 0's while the others sleep.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "insight/bench_model.h"
#include "insight/document.h"

enum { TRIES = 3, LONG_NS = 100000000 };
static const double far_behind = 1.25;

/* ---- parts ---- */

static const char *const part_names[CADRE_PARTS] = {
    "matmul",    "attention", "norms",     "activation", "loss", "bias",
    "embedding", "residual",  "optimizer", "exposed",    "rest"};
static const char *const part_helps[CADRE_PARTS] = {
    "products of the linear layers and the head",
    "attention, its products included",
    "layer norms",
    "GELU and its slope",
    "cross-entropy",
    "gradients of biases, and what else a linear layer does besides its product",
    "embedding and positions",
    "sums and dropout of the residual stream",
    "norm, clipping, update",
    "communication that computation did not hide",
    "everything else"};

/* Of an operation, without its products; a fused GELU counts as CADRE_PART_ACTIVATION. */
static cadre_part part_of(const cadre_call *c) {
    switch (c->op) {
    case CADRE_OP_LINEAR:
        return c->a.gelu ? CADRE_PART_ACTIVATION : CADRE_PART_BIAS;
    case CADRE_OP_ATTENTION:
        return CADRE_PART_ATTENTION;
    case CADRE_OP_LAYER_NORM:
        return CADRE_PART_NORMS;
    case CADRE_OP_GELU:
        return CADRE_PART_ACTIVATION;
    case CADRE_OP_CROSS_ENTROPY:
    case CADRE_OP_LINEAR_CROSS_ENTROPY:
    case CADRE_OP_SQUARED_ERROR:
    case CADRE_OP_SUM:
        return CADRE_PART_LOSS;
    case CADRE_OP_EMBEDDING:
    case CADRE_OP_POSITIONS:
        return CADRE_PART_EMBEDDING;
    case CADRE_OP_ADD:
    case CADRE_OP_DROPOUT:
        return CADRE_PART_RESIDUAL;
    default:
        return CADRE_PART_REST;
    }
}

static void note_parts(void *self, const cadre_call *c, cadre_phase phase, int64_t ns,
                       int64_t product_ns) {
    double *parts = self;
    cadre_part p = part_of(c);
    (void)phase;
    if (p == CADRE_PART_ATTENTION) product_ns = 0;
    parts[CADRE_PART_MATMUL] += (double)product_ns;
    parts[p] += (double)(ns - product_ns);
}

cadre_op_watch cadre_bench_parts_watch(double parts[CADRE_PARTS]) {
    return (cadre_op_watch){.self = parts, .done = note_parts};
}

/* ---- the job ---- */

typedef enum series { STEP, LIMIT, INDEPENDENT, ALONE, SERIES } series;

typedef struct job {
    cadre_bench_model model;
    const cadre_bench_opts *opts;
    cadre_comm *alone[1]; /* a world of this rank; NULL: not asked for */
    cadre_parallel *alone_parallel;
    cadre_bench_products list;
    cadre_bench_runner runner;
    int *way;      /* the fastest of each product */
    double *best;  /* what it takes */
    double own_ns; /* all products of a step alone, as the step runs them */
    int64_t step, alone_step;
    int64_t repeats;
    double *ns[SERIES], *parts[CADRE_PARTS]; /* by repeat */
} job;

static cadre_status barrier(job *j) {
    return cadre_barrier(j->model.world, "bench step");
}

/* One step of `p`, and what it took, part by part. */
static cadre_status time_step(job *j, cadre_parallel *p, int64_t *step, double *ret_ns,
                              double ret_parts[CADRE_PARTS]) {
    double parts[CADRE_PARTS] = {0};
    cadre_op_watch watch = cadre_bench_parts_watch(parts);
    cadre_step_result r;
    j->model.queue->watch = ret_parts ? &watch : NULL;
    cadre_status st = cadre_bench_model_step(&j->model, p, ++*step, &r);
    j->model.queue->watch = NULL;
    if (st) return st;
    *ret_ns = (double)r.step_ns;
    if (!ret_parts) return CADRE_OK;
    parts[CADRE_PART_OPTIMIZER] = (double)r.update_ns;
    /* Without a thread for it, all that communication does is on the thread of the step. */
    parts[CADRE_PART_EXPOSED] =
        (double)(j->model.cfg.comm.progress_thread ? r.exposed_ns : r.comm_ns);
    double known = 0;
    for (int i = 0; i < CADRE_PART_REST; i++) known += parts[i];
    parts[CADRE_PART_REST] = (double)r.step_ns - known;
    memcpy(ret_parts, parts, sizeof parts);
    return CADRE_OK;
}

static cadre_status run_place(job *j, const cadre_bench_place *place) {
    int which = place->which;
    return cadre_bench_runner_run(&j->runner, &j->list.at[which], j->way[which], place);
}

/* Are the products without blocks of rows faster? */
static bool whole_is_faster(const job *j, const cadre_bench_swap *s) {
    double blocks = 0, whole = 0;
    for (int i = s->first; i < s->end; i++) blocks += j->best[j->list.place[i].which];
    for (int i = 0; i < s->count; i++) whole += j->best[s->whole[i].which];
    return whole < blocks;
}

static cadre_status time_products(job *j, double *ret_ns) {
    const cadre_bench_swap *swap = j->list.swap, *last = swap + j->list.swaps;
    int64_t begin = cadre_now_ns();
    for (int i = 0; i < j->list.places; i++) {
        if (swap < last && i == swap->first && whole_is_faster(j, swap)) {
            for (int k = 0; k < swap->count; k++) CADRE_TRY(run_place(j, &swap->whole[k]));
            i = swap->end - 1;
        } else {
            CADRE_TRY(run_place(j, &j->list.place[i]));
        }
        if (swap < last && i >= swap->end - 1) swap++;
    }
    *ret_ns = (double)(cadre_now_ns() - begin);
    return CADRE_OK;
}

/* ---- before measuring ---- */

/* Where product `which` is run: its first place in the step, or in place of blocks. */
static const cadre_bench_place *place_of(const job *j, int which) {
    for (int i = 0; i < j->list.places; i++)
        if (j->list.place[i].which == which) return &j->list.place[i];
    for (int i = 0; i < j->list.swaps; i++)
        for (int k = 0; k < j->list.swap[i].count; k++)
            if (j->list.swap[i].whole[k].which == which) return &j->list.swap[i].whole[k];
    return NULL;
}

/* The fastest of a few tries, each the mean over the ranks; a way that is far behind `least` (0:
 * none yet) is given up, a long one tried twice. */
static cadre_status try_way(void *self, int which, int way, double least, double *ret_best) {
    job *j = self;
    const cadre_bench_product *p = &j->list.at[which];
    const cadre_bench_place *place = place_of(j, which);
    double best = 0;
    for (int i = 0; i <= TRIES; i++) {
        CADRE_TRY(barrier(j));
        int64_t begin = cadre_now_ns();
        CADRE_TRY(cadre_bench_runner_run(&j->runner, p, way, place));
        double ns = (double)(cadre_now_ns() - begin);
        CADRE_TRY(cadre_bench_mean(j->model.world, &ns, 1));
        if (i == 0 && ns < LONG_NS) continue; /* makes the primitive */
        if (best == 0 || ns < best) best = ns;
        if ((least > 0 && best > far_behind * least) || (best > LONG_NS && i > 0)) break;
    }
    *ret_best = best;
    return CADRE_OK;
}

static cadre_status find_ways(job *j) {
    CADRE_TRY(cadre_alloc_array(&j->way, CADRE_MEM_OTHER, j->list.count, sizeof *j->way));
    CADRE_TRY(cadre_alloc_array(&j->best, CADRE_MEM_OTHER, j->list.count, sizeof *j->best));
    int ways = cadre_bench_way_count(j->model.queue);
    return cadre_bench_ways_find(&j->list, ways, try_way, j, j->way, j->best, &j->own_ns);
}

/* Lists the products of a real step: with the memory of each layer. */
static cadre_status list_products(job *j) {
    cadre_op_watch watch = cadre_bench_lister(&j->list, false);
    cadre_step_result r;
    j->model.queue->watch = &watch;
    cadre_status st = cadre_bench_model_step(&j->model, j->model.parallel, ++j->step, &r);
    j->model.queue->watch = NULL;
    if (!st) st = j->list.status;
    if (st) return st;
    return cadre_bench_runner_open(&j->runner, j->model.queue, &j->list);
}

static cadre_status open_alone(job *j) {
    cadre_comm_opts opts = CADRE_COMM_OPTS;
    double ns;
    opts.transport = "self";
    CADRE_TRY(cadre_comm_open_threads(j->alone, 1, &opts));
    CADRE_TRY(
        cadre_bench_parallel_open(&j->model, j->alone[0], j->model.queue, &j->alone_parallel));
    for (int i = 0; i < 2; i++)
        CADRE_TRY(time_step(j, j->alone_parallel, &j->alone_step, &ns, NULL));
    return CADRE_OK;
}

static cadre_status prepare(job *j, cadre_comm *world) {
    double step = 0, limit = 0;
    CADRE_TRY(cadre_bench_model_open(&j->model, world, j->opts));
    CADRE_TRY(cadre_bench_parallel_open(&j->model, world, j->model.queue, &j->model.parallel));
    CADRE_TRY(list_products(j));
    CADRE_TRY(find_ways(j));
    if (j->opts->independent) CADRE_TRY(open_alone(j));
    CADRE_TRY(time_step(j, j->model.parallel, &j->step, &step, NULL));
    CADRE_TRY(time_products(j, &limit));
    double each = step + limit + (j->opts->independent ? 2 * step : 0);
    CADRE_TRY(cadre_bench_samples(world, j->opts, 20, each, &j->repeats));
    for (int i = 0; i < SERIES; i++)
        CADRE_TRY(cadre_alloc_array(&j->ns[i], CADRE_MEM_OTHER, j->repeats, sizeof(double)));
    for (int i = 0; i < CADRE_PARTS; i++)
        CADRE_TRY(cadre_alloc_array(&j->parts[i], CADRE_MEM_OTHER, j->repeats, sizeof(double)));
    return CADRE_OK;
}

static void close_all(job *j) {
    for (int i = 0; i < CADRE_PARTS; i++) cadre_free(&j->parts[i]);
    for (int i = 0; i < SERIES; i++) cadre_free(&j->ns[i]);
    cadre_free(&j->best);
    cadre_free(&j->way);
    cadre_bench_runner_close(&j->runner);
    cadre_bench_products_free(&j->list);
    cadre_parallel_close(&j->alone_parallel);
    if (j->alone[0]) cadre_comm_close(&j->alone[0]);
    cadre_bench_model_close(&j->model);
}

/* ---- measuring ---- */

static cadre_status measure_alone(job *j, int64_t i) {
    CADRE_TRY(barrier(j));
    CADRE_TRY(time_step(j, j->alone_parallel, &j->alone_step, &j->ns[INDEPENDENT][i], NULL));
    CADRE_TRY(barrier(j));
    if (cadre_comm_rank(j->model.world) == 0)
        CADRE_TRY(time_step(j, j->alone_parallel, &j->alone_step, &j->ns[ALONE][i], NULL));
    return barrier(j);
}

/* Every series once; then each number is its mean over the ranks. */
static cadre_status measure_once(job *j, int64_t i) {
    double all[SERIES + CADRE_PARTS] = {0};
    CADRE_TRY(barrier(j));
    CADRE_TRY(time_step(j, j->model.parallel, &j->step, &j->ns[STEP][i], &all[SERIES]));
    CADRE_TRY(barrier(j));
    CADRE_TRY(time_products(j, &j->ns[LIMIT][i]));
    if (j->opts->independent) CADRE_TRY(measure_alone(j, i));
    for (int k = 0; k < SERIES; k++) all[k] = j->ns[k][i];
    all[ALONE] *= cadre_comm_size(j->model.world); /* one rank's own */
    CADRE_TRY(cadre_bench_mean(j->model.world, all, CADRE_COUNT(all)));
    for (int k = 0; k < SERIES; k++) j->ns[k][i] = all[k];
    for (int k = 0; k < CADRE_PARTS; k++) j->parts[k][i] = all[SERIES + k];
    return CADRE_OK;
}

/* ---- rows ---- */

/* Tokens a second of `ranks` ranks. */
static double tokens_per_s(const job *j, int ranks, double ns) {
    const cadre_train_cfg *c = &j->model.cfg.train;
    return (double)(c->micro_batch * c->context * j->model.micros) * ranks / (ns * 1e-9);
}

static json_t *row_of(const job *j, const char *who, int ranks, const cadre_bench_stats *s) {
    json_t *row = cadre_bench_model_row(&j->model);
    json_object_set_new(row, "ranks", json_integer(ranks));
    json_object_set_new(row, "batch",
                        json_integer(j->model.cfg.train.micro_batch * j->model.micros * ranks));
    json_object_set_new(row, "who", json_string(who));
    json_object_set_new(row, "repeats", json_integer(s->repeats));
    json_object_set_new(row, "step_ms", cadre_bench_spread(s, 1e-6));
    cadre_document_number(row, "tokens_per_s", tokens_per_s(j, ranks, s->median));
    return row;
}

typedef struct timed {
    double ns;
    int64_t repeat;
} timed;

static int by_time(const void *a, const void *b) {
    const timed *x = a, *y = b;
    return (x->ns > y->ns) - (x->ns < y->ns);
}

/* What share of a step each part has: means over the middle half of the repeats by the time of the
 * step. They add up to 1. */
static cadre_status shares_of(const job *j, double ret_shares[CADRE_PARTS]) {
    timed *order = NULL;
    int64_t n = j->repeats, from = n / 4, to = n - n / 4;
    double sum[CADRE_PARTS] = {0}, step = 0;
    CADRE_TRY(cadre_alloc_array(&order, CADRE_MEM_OTHER, n, sizeof *order));
    for (int64_t i = 0; i < n; i++) order[i] = (timed){j->ns[STEP][i], i};
    qsort(order, (size_t)n, sizeof *order, by_time);
    for (int64_t i = from; i < to; i++) {
        step += order[i].ns;
        for (int k = 0; k < CADRE_PARTS; k++) sum[k] += j->parts[k][order[i].repeat];
    }
    for (int k = 0; k < CADRE_PARTS; k++) ret_shares[k] = sum[k] / step;
    cadre_free(&order);
    return CADRE_OK;
}

/* All products of a step, each at its fastest in the fastest way. */
static double best_products_ns(const job *j) {
    double ns = 0;
    for (int i = 0; i < j->list.count; i++) ns += j->best[i] * (double)j->list.calls[i];
    return ns;
}

static cadre_status add_rows(job *j, cadre_bench *bench) {
    int size = cadre_comm_size(j->model.world);
    cadre_bench_stats s[SERIES];
    double shares[CADRE_PARTS];
    CADRE_TRY(shares_of(j, shares));
    for (int k = 0; k < SERIES; k++) s[k] = cadre_bench_stats_of(j->ns[k], j->repeats);
    json_t *row = row_of(j, "cadre", size, &s[STEP]);
    json_object_set_new(row, "limit_ms", cadre_bench_spread(&s[LIMIT], 1e-6));
    cadre_document_number(row, "of_gemm_limit", s[LIMIT].median / s[STEP].median);
    cadre_document_number(row, "own_products_ms", j->own_ns * 1e-6);
    cadre_document_number(row, "best_products_ms", best_products_ns(j) * 1e-6);
    json_t *parts = json_object();
    for (int k = 0; k < CADRE_PARTS; k++)
        cadre_document_number(parts, part_names[k], shares[k] * s[STEP].median * 1e-6);
    json_object_set_new(row, "parts_ms", parts);
    if (j->opts->independent) {
        cadre_document_number(row, "of_independent", s[INDEPENDENT].median / s[STEP].median);
        cadre_document_number(row, "of_alone", s[ALONE].median / s[STEP].median);
    }
    CADRE_TRY(cadre_bench_add(bench, row));
    CADRE_TRY(cadre_bench_add(bench, row_of(j, "limit", size, &s[LIMIT])));
    if (!j->opts->independent) return CADRE_OK;
    CADRE_TRY(cadre_bench_add(bench, row_of(j, "independent", size, &s[INDEPENDENT])));
    return cadre_bench_add(bench, row_of(j, "alone", 1, &s[ALONE]));
}

void cadre_bench_step_notes(const json_t *rows, cadre_text *to) {
    const json_t *row = json_array_get(rows, 0);
    double step = cadre_bench_number(row, "step_ms.median");
    cadre_text_add(to, "\nparts of a step, in ms\n");
    for (int k = 0; k < CADRE_PARTS; k++) {
        char key[64];
        snprintf(key, sizeof key, "parts_ms.%s", part_names[k]);
        double ms = cadre_bench_number(row, key);
        cadre_text_add(to, "  %-10s %10.2f %6.1f%%  %s\n", part_names[k], ms, 100 * ms / step,
                       part_helps[k]);
    }
    cadre_text_add(to,
                   "products alone, each the fastest of a few: %.2f ms as the step runs them, "
                   "%.2f ms in the best way\n",
                   cadre_bench_number(row, "own_products_ms"),
                   cadre_bench_number(row, "best_products_ms"));
}

cadre_status cadre_bench_step(cadre_comm *world, const cadre_bench_opts *opts, cadre_bench *bench) {
    job j = {.opts = opts};
    cadre_status st = prepare(&j, world);
    for (int64_t i = 0; !st && i < j.repeats; i++) st = measure_once(&j, i);
    if (!st && cadre_comm_rank(world) == 0) st = add_rows(&j, bench);
    close_all(&j);
    return st;
}
