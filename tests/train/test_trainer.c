/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer on ranks as threads: ten AdamW steps against PyTorch's values, whatever the ranks'
 * shares; saving and resuming; batches that cannot be.
 */
#include <cadre/train.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "nn/model.h"
#include "support/golden.h"
#include "support/ranks.h"

enum { STEPS = 10, SAMPLES = 3, CONTEXT = 8, PARAMS = 64 };

/* A trainer over the golden model. */
typedef struct rig {
    cadre_settings *set;
    cadre_model *model;
    cadre_trainer *trainer;
} rig;

typedef struct golden_case {
    bool f64, clip;
    const char *save_to, *resume_from; /* NULL: no */
    int first, last;                   /* steps [first, last) */
    golden_file *file;
} golden_case;

static cadre_status rig_open(rig *r, cadre_comm *world, const golden_case *g) {
    const char *pairs[][2] = {
        {"model.layers", "2"},
        {"model.heads", "2"},
        {"model.width", "16"},
        {"model.context", "8"},
        {"model.vocab", "11"},
        {"optim.lr", "0.01"},
        {"optim.beta2", "0.95"},
        {"optim.schedule", "constant"},
        {"optim.warmup_steps", "0"},
        {"run.threads", "1"},
        {"optim.clip", g->clip ? "1" : "0"},
        {"run.device", g->f64 ? "ref" : "cpu"},
        {"precision.compute", g->f64 ? "f64" : "f32"},
    };
    cadre_status st = cadre_settings_open(&r->set, NULL);
    for (int i = 0; !st && i < CADRE_COUNT(pairs); i++)
        st = cadre_settings_set(r->set, pairs[i][0], pairs[i][1]);
    if (!st) st = cadre_model_open(&r->model, r->set);
    if (!st) st = cadre_trainer_open(&r->trainer, world, r->model, r->set);
    return st;
}

static void rig_close(rig *r) {
    cadre_trainer_close(&r->trainer);
    cadre_model_close(&r->model);
    cadre_settings_close(&r->set);
}

static void put_start(rig *r, const golden_case *g) {
    for (int i = 0; i < cadre_model_param_count(r->model); i++) {
        const char *name = cadre_model_param(r->model, i)->name;
        int64_t count = 0;
        cadre_dtype dtype;
        const double *from = golden_f64(g->file, NULL, "init/%s", name);
        void *to = (void *)cadre_trainer_values(r->trainer, name, &count, &dtype);
        for (int64_t k = 0; k < count; k++)
            if (dtype == CADRE_F64)
                ((double *)to)[k] = from[k];
            else
                ((float *)to)[k] = (float)from[k];
    }
}

typedef struct trainer_record {
    double loss[STEPS], norm[STEPS];
    double gap[PARAMS]; /* ||a - b|| / ||b|| of each parameter after the last step */
    int64_t samples, step;
    uint64_t sum; /* over all bits */
} trainer_record;

/* Entries [skip, skip_end) are left out. */
static double gap_of(const void *values, cadre_dtype dtype, const double *want, int64_t n,
                     int64_t skip, int64_t skip_end) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i >= skip && i < skip_end) continue;
        double x = dtype == CADRE_F64 ? ((const double *)values)[i] : ((const float *)values)[i];
        difference += (x - want[i]) * (x - want[i]);
        norm += want[i] * want[i];
    }
    return sqrt(difference / norm);
}

/* This rank's share of the three samples; ranks past them have none. */
static cadre_batch share(const golden_case *g, int step, int rank, int size) {
    const int32_t *inputs = golden_tensor(g->file, "I32", NULL, "inputs");
    const int32_t *labels = golden_tensor(g->file, "I32", NULL, "labels");
    int64_t first = SAMPLES * rank / size, end = SAMPLES * (rank + 1) / size;
    cadre_batch b = CADRE_BATCH;
    b.samples = end - first;
    b.inputs = inputs + (step * SAMPLES + first) * CONTEXT;
    b.labels = labels + (step * SAMPLES + first) * CONTEXT;
    b.inputs_dtype = b.labels_dtype = CADRE_I32;
    b.inputs_dims = b.labels_dims = cadre_dims2(b.samples, CONTEXT);
    return b;
}

