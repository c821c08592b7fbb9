/* SPDX-License-Identifier: Apache-2.0
 *
 * Benches of a tiny model: the list of products against the costs that operations count, every way
 * against the others, rows and parts that fit together.
 */
#include "bench_of.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "insight/bench_model.h"

static cadre_settings *tiny;

static cadre_bench_opts opts_of(void) {
    return (cadre_bench_opts){.set = tiny, .repeat = 5};
}

static void close_all(cadre_bench_model *m, cadre_comm **world) {
    cadre_bench_model_close(m);
    cadre_comm_close(world);
}

static void open_with(cadre_bench_model *m, cadre_comm **world, const cadre_settings *set) {
    const cadre_bench_opts opts = {.set = set};
    memset(m, 0, sizeof *m);
    OK(cadre_comm_open_threads(world, 1, NULL));
    OK(cadre_bench_model_open(m, *world, &opts));
}

static void open_model(cadre_bench_model *m, cadre_comm **world) {
    open_with(m, world, tiny);
}

/* The tiny model with one setting more. */
static cadre_settings *tiny_with(const char *name, const char *value) {
    cadre_settings *set = NULL;
    OK(cadre_settings_copy(&set, tiny));
    OK(cadre_settings_set(set, name, value));
    return set;
}

/* Flops in products, as the table of operations counts them, without attention's. */
static void add_cost(void *self, const cadre_call *c, cadre_phase phase, int64_t ns,
                     int64_t product_ns) {
    cadre_cost cost = {0};
    assert_int_equal(ns, 0);
    assert_int_equal(product_ns, 0);
    if (c->op == CADRE_OP_ATTENTION) return;
    cadre_op_table[c->op].cost(c, phase, &cost);
    *(double *)self += cost.matmul_flops;
}

/* Lists the products of the model with these settings; checks them against the costs. */
static void list_products(const cadre_settings *set, cadre_bench_products *list) {
    cadre_bench_model m;
    cadre_comm *world = NULL;
    cadre_queue *meta = NULL;
    cadre_parallel *p = NULL;
    cadre_step_result result;
    double want = 0, flops = 0;
    int64_t calls = 0;
    cadre_op_watch watch = {.self = &want, .done = add_cost};
    open_with(&m, &world, set);
    OK(cadre_queue_open(&meta, "meta", NULL));
    OK(cadre_bench_parallel_open(&m, world, meta, &p));
    meta->watch = &watch;
    OK(cadre_bench_model_step(&m, p, 1, &result));
    OK(cadre_bench_products_list(&m, list));
    for (int i = 0; i < list->count; i++) {
        calls += list->calls[i];
        flops += (double)list->calls[i] * cadre_bench_product_flops(&list->at[i]);
    }
    assert_int_equal(calls, list->places);
    assert_true(want > 0 && fabs(flops / want - 1) < 1e-12);
    for (int i = 0; i < list->places; i++) assert_null(list->place[i].weight);
    cadre_parallel_close(&p);
    cadre_queue_close(&meta);
    close_all(&m, &world);
}

static void the_list_holds_every_product(void **state) {
    (void)state;
    cadre_bench_products list;
    list_products(tiny, &list);
    assert_int_equal(list.places, 2 * 3 * 4 + 3); /* layers x phases x linear, and the head */
    cadre_bench_products_free(&list);
}

/* Blocks that are computed again run their products twice. */
static void what_is_computed_again_is_listed(void **state) {
    (void)state;
    cadre_bench_products list;
    cadre_settings *set = tiny_with("train.recompute", "block");
    list_products(set, &list);
    assert_true(list.places > 2 * 3 * 4 + 3 && list.places <= 2 * 4 * 4 + 3);
    cadre_bench_products_free(&list);
    cadre_settings_close(&set);
}

static void a_memory_limit_holds(void **state) {
    (void)state;
    static const char *const benches[] = {"gemm", "step", "checkpoint"};
    cadre_settings *set = tiny_with("train.memory_limit", "1MiB");
    const cadre_bench_opts opts = {.set = set, .repeat = 1};
    for (int i = 0; i < CADRE_COUNT(benches); i++) {
        const cadre_bench_kind *kind = NULL;
        cadre_bench bench = {0};
        cadre_comm *world = NULL;
        OK(cadre_bench_find(benches[i], &kind));
        OK(cadre_comm_open_threads(&world, 1, NULL));
        OK(cadre_bench_open(&bench, kind, world));
        FAILS(kind->run(world, &opts, &bench), CADRE_ERESOURCE, "train.memory_limit=1.0 MiB");
        cadre_bench_close(&bench);
        cadre_comm_close(&world);
    }
    cadre_settings_close(&set);
}

