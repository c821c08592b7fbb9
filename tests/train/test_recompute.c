/* SPDX-License-Identifier: Apache-2.0
 *
 * train.recompute and train.memory_limit in whole runs, plans and trainers: the same losses, the
 * fewest blocks that fit, refusals with what would help; and no allocation after the first step.
 */
#include <cadre/train.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "nn/model.h"
#include "support/ranks.h"
#include "train/text_of.h"
#include "train/run.h"

enum { STEPS = 6, BLOCKS = 8 };

static const char *const common[] = {
    "model.layers",  "6",     "model.heads",   "2",   "model.width",       "16",
    "model.context", "16",    "train.batch",   "12",  "train.steps",       "6",
    "run.pin",       "false", "run.threads",   "1",   "train.eval_every",  "2",
    "optim.lr",      "1e-2",  "model.dropout", "0.1", "train.micro_batch", "2",
};

static cadre_settings *settings(const char *recompute, const char *limit) {
    cadre_settings *set = NULL;
    OK(cadre_settings_open(&set, NULL));
    for (int i = 0; i < CADRE_COUNT(common); i += 2)
        OK(cadre_settings_set(set, common[i], common[i + 1]));
    if (recompute) OK(cadre_settings_set(set, "train.recompute", recompute));
    if (limit) OK(cadre_settings_set(set, "train.memory_limit", limit));
    return set;
}

static int64_t total_of(const cadre_plan *plan) {
    int64_t sum = 0;
    for (int i = 0; i < CADRE_MEM_KINDS; i++) sum += plan->bytes_per_rank[i];
    return sum;
}

/* Megabytes a block, beside which the process counts little. */
static void large(cadre_settings *set) {
    OK(cadre_settings_set(set, "model.width", "256"));
    OK(cadre_settings_set(set, "model.context", "64"));
    OK(cadre_settings_set(set, "train.micro_batch", "12"));
}

/* ---- whole runs ---- */

typedef struct scenario {
    const char *recompute, *limit, *dir;
    bool large;
} scenario;

typedef struct run_record {
    double loss[STEPS], valid;
    cadre_plan plan;
    int64_t activations; /* bytes, at the last step */
    int64_t first,
        last; /* allocations after the first step, and before the last one's evaluation */
} run_record;

static cadre_status on_start(void *self, const cadre_run *run, const cadre_plan *plan) {
    (void)run;
    ((run_record *)self)->plan = *plan;
    return CADRE_OK;
}

static cadre_status on_step(void *self, const cadre_step_report *report) {
    run_record *r = self;
    r->loss[report->step - 1] = report->loss;
    r->activations = cadre_mem_live(CADRE_MEM_ACTIVATIONS);
    return CADRE_OK;
}

static cadre_status on_eval(void *self, const cadre_eval_report *report) {
    ((run_record *)self)->valid = report->valid_loss;
    return CADRE_OK;
}

/* Right before step `step`: on every rank. */
static cadre_status on_trace(void *self, const cadre_run *run, int rank, int64_t step) {
    run_record *r = self;
    (void)run;
    (void)rank;
    if (step == 2) r->first = cadre_mem_allocations();
    if (step == STEPS) r->last = cadre_mem_allocations();
    return CADRE_OK;
}

static cadre_status whole_run(test_rank *me) {
    const scenario *s = me->arg;
    run_record *r = me->record;
    cadre_end_report end;
    cadre_settings *set = settings(s->recompute, s->limit);
    const cadre_observer observer = {
        .self = r, .start = on_start, .step = on_step, .eval = on_eval, .rank_trace = on_trace};
    const cadre_run_opts opts = {.observers = &observer, .observer_count = 1};
    if (s->large) large(set);
    cadre_status st = cadre_settings_set(set, "data.train", text_file);
    if (!st) st = cadre_settings_set(set, "run.dir", s->dir);
    if (!st) st = cadre_run_train(me->comm, set, &opts, &end);
    cadre_settings_close(&set);
    return st;
}