static void compare(rig *r, const golden_case *g, trainer_record *record) {
    for (int i = 0; i < cadre_model_param_count(r->model); i++) {
        const char *name = cadre_model_param(r->model, i)->name;
        int64_t count = 0;
        cadre_dtype dtype;
        const void *values = cadre_trainer_values(r->trainer, name, &count, &dtype);
        const double *want =
            golden_f64(g->file, NULL, "%s/after/%s", g->clip ? "clip" : "plain", name);
        /* The key part of the attention bias has the exact gradient zero: AdamW turns f32 noise
         * there into whole steps. It is compared in f64 alone. */
        bool noise = dtype == CADRE_F32 && strstr(name, "c_attn.bias");
        record->gap[i] =
            gap_of(values, dtype, want, count, noise ? count / 3 : 0, noise ? 2 * count / 3 : 0);
        const unsigned char *bytes = values;
        for (size_t k = 0; k < (size_t)count * cadre_dtype_size(dtype); k++)
            record->sum = record->sum * 1099511628211u + bytes[k];
    }
}

static cadre_status ten_steps(test_rank *me) {
    const golden_case *g = me->arg;
    trainer_record *record = me->record;
    rig r = {0};
    cadre_status st = rig_open(&r, me->comm, g);
    if (!st && g->resume_from) st = cadre_trainer_resume(r.trainer, g->resume_from);
    if (!st && !g->resume_from) put_start(&r, g);
    for (int i = g->first; !st && i < g->last; i++) {
        cadre_batch b = share(g, i, me->rank, me->size);
        cadre_report report = CADRE_REPORT;
        st = cadre_trainer_step(r.trainer, &b, &report);
        record->loss[i] = report.loss;
        record->norm[i] = report.grad_norm;
        record->samples = report.samples;
        record->step = report.step;
    }
    if (!st && g->save_to) st = cadre_trainer_save(r.trainer, g->save_to);
    if (!st) compare(&r, g, record);
    rig_close(&r);
    return st;
}

static void run(const golden_case *g, int size, trainer_record *records) {
    test_result results[8];
    memset(records, 0, (size_t)size * sizeof *records);
    on_threads(size, NULL, ten_steps, g, records, sizeof *records, results);
    all_ok(results, size);
}

static void ten_steps_of_pytorch(void **state) {
    (void)state;
    golden_file *file = golden_open("gpt2_golden.safetensors");
    trainer_record records[4];
    for (int i = 0; i < 4; i++) {
        const golden_case g = {
            .f64 = i & 1, .clip = i >> 1, .first = 0, .last = STEPS, .file = file};
        const char *name = g.clip ? "clip" : "plain";
        const double *loss = golden_f64(file, NULL, "%s/loss", name);
        const double *norm = golden_f64(file, NULL, "%s/norm", name);
        double limit = g.f64 ? 1e-9 : 1e-5;
        for (int size = 1; size <= 4; size++) {
            run(&g, size, records);
            for (int s = 0; s < STEPS; s++) {
                if (fabs(records[0].loss[s] - loss[s]) > limit * loss[s] ||
                    fabs(records[0].norm[s] - norm[s]) > 10 * limit * norm[s])
                    fail_msg(
                        "%s f%d, %d ranks, step %d: loss %.12g not %.12g, norm %.12g not %.12g",
                        name, g.f64 ? 64 : 32, size, s + 1, records[0].loss[s], loss[s],
                        records[0].norm[s], norm[s]);
            }
            assert_int_equal(records[0].samples, SAMPLES * STEPS);
            for (int p = 0; p < PARAMS; p++) {
                if (records[0].gap[p] > limit)
                    fail_msg("%s f%d, %d ranks: parameter %d is %.2e off", name, g.f64 ? 64 : 32,
                             size, p, records[0].gap[p]);
            }
            for (int r = 1; r < size; r++) assert_true(records[r].sum == records[0].sum);
        }
    }
    golden_close(&file);
}