static void another_kind_is_refused(void **state) {
    (void)state;
    cadre_bench_model m;
    cadre_comm *world = NULL;
    cadre_settings *set = NULL;
    memset(&m, 0, sizeof m);
    OK(cadre_settings_open(&set, NULL));
    OK(cadre_settings_set(set, "model.kind", "mlp"));
    const cadre_bench_opts opts = {.set = set};
    OK(cadre_comm_open_threads(&world, 1, NULL));
    FAILS(cadre_bench_model_open(&m, world, &opts), CADRE_EUSAGE, "measure models of kind gpt2");
    close_all(&m, &world);
    cadre_settings_close(&set);
}

/* A head whose logits are too many for one block: the same work is listed whole beside it. */
static void a_head_in_blocks_is_listed_whole_too(void **state) {
    (void)state;
    cadre_settings *wide = NULL;
    cadre_bench_model m;
    cadre_comm *world = NULL;
    cadre_bench_products list;
    double blocks = 0, whole = 0;
    memset(&m, 0, sizeof m);
    OK(cadre_settings_copy(&wide, tiny));
    OK(cadre_settings_set(wide, "model.vocab", "1000000"));
    OK(cadre_settings_set(wide, "train.micro_batch", "8"));
    const cadre_bench_opts opts = {.set = wide};
    OK(cadre_comm_open_threads(&world, 1, NULL));
    OK(cadre_bench_model_open(&m, world, &opts));
    OK(cadre_bench_products_list(&m, &list));
    assert_int_equal(list.swaps, 1);
    const cadre_bench_swap *s = list.swap;
    assert_int_equal(s->end - s->first, 2 * 3); /* two blocks of 64 rows */
    assert_int_equal(s->count, 3);
    for (int i = s->first; i < s->end; i++)
        blocks += cadre_bench_product_flops(&list.at[list.place[i].which]);
    for (int i = 0; i < 3; i++) {
        whole += cadre_bench_product_flops(&list.at[s->whole[i].which]);
        assert_int_equal(list.calls[s->whole[i].which], 0);
        assert_int_equal(list.at[s->whole[i].which].rows, 128);
    }
    assert_true(blocks == whole);
    cadre_bench_products_free(&list);
    close_all(&m, &world);
    cadre_settings_close(&wide);
}

static void *result_of(const cadre_bench_runner *r, const cadre_bench_product *p, int64_t *ret_n) {
    bool weights = p->phase == CADRE_BACKWARD_PARAMS;
    *ret_n = weights                     ? p->in * p->out
             : p->phase == CADRE_FORWARD ? p->rows * p->out
                                         : p->rows * p->in;
    return weights ? r->gradient : r->result;
}

/* Whole matrices as the step's operands lie give the step's own numbers, with and without a sum. */
static void the_ways_compute_the_same(void **state) {
    (void)state;
    cadre_bench_model m;
    cadre_comm *world = NULL;
    cadre_bench_products list;
    cadre_bench_runner r;
    float first[8192];
    open_model(&m, &world);
    OK(cadre_bench_products_list(&m, &list));
    OK(cadre_bench_runner_open(&r, m.queue, &list));
    for (int i = 0; i < list.count; i++) {
        const cadre_bench_product *p = &list.at[i];
        int64_t n = 0;
        float *at = result_of(&r, p, &n);
        assert_true(n <= CADRE_COUNT(first));
        for (int way = 0; way < CADRE_BENCH_WAYS; way++) { /* with one thread the last are alike */
            memset(at, 0, (size_t)n * sizeof *at);
            OK(cadre_bench_runner_run(&r, p, way, NULL));
            if (way == 0) memcpy(first, at, (size_t)n * sizeof *at);
            if (way == 1) assert_true(relative_gap_f32(at, first, n) < 1e-6);
            for (int64_t k = 0; k < n; k++) assert_true(isfinite(at[k]));
        }
    }
    cadre_bench_runner_close(&r);
    cadre_bench_products_free(&list);
    close_all(&m, &world);
}

/* ---- parts and ways ---- */

/* Every nanosecond of an operation is in one part; its products in `matmul`. */
static void parts_of_an_operation_are_disjoint(void **state) {
    (void)state;
    for (int op = 0; op < CADRE_OPS; op++) {
        double parts[CADRE_PARTS] = {0}, sum = 0;
        const cadre_call c = {.op = (cadre_op_id)op};
        cadre_op_watch watch = cadre_bench_parts_watch(parts);
        watch.done(watch.self, &c, CADRE_FORWARD, 100, 60);
        for (int k = 0; k < CADRE_PARTS; k++) sum += parts[k];
        assert_true(sum == 100);
        assert_true(parts[CADRE_PART_MATMUL] == (op == CADRE_OP_ATTENTION ? 0 : 60));
    }
}