static run_record run_of(const scenario *s, int size) {
    run_record records[4];
    test_result results[4];
    memset(records, 0, sizeof records);
    on_threads(size, NULL, whole_run, s, records, sizeof *records, results);
    all_ok(results, size);
    return records[0];
}

static run_record run(const char *recompute, const char *limit, int size) {
    const scenario s = {recompute, limit, temp_folder(), false};
    return run_of(&s, size);
}

static void runs_are_the_same(void **state) {
    (void)state;
    for (int size = 1; size <= 3; size += 2) {
        run_record none = run("none", NULL, size), block = run("block", NULL, size);
        assert_memory_equal(none.loss, block.loss, sizeof none.loss);
        assert_memory_equal(&none.valid, &block.valid, sizeof none.valid);
        assert_true(none.loss[0] > none.loss[STEPS - 1]);
        assert_int_equal(none.plan.recomputed_blocks, 0);
        assert_int_equal(block.plan.recomputed_blocks, 6);
        assert_int_equal(block.plan.blocks, BLOCKS);
    }
}

static void nothing_is_allocated_after_the_first_step(void **state) {
    (void)state;
    for (int size = 1; size <= 2; size++) {
        run_record r = run(size == 1 ? "none" : "block", NULL, size);
        assert_true(r.first > 0);
        assert_int_equal(r.last - r.first, 0); /* steps 2 to 5, evaluations after 2 and 4 */
    }
}

static void a_run_is_refused(void **state) {
    (void)state;
    const scenario s = {"auto", "1MiB", temp_folder(), false};
    run_record records[2];
    test_result results[2];
    on_threads(2, NULL, whole_run, &s, records, sizeof *records, results);
    for (int r = 0; r < 2; r++) assert_true(results[r].status < 0);
    assert_true(results[0].status == CADRE_ERESOURCE || results[1].status == CADRE_ERESOURCE);
}

/* ---- plans ---- */

static cadre_plan plan_of(const char *recompute, int64_t limit) {
    char text[32];
    cadre_plan plan;
    snprintf(text, sizeof text, "%lld", (long long)limit);
    cadre_settings *set = settings(recompute, limit ? text : NULL);
    large(set);
    OK(cadre_plan_make(set, &plan));
    cadre_settings_close(&set);
    return plan;
}

static void refused_plan(const char *recompute, int64_t limit, const char *part) {
    char text[32];
    cadre_plan plan;
    snprintf(text, sizeof text, "%lld", (long long)limit);
    cadre_settings *set = settings(recompute, text);
    large(set);
    FAILS(cadre_plan_make(set, &plan), CADRE_ERESOURCE, part);
    cadre_settings_close(&set);
}

static void the_fewest_that_fit(void **state) {
    (void)state;
    /* The process itself counts, and moves a little between two plans; a sanitizer's a lot. */
    if (getenv("CADRE_TEST_SANITIZER")) skip();
    const int64_t slack = 2 << 20;
    cadre_plan none = plan_of("none", 0), block = plan_of("block", 0),
               free_auto = plan_of("auto", 0);
    int64_t most = total_of(&none), least = total_of(&block), gap = most - least;
    assert_true(gap > 8 * slack);
    assert_int_equal(none.recomputed_blocks, 0);
    assert_int_equal(free_auto.recomputed_blocks, 0); /* this machine has room */
    assert_true(none.recompute_flops_per_step == 0 && none.flops_per_step == block.flops_per_step);
    assert_true(block.recompute_flops_per_step > 0.1 * block.flops_per_step);
    assert_true(block.recompute_flops_per_step < block.flops_per_step / 3);
    int before = 6;
    for (int i = 0; i <= 4; i++) {
        int64_t limit = least + slack + gap * i / 4;
        cadre_plan fits = plan_of("auto", limit);
        assert_true(total_of(&fits) <= limit);
        assert_true(fits.recomputed_blocks <= before);
        before = fits.recomputed_blocks;
    }
    assert_int_equal(before, 0);
    refused_plan("auto", least - 4 * slack, "even with every block computed again, above");
    refused_plan("auto", least - 4 * slack, "take a smaller train.micro_batch");
    refused_plan("block", least - 4 * slack, "even with every block computed again, above");
    refused_plan("none", least - 4 * slack, "train.recompute=block would still need");
    refused_plan("none", most - 4 * slack, "give train.recompute=auto");
    (void)plan_of("none", most + slack);
    (void)plan_of("block", least + slack);
}

