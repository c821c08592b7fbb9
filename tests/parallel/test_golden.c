/* SPDX-License-Identifier: Apache-2.0
 *
 * Ten AdamW steps of a small gpt2 against PyTorch's, with and without clipping, on 1, 2 and 3
 * ranks: 1e-9 in f64, 1e-5 in f32 (there without the key part of the attention bias, whose exact
 * gradient is zero).
 */
#include "parallel/trainer.h"
#include "support/golden.h"

enum { GOLDEN_STEPS = 10, BATCH = 3 };

typedef struct golden_job {
    const golden_file *file;
    bool wide, clip;
} golden_job;

typedef struct golden_record {
    double loss[GOLDEN_STEPS], norm[GOLDEN_STEPS], end[ROOM];
} golden_record;

typedef struct golden_feed {
    const int32_t *inputs, *labels; /* this rank's rows of the step */
    int64_t rows;
} golden_feed;

static cadre_status golden_next(void *self, int64_t micro, cadre_pass *ret_pass) {
    static const int64_t ids[BATCH]; /* no dropout: which samples they are plays no part */
    const golden_feed *f = self;
    cadre_dims dims = cadre_dims2(f->rows, LENGTH);
    (void)micro;
    *ret_pass = (cadre_pass){.inputs = 2, .key = {.samples = ids, .sample_count = f->rows}};
    ret_pass->input[0] =
        (cadre_named_tensor){"inputs", {CADRE_I32, dims, (void *)(uintptr_t)f->inputs, -1}};
    ret_pass->input[1] =
        (cadre_named_tensor){"labels", {CADRE_I32, dims, (void *)(uintptr_t)f->labels, -1}};
    return CADRE_OK;
}

static void put_start(cadre_parallel *p, const golden_file *file) {
    const cadre_span *span = cadre_parallel_span(p);
    for (int id = 0; id < span->params; id++) {
        const double *from = golden_f64(file, NULL, "init/%s", span->param[id].name);
        void *to = cadre_parallel_value(p, id);
        for (int64_t i = 0; i < span->param[id].count; i++)
            if (span->dtype == CADRE_F64)
                ((double *)to)[i] = from[i];
            else
                ((float *)to)[i] = (float)from[i];
    }
}

static cadre_status take_steps(test_rank *me, cadre_parallel *p, const golden_job *j) {
    golden_record *to = me->record;
    int64_t begin = (int64_t)me->rank * BATCH / me->size;
    int64_t end = (int64_t)(me->rank + 1) * BATCH / me->size;
    const int32_t *inputs = golden_tensor(j->file, "I32", NULL, "inputs");
    const int32_t *labels = golden_tensor(j->file, "I32", NULL, "labels");
    put_start(p, j->file);
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        int64_t at = (step * BATCH + begin) * LENGTH;
        golden_feed mine = {inputs + at, labels + at, end - begin};
        const cadre_micro_source source = {&mine, golden_next};
        cadre_step_result r;
        CADRE_TRY(cadre_parallel_step(p, &source, 1, step + 1, NULL, &r));
        to->loss[step] = r.loss;
        to->norm[step] = r.grad_norm;
    }
    keep_values(p, to->end);
    return CADRE_OK;
}

static cadre_status golden_body(test_rank *me) {
    const golden_job *j = me->arg;
    const training t = {.kind = "gpt2", .wide = j->wide, .clip = j->clip ? 1 : 0};
    cadre_settings *set = NULL;
    cadre_model *model = NULL;
    cadre_queue *queue = NULL;
    cadre_parallel *p = NULL;
    cadre_parallel_cfg parallel = {0};
    cadre_optim_cfg optim;
    cadre_status st = trainer_settings(&t, &set);
    if (!st) st = cadre_model_open(&model, set);
    if (!st) st = cadre_queue_open(&queue, t.wide ? "ref" : "cpu", NULL);
    if (!st) st = cadre_settings_fill(set, &cadre_parallel_settings, &parallel);
    if (!st) st = cadre_settings_fill(set, &cadre_optim_settings, &optim);
    if (!st) st = cadre_parallel_open(&p, me->comm, model, queue, &parallel, &optim);
    if (!st) st = take_steps(me, p, j);
    cadre_parallel_close(&p);
    cadre_queue_close(&queue);
    cadre_model_close(&model);
    cadre_settings_close(&set);
    return st;
}

/* Each parameter's end by itself. Its place in the record is its place in the model. */
static void compare_ends(const golden_record *got, const golden_job *j, const char *variant) {
    const training t = {.kind = "gpt2", .wide = j->wide};
    cadre_settings *set = NULL;
    cadre_model *model = NULL;
    OK(trainer_settings(&t, &set));
    OK(cadre_model_open(&model, set));
    int64_t at = 0, n;
    for (int id = 0; id < cadre_model_param_count(model); id++, at += n) {
        const char *name = cadre_model_param(model, id)->name;
        const double *want = golden_f64(j->file, &n, "%s/after/%s", variant, name);
        double gap = relative_gap_f64(got->end + at, want, n);
        if (!j->wide && strstr(name, "c_attn.bias")) /* query and value parts */
            gap = fmax(relative_gap_f64(got->end + at, want, n / 3),
                       relative_gap_f64(got->end + at + n / 3 * 2, want + n / 3 * 2, n / 3));
        if (!(gap <= (j->wide ? 1e-9 : 1e-5))) print_error("%s: gap %g\n", name, gap);
        assert_true(gap <= (j->wide ? 1e-9 : 1e-5));
    }
    cadre_model_close(&model);
    cadre_settings_close(&set);
}

static void ten_steps_match_pytorch(void **unused) {
    (void)unused;
    golden_file *file = golden_open("gpt2_golden.safetensors");
    golden_record *records = calloc(BATCH, sizeof *records);
    for (int size = 1; size <= BATCH; size++)
        for (int k = 0; k < 4; k++) {
            golden_job j = {file, k & 1, k & 2};
            const char *variant = j.clip ? "clip" : "plain";
            test_result results[BATCH];
            on_threads(size, NULL, golden_body, &j, records, sizeof *records, results);
            all_ok(results, size);
            const double *loss = golden_f64(file, NULL, "%s/loss", variant);
            const double *norm = golden_f64(file, NULL, "%s/norm", variant);
            double tolerance = j.wide ? 1e-9 : 1e-5;
            assert_true(relative_gap_f64(records->loss, loss, GOLDEN_STEPS) <= tolerance);
            assert_true(relative_gap_f64(records->norm, norm, GOLDEN_STEPS) <= tolerance);
            compare_ends(records, &j, variant);
        }
    free(records);
    golden_close(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ten_steps_match_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
