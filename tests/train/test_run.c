/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole runs on ranks as threads: the loop, its reports, stopping, resuming, failing.
 */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "support/ranks.h"
#include "train/text_of.h"
#include "train/run.h"

enum { MOST = 64 };

/* A run: what differs between them. */
typedef struct scenario {
    const char *dir;
    const char *pairs[16]; /* more settings, NULL */
    int stop_at;           /* step after which rank 0 sees SIGTERM; 0: never */
    int bad_rank;          /* whose data are missing; -1: nobody's */
    int64_t fault;         /* the fault-th thing from the start of rank 0's run fails; 0: none */
    bool bad_observer;     /* rank 0's observer fails at step 3 */
} scenario;

typedef struct run_record {
    int steps, evals, saves, ends;
    cadre_step_report step[MOST];
    cadre_eval_report eval[MOST];
    cadre_end_report end;
    cadre_plan plan;
    int64_t resumed; /* -1: not */
    char folder[CADRE_PATH];
    int stop_at;
    bool bad;
    volatile int signal;
} run_record;

static cadre_status on_start(void *self, const cadre_run *run, const cadre_plan *plan) {
    run_record *r = self;
    r->plan = *plan;
    snprintf(r->folder, sizeof r->folder, "%s", cadre_run_folder_of(run));
    return CADRE_OK;
}
static cadre_status on_resumed(void *self, const cadre_run *run, int64_t step) {
    (void)run;
    ((run_record *)self)->resumed = step;
    return CADRE_OK;
}
static cadre_status on_step(void *self, const cadre_step_report *report) {
    run_record *r = self;
    r->step[r->steps++] = *report;
    if (r->stop_at && report->step == r->stop_at) r->signal = SIGTERM;
    CADRE_CHECK(!r->bad || report->step < 3, CADRE_ERESOURCE, "the disk is full");
    return CADRE_OK;
}
static cadre_status on_eval(void *self, const cadre_eval_report *report) {
    run_record *r = self;
    r->eval[r->evals++] = *report;
    return CADRE_OK;
}
static cadre_status on_saved(void *self, const char *path, int64_t step) {
    (void)path;
    (void)step;
    ((run_record *)self)->saves++;
    return CADRE_OK;
}
static cadre_status on_end(void *self, const cadre_end_report *report) {
    (void)report;
    ((run_record *)self)->ends++;
    return CADRE_OK;
}

static cadre_status whole_run(test_rank *me) {
    const scenario *s = me->arg;
    run_record *r = me->record;
    const char *common[] = {
        "model.layers",     "1",     "model.heads", "2",    "model.width",      "16",
        "model.context",    "16",    "train.batch", "12",   "train.steps",      "8",
        "run.pin",          "false", "run.threads", "1",    "train.eval_every", "4",
        "checkpoint.every", "4",     "optim.lr",    "1e-2",
    };
    cadre_settings *set = NULL;
    r->resumed = -1;
    r->stop_at = s->stop_at;
    r->bad = s->bad_observer;
    const cadre_observer observer = {.self = r,
                                     .start = on_start,
                                     .resumed = on_resumed,
                                     .step = on_step,
                                     .eval = on_eval,
                                     .saved = on_saved,
                                     .end = on_end};
    const cadre_run_opts opts = {
        .stop_signal = &r->signal, .observers = &observer, .observer_count = 1};
    cadre_status st = cadre_settings_open(&set, NULL);
    for (int i = 0; !st && i < CADRE_COUNT(common); i += 2)
        st = cadre_settings_set(set, common[i], common[i + 1]);
    for (int i = 0; !st && s->pairs[i]; i += 2)
        st = cadre_settings_set(set, s->pairs[i], s->pairs[i + 1]);
    if (!st)
        st = cadre_settings_set(set, "data.train",
                                s->bad_rank == me->rank ? "/no/such/file" : text_file);
    if (!st) st = cadre_settings_set(set, "run.dir", s->dir);
    if (s->fault && me->rank == 0) cadre_fault_at(s->fault - 1);
    if (!st) st = cadre_run_train(me->comm, set, &opts, &r->end);
    cadre_settings_close(&set);
    return st;
}

