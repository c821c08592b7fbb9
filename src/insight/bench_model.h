/* SPDX-License-Identifier: Apache-2.0
 *
 * What benches of a model share: the model in training on random tokens, and the matrix products of
 * its step.
 */
#ifndef CADRE_INSIGHT_BENCH_MODEL_H
#define CADRE_INSIGHT_BENCH_MODEL_H

#include "insight/bench.h"
#include "nn/model.h"
#include "parallel/parallel.h"
#include "train/rank.h"
#include "train/settings.h"

/* ---- a model in training ---- */

typedef struct cadre_bench_model {
    cadre_comm *world;
    cadre_settings *set; /* resolved */
    cadre_config cfg;
    cadre_binding binding;
    cadre_pool *pool;
    cadre_queue *queue;
    cadre_model *model;
    cadre_parallel *parallel; /* NULL: not opened */
    int64_t base;             /* bytes of a process before it opened anything */
    int64_t micros;           /* a step */
    int32_t *inputs, *labels; /* random tokens */
    int64_t *samples;
} cadre_bench_model;

/* Collective. Without a model in the options: gpt2-124m; without a batch: 4 samples a micro-batch,
 * one of them a step; without a context: at most 256 tokens. Binds the calling thread. */
cadre_status cadre_bench_model_open(cadre_bench_model *m, cadre_comm *world,
                                    const cadre_bench_opts *opts);
/* Collective over `world`: parameters, gradients, optimizer, drawn. */
cadre_status cadre_bench_parallel_open(const cadre_bench_model *m, cadre_comm *world,
                                       cadre_queue *queue, cadre_parallel **ret_parallel);
/* Collective over the world of `p`: step number `step`. */
cadre_status cadre_bench_model_step(cadre_bench_model *m, cadre_parallel *p, int64_t step,
                                    cadre_step_result *ret_result);
void cadre_bench_model_close(cadre_bench_model *m);
/* What was measured: model, dtype, ranks, threads, micro_batch, context. */
struct json_t *cadre_bench_model_row(const cadre_bench_model *m);

/* ---- parts of a step ---- */

typedef enum cadre_part {
    CADRE_PART_MATMUL,
    CADRE_PART_ATTENTION,
    CADRE_PART_NORMS,
    CADRE_PART_ACTIVATION,
    CADRE_PART_LOSS,
    CADRE_PART_BIAS,
    CADRE_PART_EMBEDDING,
    CADRE_PART_RESIDUAL,
    CADRE_PART_OPTIMIZER,
    CADRE_PART_EXPOSED,
    CADRE_PART_REST,
    CADRE_PARTS
} cadre_part;
/* A watch that adds each operation's nanoseconds to its part, those in products to `matmul`, where
 * they are not attention's. */
cadre_op_watch cadre_bench_parts_watch(double parts[CADRE_PARTS]);

/* ---- products ---- */

/* A product of a linear layer: x (rows, in), weight, y (rows, out). */
typedef struct cadre_bench_product {
    int64_t rows, in, out;
    cadre_phase phase;
    cadre_dtype dtype, gradient; /* of x, y and the weight; of the weight's gradient */
    bool in_out;                 /* the weight is stored (in, out), else (out, in) */
    bool add;                    /* to what is in the result */
} cadre_bench_product;
double cadre_bench_product_flops(const cadre_bench_product *p);

/* One product of a step in its place: which of the distinct ones, and the memory of the layer. */
typedef struct cadre_bench_place {
    int which;
    void *weight, *gradient; /* NULL: a dry run */
} cadre_bench_place;

/* Products that the step takes in blocks of rows, and the same ones whole. */
typedef struct cadre_bench_swap {
    int first, end;             /* places of the blocks */
    cadre_bench_place whole[3]; /* at most one a phase */
    int count;
} cadre_bench_swap;

/* The products of a step in order, out of the calls that a queue runs. */
typedef struct cadre_bench_products {
    cadre_bench_product *at; /* distinct */
    int64_t *calls;          /* of each in the step; 0: it only stands for blocks */
    int count;
    cadre_bench_place *place; /* all */
    int places;
    cadre_bench_swap *swap; /* in the order of their places */
    int swaps;
    bool dry;
    cadre_status status; /* of the listing */
} cadre_bench_products;
/* A watch that lists into `list`, for a queue that is dry (meta) or not. */
cadre_op_watch cadre_bench_lister(cadre_bench_products *list, bool dry);
/* Local: a step on the meta backend, as rank 0 of a world of one. */
cadre_status cadre_bench_products_list(const cadre_bench_model *m, cadre_bench_products *ret_list);
void cadre_bench_products_free(cadre_bench_products *list);

/* Ways to compute one and the same product, the step's own first. */
enum { CADRE_BENCH_WAYS = 4 };
extern const char *const cadre_bench_ways[CADRE_BENCH_WAYS];
/* Those that differ: without further threads columns are not shared out. */
int cadre_bench_way_count(const cadre_queue *queue);

/* What product `which` takes in a way; one that is far behind `least` (0: none yet) may stop early
 * with any number above it. */
typedef cadre_status cadre_bench_try(void *self, int which, int way, double least, double *ret_ns);
/* The fastest of the first `ways` ways of each product, what it takes, and what all products of a
 * step take in the step's own way. */
cadre_status cadre_bench_ways_find(const cadre_bench_products *list, int ways, cadre_bench_try *try,
                                   void *self, int *ret_way, double *ret_best, double *ret_own_ns);

typedef struct cadre_bench_runner {
    cadre_queue *queue;
    void *x, *y, *weight, *result, *gradient; /* scratch of the largest product */
} cadre_bench_runner;
cadre_status cadre_bench_runner_open(cadre_bench_runner *r, cadre_queue *queue,
                                     const cadre_bench_products *list);
/* `place` NULL: scratch in place of a layer's memory. */
cadre_status cadre_bench_runner_run(cadre_bench_runner *r, const cadre_bench_product *p, int way,
                                    const cadre_bench_place *place);
void cadre_bench_runner_close(cadre_bench_runner *r);

#endif