typedef struct witness {
    cadre_op_watch parts;
    double ns, product_ns;
} witness;

static void see(void *self, const cadre_call *c, cadre_phase phase, int64_t ns,
                int64_t product_ns) {
    witness *w = self;
    w->ns += (double)ns;
    if (c->op != CADRE_OP_ATTENTION) w->product_ns += (double)product_ns;
    w->parts.done(w->parts.self, c, phase, ns, product_ns);
}

/* In a real step: the parts beside what a second observer added up, and the whole step. */
static void parts_of_a_step_are_what_was_measured(void **state) {
    (void)state;
    cadre_bench_model m;
    cadre_comm *world = NULL;
    cadre_step_result result;
    double parts[CADRE_PARTS] = {0}, sum = 0;
    witness w = {.parts = cadre_bench_parts_watch(parts)};
    cadre_op_watch watch = {.self = &w, .done = see};
    open_model(&m, &world);
    OK(cadre_bench_parallel_open(&m, world, m.queue, &m.parallel));
    m.queue->watch = &watch;
    OK(cadre_bench_model_step(&m, m.parallel, 1, &result));
    m.queue->watch = NULL;
    for (int k = 0; k < CADRE_PARTS; k++) sum += parts[k];
    assert_true(w.product_ns > 0 && parts[CADRE_PART_MATMUL] == w.product_ns);
    assert_true(sum == w.ns);
    assert_true(sum + (double)(result.update_ns + result.comm_ns) <= (double)result.step_ns);
    close_all(&m, &world);
}

/* Of three products: the step's own way, the third, the second is the fastest. */
static cadre_status pretend(void *self, int which, int way, double least, double *ret_ns) {
    static const double ns[3][3] = {{5, 6, 7}, {30, 20, 10}, {200, 100, 150}};
    assert_true(least == (way == 0   ? 0
                          : way == 1 ? ns[which][0]
                                     : fmin(ns[which][0], ns[which][1])));
    *ret_ns = ns[which][way];
    (*(int *)self)++;
    return CADRE_OK;
}

static void the_fastest_way_is_chosen(void **state) {
    (void)state;
    static const int want[] = {0, 2, 1};
    static const double least[] = {5, 10, 100};
    int64_t calls[] = {1, 2, 3};
    const cadre_bench_products list = {.calls = calls, .count = 3};
    int way[] = {-1, -1, -1}, asked = 0;
    double best[3], own = -1;
    OK(cadre_bench_ways_find(&list, 3, pretend, &asked, way, best, &own));
    assert_int_equal(asked, 9);
    assert_true(own == 5 * 1 + 30 * 2 + 200 * 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(way[i], want[i]);
        assert_true(best[i] == least[i]);
    }
}

/* ---- benches ---- */

static void gemm_has_a_row_a_product(void **state) {
    (void)state;
    const bench_case c = {"gemm", opts_of()};
    cadre_bench benches[4];
    run_bench(&c, 2, benches);
    size_t n = json_array_size(benches[0].rows);
    const json_t *all = json_array_get(benches[0].rows, n - 2);
    const json_t *limit = json_array_get(benches[0].rows, n - 1);
    assert_string_equal(cadre_bench_word(all, "phase"), "all");
    assert_string_equal(cadre_bench_word(limit, "who"), "limit");
    double us = 0, peak = cadre_bench_number(limit, "gflop_per_s");
    for (size_t i = 0; i + 2 < n; i++) {
        const json_t *r = json_array_get(benches[0].rows, i);
        double median = cadre_bench_number(r, "us.median");
        us += cadre_bench_number(r, "calls") * median;
        double rate = 2 * 2e-3 * cadre_bench_number(r, "rows") * cadre_bench_number(r, "in") *
                      cadre_bench_number(r, "out") / median;
        assert_true(fabs(cadre_bench_number(r, "gflop_per_s") / rate - 1) < 1e-9);
        assert_true(fabs(cadre_bench_number(r, "of_limit") * peak / rate - 1) < 1e-9);
        assert_true(cadre_bench_number(r, "best_gflop_per_s") >= rate * (1 - 1e-9));
        assert_string_equal(cadre_bench_word(r, "model"), "gpt2-char");
    }
    assert_true(fabs(cadre_bench_number(all, "us.median") / us - 1) < 1e-9);
    close_benches(benches, 2);
}