/* One folder for all of them: emptied each time. */
static const char *temp_folder_again(void) {
    static const char *folder;
    if (!folder) folder = temp_folder();
    (void)cadre_remove_tree(folder);
    OK(cadre_mkdirs(folder));
    return folder;
}

static run_record *records; /* of the last run */

static run_record *run(const scenario *s, int size, test_result *ret_results) {
    test_result results[8];
    free(records);
    records = calloc((size_t)size, sizeof *records);
    on_threads(size, NULL, whole_run, s, records, sizeof *records, results);
    if (ret_results)
        memcpy(ret_results, results, (size_t)size * sizeof *results);
    else
        all_ok(results, size);
    return records;
}

static void read_weights(const char *folder, int step, cadre_map *ret_map) {
    char path[CADRE_PATH];
    snprintf(path, sizeof path, "%.4000s/checkpoints/step-%08d/model.safetensors", folder, step);
    OK(cadre_map_open(ret_map, path));
}

static void same_weights(const char *a, const char *b, int step) {
    cadre_map x, y;
    read_weights(a, step, &x);
    read_weights(b, step, &y);
    assert_int_equal(x.bytes, y.bytes);
    assert_memory_equal(x.data, y.data, x.bytes);
    cadre_map_close(&x);
    cadre_map_close(&y);
}

static void reports(void **state) {
    (void)state;
    const scenario s = {.dir = temp_folder(), .bad_rank = -1};
    const run_record *r = run(&s, 3, NULL);
    assert_int_equal(r->steps, 8);
    assert_int_equal(r->evals, 2);
    assert_int_equal(r->saves, 2);
    assert_int_equal(r->ends, 1);
    assert_int_equal(r->resumed, -1);
    assert_int_equal(r[1].steps, 0); /* rank 0 alone is told */
    for (int i = 0; i < 8; i++) {
        const cadre_step_report *at = &r->step[i];
        assert_int_equal(at->step, i + 1);
        assert_int_equal(at->steps, 8);
        assert_int_equal(at->samples, 12 * (i + 1));
        assert_int_equal(at->tokens, 12 * 16 * (i + 1));
        assert_true(at->loss > 0 && at->grad_norm > 0 && at->lr > 0 && at->step_ms > 0);
        assert_true(at->tokens_per_s > 0 && at->comm_ms >= 0 && at->exposed_ms <= at->step_ms);
        assert_true(fabs(at->epoch - at->samples / (double)r->plan.samples_per_epoch) < 1e-12);
    }
    assert_true(r->step[7].loss < r->step[0].loss);
    assert_true(fabs(r->step[0].loss - r->end.first_loss) == 0);
    assert_true(r->step[7].loss == r->end.last_loss);
    assert_int_equal(r->end.reason, CADRE_END_DONE);
    assert_int_equal(r[2].end.step, 8);
    assert_true(r->eval[1].best && r->eval[1].valid_loss == r->end.best_valid);
    assert_true(fabs(r->eval[1].bits_per_byte - r->eval[1].valid_loss / M_LN2) < 1e-12);
    assert_int_equal(r->plan.ranks, 3);
    assert_int_equal(r->plan.train_tokens, CHARACTERS * 9 / 10);
    assert_int_equal(r->plan.valid_tokens, CHARACTERS / 10);
    assert_int_equal(r->plan.samples_per_epoch, (CHARACTERS * 9 / 10 - 16) / 16);
    assert_true(r->end.peak_measured_bytes > 0 && r->end.peak_predicted_bytes > 0);
}

static void any_ranks_start_alike(void **state) {
    (void)state;
    double loss = 0, norm = 0, valid = 0;
    for (int size = 1; size <= 4; size++) {
        const scenario s = {.dir = temp_folder(), .bad_rank = -1};
        const run_record *r = run(&s, size, NULL);
        if (size == 1) {
            loss = r->step[0].loss;
            norm = r->step[0].grad_norm;
            valid = r->eval[0].valid_loss;
        }
        assert_true(fabs(r->step[0].loss - loss) <= 5e-6 * loss);
        assert_true(fabs(r->step[0].grad_norm - norm) <= 5e-6 * norm);
        assert_true(fabs(r->eval[0].valid_loss - valid) <= 1e-4 * valid);
    }
}