static void a_run_computes_as_many_again_as_planned(void **state) {
    (void)state;
    if (getenv("CADRE_TEST_SANITIZER")) skip();
    char limit[32];
    cadre_plan none = plan_of("none", 0), block = plan_of("block", 0);
    snprintf(limit, sizeof limit, "%lld", (long long)(total_of(&none) + total_of(&block)) / 2);
    const scenario s = {"auto", limit, temp_folder(), true};
    run_record r = run_of(&s, 1);
    assert_in_range(r.plan.recomputed_blocks, 1, 5);
    assert_true(r.activations > 0);
    assert_true(r.activations <= r.plan.bytes_per_rank[CADRE_MEM_ACTIVATIONS]);
}

/* ---- trainers ---- */

static cadre_status train_ten(const char *recompute, const char *limit, int64_t samples,
                              double ret_loss[3]) {
    static int32_t tokens[64 * 16];
    cadre_settings *set = settings(recompute, limit);
    cadre_comm *world = NULL;
    cadre_model *model = NULL;
    cadre_trainer *trainer = NULL;
    cadre_batch batch = CADRE_BATCH;
    cadre_report report = CADRE_REPORT;
    for (int i = 0; i < CADRE_COUNT(tokens); i++) tokens[i] = (i * 7 + i / 5) % 11;
    batch.inputs = batch.labels = tokens;
    batch.inputs_dtype = batch.labels_dtype = CADRE_I32;
    cadre_status st = cadre_settings_set(set, "model.vocab", "11");
    if (!st) st = cadre_settings_set(set, "train.micro_batch", "64");
    if (!st) st = cadre_comm_open(&world, NULL);
    if (!st) st = cadre_model_open(&model, set);
    if (!st) st = cadre_trainer_open(&trainer, world, model, set);
    for (int i = 0; i < 3 && !st; i++) {
        batch.samples = i == 1 ? samples : 1; /* the second batch is the larger one */
        batch.inputs_dims = batch.labels_dims = cadre_dims2(batch.samples, 16);
        st = cadre_trainer_step(trainer, &batch, &report);
        if (!st) ret_loss[i] = report.loss;
    }
    cadre_trainer_close(&trainer);
    cadre_model_close(&model);
    cadre_comm_close(&world);
    cadre_settings_close(&set);
    return st;
}

static void trainers_do_it_too(void **state) {
    (void)state;
    double none[3], block[3], fitted[3];
    OK(train_ten("none", NULL, 64, none));
    OK(train_ten("block", NULL, 64, block));
    OK(train_ten("auto", "4GiB", 64, fitted));
    assert_memory_equal(none, block, sizeof none);
    assert_memory_equal(none, fitted, sizeof none);
}

static void a_trainer_refuses_what_does_not_fit(void **state) {
    (void)state;
    if (getenv("CADRE_TEST_SANITIZER")) skip(); /* its own memory moves by megabytes */
    double fitted[3];
    /* 64 samples of 16 tokens take megabytes, one takes next to nothing. */
    char limit[32];
    int64_t now = 0;
    cadre_plan plan = plan_of("none", 0);
    now = plan.bytes_per_rank[CADRE_MEM_OTHER];
    snprintf(limit, sizeof limit, "%lld", (long long)now + (2 << 20));
    OK(train_ten("auto", limit, 1, fitted));
    FAILS(train_ten("auto", limit, 64, fitted), CADRE_ERESOURCE, "above train.memory_limit");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_the_same),
        cmocka_unit_test(nothing_is_allocated_after_the_first_step),
        cmocka_unit_test(a_run_is_refused),
        cmocka_unit_test(the_fewest_that_fit),
        cmocka_unit_test(a_run_computes_as_many_again_as_planned),
        cmocka_unit_test(trainers_do_it_too),
        cmocka_unit_test(a_trainer_refuses_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, make_text, NULL);
}