static void check_step(const json_t *row) {
    double step = cadre_bench_number(row, "step_ms.median"), sum = 0;
    const json_t *parts = json_object_get(row, "parts_ms");
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)parts, name, value) {
        sum += json_number_value(value);
        if (strcmp(name, "rest") != 0) assert_true(json_number_value(value) >= 0);
    }
    static const char *const wanted[] = {"matmul", "attention", "norms",   "activation",
                                         "loss",   "optimizer", "exposed", "rest"};
    for (int i = 0; i < CADRE_COUNT(wanted); i++)
        assert_true(json_is_number(json_object_get(parts, wanted[i])));
    assert_true(json_number_value(json_object_get(parts, "matmul")) > 0);
    assert_true(json_number_value(json_object_get(parts, "optimizer")) > 0);
    assert_true(fabs(sum / step - 1) < 1e-9);
    assert_true(json_number_value(json_object_get(parts, "rest")) >= -0.01 * step);
    double best = cadre_bench_number(row, "best_products_ms");
    assert_true(best > 0 && best <= cadre_bench_number(row, "own_products_ms"));
    double limit = cadre_bench_number(row, "limit_ms.median");
    assert_true(fabs(cadre_bench_number(row, "of_gemm_limit") / (limit / step) - 1) < 1e-9);
    double tokens = cadre_bench_number(row, "batch") * cadre_bench_number(row, "context");
    assert_true(fabs(cadre_bench_number(row, "tokens_per_s") / (tokens / step * 1e3) - 1) < 1e-9);
}

static void a_step_is_the_sum_of_its_parts(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        const bench_case c = {"step", opts_of()};
        cadre_bench benches[4];
        run_bench(&c, ranks, benches);
        assert_int_equal(json_array_size(benches[0].rows), 2);
        check_step(json_array_get(benches[0].rows, 0));
        for (int r = 1; r < ranks; r++) assert_int_equal(json_array_size(benches[r].rows), 0);
        close_benches(benches, ranks);
    }
}

static void independent_worlds_are_compared(void **state) {
    (void)state;
    static const char *const who[] = {"cadre", "limit", "independent", "alone"};
    bench_case c = {"step", opts_of()};
    c.opts.independent = true;
    cadre_bench benches[4];
    run_bench(&c, 2, benches);
    assert_int_equal(json_array_size(benches[0].rows), 4);
    const json_t *first = json_array_get(benches[0].rows, 0);
    double step = cadre_bench_number(first, "step_ms.median");
    for (int i = 0; i < 4; i++) {
        const json_t *r = json_array_get(benches[0].rows, (size_t)i);
        double ms = cadre_bench_number(r, "step_ms.median");
        assert_string_equal(cadre_bench_word(r, "who"), who[i]);
        assert_true(ms > 0);
        assert_true(cadre_bench_number(r, "ranks") == (i == 3 ? 1 : 2));
        if (i == 2)
            assert_true(fabs(cadre_bench_number(first, "of_independent") * step / ms - 1) < 1e-9);
        if (i == 3) assert_true(fabs(cadre_bench_number(first, "of_alone") * step / ms - 1) < 1e-9);
    }
    check_step(first);
    close_benches(benches, 2);
}

int main(void) {
    static const char *const pairs[][2] = {
        {"model.preset", "gpt2-char"}, {"model.layers", "2"},   {"model.heads", "2"},
        {"model.width", "32"},         {"model.context", "16"}, {"model.vocab", "40"},
        {"train.micro_batch", "2"},    {"run.threads", "1"},
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_holds_every_product),
        cmocka_unit_test(what_is_computed_again_is_listed),
        cmocka_unit_test(a_memory_limit_holds),
        cmocka_unit_test(another_kind_is_refused),
        cmocka_unit_test(a_head_in_blocks_is_listed_whole_too),
        cmocka_unit_test(the_ways_compute_the_same),
        cmocka_unit_test(parts_of_an_operation_are_disjoint),
        cmocka_unit_test(parts_of_a_step_are_what_was_measured),
        cmocka_unit_test(the_fastest_way_is_chosen),
        cmocka_unit_test(gemm_has_a_row_a_product),
        cmocka_unit_test(a_step_is_the_sum_of_its_parts),
        cmocka_unit_test(independent_worlds_are_compared),
    };
    if (cadre_settings_open(&tiny, NULL)) return 1;
    for (int i = 0; i < CADRE_COUNT(pairs); i++)
        if (cadre_settings_set(tiny, pairs[i][0], pairs[i][1])) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cadre_settings_close(&tiny);
    return failed + (cadre_live_bytes() != 0);
}