/* Four steps, then the rest, with the schedule of eight. */
static void resumes(void **state) {
    (void)state;
    const char *dir = temp_folder();
    const scenario whole = {.dir = dir, .bad_rank = -1, .pairs = {"run.name", "whole", NULL}};
    run(&whole, 2, NULL);
    double losses[8];
    for (int i = 0; i < 8; i++) losses[i] = records->step[i].loss;
    char folder[CADRE_PATH], parts[CADRE_PATH];
    snprintf(folder, sizeof folder, "%s/whole", dir);
    snprintf(parts, sizeof parts, "%s/parts", dir);
    const scenario first = {.dir = dir,
                            .bad_rank = -1,
                            .pairs = {"run.name", "parts", "train.steps", "4", "optim.decay_steps",
                                      "8", "optim.warmup_steps", "0", NULL}};
    const scenario rest = {
        .dir = dir,
        .bad_rank = -1,
        .pairs = {"run.name", "parts", "optim.decay_steps", "8", "optim.warmup_steps", "0", NULL}};
    run(&first, 2, NULL);
    run(&rest, 2, NULL);
    assert_int_equal(records->resumed, 4);
    assert_int_equal(records->steps, 4);
    for (int i = 0; i < 4; i++) assert_true(records->step[i].loss == losses[4 + i]);
    same_weights(folder, parts, 8);
    /* Finished: nothing is done, nothing told. */
    run(&rest, 2, NULL);
    assert_int_equal(records->end.reason, CADRE_END_FINISHED_BEFORE);
    assert_int_equal(records->steps + records->ends, 0);
    /* One rank and three go on from what two have left. */
    const scenario one = {.dir = dir,
                          .bad_rank = -1,
                          .pairs = {"run.name", "parts", "train.steps", "10", "optim.decay_steps",
                                    "8", "optim.warmup_steps", "0", NULL}};
    run(&one, 1, NULL);
    assert_int_equal(records->resumed, 8);
    const scenario three = {.dir = dir,
                            .bad_rank = -1,
                            .pairs = {"run.name", "parts", "train.steps", "12", "optim.decay_steps",
                                      "8", "optim.warmup_steps", "0", NULL}};
    run(&three, 3, NULL);
    assert_int_equal(records->resumed, 10);
    assert_int_equal(records->step[1].step, 12);
}

static void stops_by_agreement(void **state) {
    (void)state;
    const scenario s = {.dir = temp_folder(), .bad_rank = -1, .stop_at = 2};
    const run_record *r = run(&s, 3, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r[i].end.reason, CADRE_END_SIGTERM);
        assert_int_equal(r[i].end.step, 3); /* the step after the signal was seen */
    }
    assert_int_equal(r->evals, 0);
    assert_int_equal(r->saves, 1);
    assert_true(cadre_path_is_folder(r->end.checkpoint));
}

static void epochs_end_short(void **state) {
    (void)state;
    /* 167 samples an epoch: 13 whole batches and one of 11. */
    const scenario s = {.dir = temp_folder(),
                        .bad_rank = -1,
                        .pairs = {"train.steps", "", "train.epochs", "1", NULL}};
    const run_record *r = run(&s, 3, NULL);
    assert_int_equal(r->plan.samples_per_epoch, 167);
    assert_int_equal(r->steps, 14);
    assert_int_equal(r->step[13].samples, 167);
    assert_true(r->step[13].epoch == 1);
}

static void one_rank_fails(void **state) {
    (void)state;
    test_result results[3];
    const scenario missing = {.dir = temp_folder(), .bad_rank = 1};
    run(&missing, 3, results);
    assert_int_equal(results[1].status, CADRE_EDATA);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(results[i].status, CADRE_EPEER);
        assert_non_null(strstr(results[i].text, "/no/such/file"));
    }
    const scenario full = {.dir = temp_folder(), .bad_rank = -1, .bad_observer = true};
    run(&full, 3, results);
    assert_int_equal(results[0].status, CADRE_ERESOURCE);
    assert_int_equal(results[2].status, CADRE_EPEER);
    assert_int_equal(records->ends, 1); /* the sinks are told */
}