static void resumes_with_the_same_bits(void **state) {
    (void)state;
    golden_file *file = golden_open("gpt2_golden.safetensors");
    char folder[CADRE_PATH];
    trainer_record whole[3], part[3];
    snprintf(folder, sizeof folder, "%s", temp_folder());
    const golden_case all = {.first = 0, .last = STEPS, .clip = true, .file = file};
    const golden_case begin = {
        .first = 0, .last = 4, .clip = true, .file = file, .save_to = folder};
    const golden_case rest = {
        .first = 4, .last = STEPS, .clip = true, .file = file, .resume_from = folder};
    run(&all, 2, whole);
    run(&begin, 2, part);
    run(&rest, 2, part);
    assert_true(part[0].sum == whole[0].sum);
    assert_true(part[0].loss[4] == whole[0].loss[4]);
    assert_int_equal(part[0].step, STEPS);
    assert_int_equal(part[0].samples, SAMPLES * STEPS);
    run(&rest, 3, part); /* three ranks go on from two */
    for (int s = 4; s < STEPS; s++)
        assert_true(fabs(part[0].loss[s] - whole[0].loss[s]) <= 1e-5 * whole[0].loss[s]);
    golden_close(&file);
}

/* ---- wrong batches ---- */

enum { TOO_LARGE, TOO_SMALL, NEGATIVE_LABEL, OTHER_ROWS, NO_SIZE, NO_INPUTS };

static cadre_status wrong_on_the_last(test_rank *me) {
    static const int32_t good[CONTEXT] = {1, 2, 3, 4, 5, 6, 7, 8};
    int what = *(const int *)me->arg;
    int32_t inputs[CONTEXT], labels[CONTEXT];
    const golden_case g = {0};
    rig r = {0};
    cadre_status st = rig_open(&r, me->comm, &g);
    memcpy(inputs, good, sizeof inputs);
    memcpy(labels, good, sizeof labels);
    cadre_batch b = CADRE_BATCH;
    b.samples = 1;
    b.inputs = inputs;
    b.labels = labels;
    b.inputs_dtype = b.labels_dtype = CADRE_I32;
    b.inputs_dims = b.labels_dims = cadre_dims2(1, CONTEXT);
    if (me->rank == me->size - 1) {
        if (what == TOO_LARGE) inputs[3] = 11;
        if (what == TOO_SMALL) inputs[3] = -1;
        if (what == NEGATIVE_LABEL) labels[5] = -2;
        if (what == OTHER_ROWS) b.labels_dims = cadre_dims2(2, CONTEXT);
        if (what == NO_SIZE) b.size = 0;
        if (what == NO_INPUTS) b.inputs = NULL;
    }
    if (!st) st = cadre_trainer_step(r.trainer, &b, NULL);
    rig_close(&r);
    return st;
}

static void wrong_batches(void **state) {
    (void)state;
    static const struct {
        cadre_status status;
        const char *part;
    } rows[] = {
        [TOO_LARGE] = {CADRE_EDATA, "place 3 is 11"},
        [TOO_SMALL] = {CADRE_EDATA, "place 3 is -1"},
        [NEGATIVE_LABEL] = {CADRE_EDATA, "place 5 is -2"},
        [OTHER_ROWS] = {CADRE_EUSAGE, "labels"},
        [NO_SIZE] = {CADRE_EUSAGE, "CADRE_BATCH"},
        [NO_INPUTS] = {CADRE_EUSAGE, "no inputs"},
    };
    for (int what = 0; what < CADRE_COUNT(rows); what++) {
        test_result results[2];
        on_threads(2, NULL, wrong_on_the_last, &what, NULL, 0, results);
        assert_int_equal(results[1].status, rows[what].status);
        assert_non_null(strstr(results[1].text, rows[what].part));
        assert_int_equal(results[0].status, CADRE_EPEER); /* and no hang */
        assert_non_null(strstr(results[0].text, rows[what].part));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_steps_of_pytorch),
        cmocka_unit_test(resumes_with_the_same_bits),
        cmocka_unit_test(wrong_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