static void folders(void **state) {
    (void)state;
    const char *dir = temp_folder();
    const scenario s = {
        .dir = dir, .bad_rank = -1, .pairs = {"run.name", "a", "train.steps", "4", NULL}};
    run(&s, 1, NULL);
    static const struct {
        const char *pairs[8];
        const char *folder, *said;
        bool resume, finished;
    } rows[] = {
        {{"run.name", "new", NULL}, "new", "", false, false},
        {{"run.name", "a", "train.steps", "4", NULL}, "a", "finished", true, true},
        {{"run.name", "a", "train.steps", "9", NULL}, "a", "step 4", true, false},
        {{"run.name", "a", "checkpoint.resume", "never", NULL}, "a-2", "a-2", false, false},
        {{"run.name", "empty", NULL}, "empty-2", "no complete checkpoint", false, false},
    };
    char empty[CADRE_PATH];
    OK(cadre_mkdirs(cadre_join(empty, sizeof empty, dir, "empty")));
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        const char *common[] = {"model.layers", "1",    "model.heads",   "2",
                                "model.width",  "16",   "model.context", "16",
                                "optim.lr",     "1e-2", "data.train",    text_file,
                                "run.dir",      dir};
        cadre_settings *set = NULL;
        cadre_run_place place;
        char want[CADRE_PATH];
        OK(cadre_settings_open(&set, NULL));
        for (int k = 0; k < CADRE_COUNT(common); k += 2)
            OK(cadre_settings_set(set, common[k], common[k + 1]));
        for (int k = 0; rows[i].pairs[k]; k += 2)
            OK(cadre_settings_set(set, rows[i].pairs[k], rows[i].pairs[k + 1]));
        OK(cadre_settings_resolve(set, NULL));
        OK(cadre_run_folder(set, &place));
        assert_string_equal(place.folder, cadre_join(want, sizeof want, dir, rows[i].folder));
        assert_non_null(strstr(place.said, rows[i].said));
        assert_int_equal(place.resume, rows[i].resume);
        assert_int_equal(place.finished, rows[i].finished);
        cadre_settings_close(&set);
    }
}

/* The k-th allocation, message or write fails, on whichever rank comes to it: the run ends with an
 * error or has not noticed, no rank hangs, nothing stays allocated, nothing half-written counts. */
static void any_thing_fails(void **state) {
    (void)state;
    int64_t before = cadre_live_bytes();
    int failures = 0;
    for (int64_t k = 0;; k += 1 + k / 12) {
        const scenario s = {
            .dir = temp_folder_again(),
            .bad_rank = -1,
            .fault = k + 1,
            .pairs = {"train.steps", "2", "train.eval_every", "1", "checkpoint.every", "1", NULL}};
        test_result results[2];
        char found[CADRE_PATH];
        run(&s, 2, results);
        bool hit = cadre_fault_hit();
        cadre_fault_at(-1);
        assert_int_equal(cadre_live_bytes(), before);
        if (results[0].status || results[1].status) failures++;
        if (!hit && !results[0].status) break;
        char folder[CADRE_PATH];
        cadre_join(folder, sizeof folder, s.dir, "text");
        if (cadre_checkpoint_find(folder, found, NULL) == CADRE_OK) {
            cadre_checkpoint *c = NULL;
            OK(cadre_checkpoint_open(&c, found, true));
            cadre_checkpoint_close(&c);
        }
    }
    assert_true(failures > 5);
}

static int drop_records(void **state) {
    (void)state;
    free(records);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports),          cmocka_unit_test(any_ranks_start_alike),
        cmocka_unit_test(resumes),          cmocka_unit_test(stops_by_agreement),
        cmocka_unit_test(epochs_end_short), cmocka_unit_test(one_rank_fails),
        cmocka_unit_test(folders),          cmocka_unit_test(any_thing_fails),
    };
    return cmocka_run_group_tests(tests, make_text, drop_records);
}
