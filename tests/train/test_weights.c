/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits of models that transformers wrote (tests/golden/hf_gpt2.py) against PyTorch's in float64,
 * to 1e-5 of the largest; and the first step of runs that start from them. With FOLDER TOKENS OUT
 * the same program writes the logits of windows of context tokens, f32 raw, for
 * bench/peers/transformers_check.py; TOKENS is uint16 raw.
 */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "checkpoint/weights.h"
#include "nn/model.h"
#include "support/golden.h"
#include "support/ranks.h"
#include "tape/plain_store.h"
#include "train/run.h"

/* A model that can be run forwards, and its logits of the last pass. */
typedef struct rig {
    cadre_settings *set;
    cadre_model *model;
    cadre_plain_store *store;
    cadre_pool *pool;
    cadre_queue *queue;
    cadre_tape *tape;
    int32_t *tokens;
    const cadre_tensor *logits;
} rig;

static cadre_status open_model(rig *r, const char *folder) {
    char path[CADRE_PATH];
    cadre_map map;
    const cadre_facts facts = {.world = 1, .local_size = 1};
    CADRE_TRY(cadre_map_open(&map, cadre_join(path, sizeof path, folder, "config.json")));
    cadre_status st = cadre_settings_open(&r->set, NULL);
    if (!st) st = cadre_model_config_read(r->set, (const char *)map.data, map.bytes, path);
    if (!st) st = cadre_settings_resolve(r->set, &facts);
    if (!st) st = cadre_model_open(&r->model, r->set);
    cadre_map_close(&map);
    return st;
}

static cadre_status read_weights(rig *r, const char *folder) {
    static const cadre_parameter *params[4096];
    static cadre_piece pieces[4096];
    cadre_weights *weights = NULL;
    int count = cadre_model_param_count(r->model);
    CADRE_CHECK(count <= CADRE_COUNT(params), CADRE_EUSAGE, "%d parameters", count);
    for (int i = 0; i < count; i++) params[i] = cadre_model_param(r->model, i);
    CADRE_TRY(cadre_plain_store_open(&r->store, params, count, false));
    for (int i = 0; i < count; i++)
        pieces[i] = (cadre_piece){.name = params[i]->name,
                                  .dtype = CADRE_F32,
                                  .dims = params[i]->dims,
                                  .count = cadre_dims_count(&params[i]->dims),
                                  .data = cadre_plain_store_value(r->store, i),
                                  .weights = true};
    CADRE_TRY(cadre_weights_open(&weights, folder));
    cadre_status st = cadre_weights_read(weights, pieces, count);
    cadre_weights_close(&weights);
    return st;
}

/* Whole windows of `context` tokens; NULL for the model's. */
static cadre_status run(rig *r, const char *folder, const char *file) {
    cadre_map map;
    CADRE_TRY(open_model(r, folder));
    CADRE_TRY(read_weights(r, folder));
    CADRE_TRY(cadre_pool_open(&r->pool, 1, NULL, cadre_kernel_thread_start));
    CADRE_TRY(cadre_queue_open(&r->queue, "cpu", r->pool));
    CADRE_TRY(cadre_tape_open(&r->tape, r->queue, cadre_plain_store_view(r->store), CADRE_F32));
    CADRE_TRY(cadre_map_open(&map, file));
    int64_t context = cadre_model_context(r->model), rows = (int64_t)map.bytes / 2 / context;
    cadre_status st =
        cadre_alloc_array(&r->tokens, CADRE_MEM_OTHER, rows * context, sizeof *r->tokens);
    for (int64_t i = 0; !st && i < rows * context; i++)
        r->tokens[i] = ((const uint16_t *)map.data)[i];
    cadre_map_close(&map);
    CADRE_TRY(st);
    int64_t samples[64] = {0};
    cadre_pass pass;
    memset(&pass, 0, sizeof pass);
    pass.no_labels = true;
    pass.key.samples = samples;
    pass.key.sample_count = (int)rows;
    pass.inputs = 1;
    pass.input[0].name = "inputs";
    pass.input[0].tensor = (cadre_tensor){
        .dtype = CADRE_I32, .dims = cadre_dims2(rows, context), .data = r->tokens, .id = -1};
    CADRE_CHECK(rows <= CADRE_COUNT(samples), CADRE_EUSAGE, "at most 64 windows");
    CADRE_TRY(cadre_tape_begin(r->tape, &pass));
    r->logits = cadre_model_forward(r->model, r->tape);
    return cadre_tape_status(r->tape);
}

static void close_rig(rig *r) {
    cadre_free(&r->tokens);
    cadre_tape_close(&r->tape);
    cadre_queue_close(&r->queue);
    cadre_pool_close(&r->pool);
    cadre_plain_store_close(&r->store);
    cadre_model_close(&r->model);
    cadre_settings_close(&r->set);
}

static void logits_are_those_of_pytorch(void **state) {
    (void)state;
    static const char *const names[] = {"hf_gpt2", "hf_gpt2_sharded", "hf_gpt2_untied"};
    golden_file *golden = golden_open("hf_gpt2.safetensors");
    for (int i = 0; i < CADRE_COUNT(names); i++) {
        rig r = {0};
        char folder[CADRE_PATH];
        int64_t n;
        double most = 0, gap = 0;
        const double *want = golden_f64(golden, &n, "%s", names[i]);
        snprintf(folder, sizeof folder, CADRE_SOURCE_DIR "/tests/golden/%s", names[i]);
        OK(run(&r, folder, CADRE_SOURCE_DIR "/tests/golden/hf_gpt2.bin"));
        assert_int_equal(cadre_count(r.logits), n);
        for (int64_t k = 0; k < n; k++) {
            most = fmax(most, fabs(want[k]));
            gap = fmax(gap, fabs(want[k] - ((const float *)r.logits->data)[k]));
        }
        if (!(gap <= 1e-5 * most))
            fail_msg("%s: a logit is off by %.3g of %.3g", names[i], gap, most);
        close_rig(&r);
    }
    golden_close(&golden);
    assert_int_equal(cadre_live_bytes(), 0);
}

/* ---- runs ---- */

typedef struct started {
    const char *data, *compute, *dir;
} started;

static cadre_status on_step(void *self, const cadre_step_report *report) {
    if (report->step == 1) *(double *)self = report->loss;
    return CADRE_OK;
}

static cadre_status start(test_rank *me) {
    const started *s = me->arg;
    const char *const pairs[][2] = {{"data.train", s->data},
                                    {"model.from", CADRE_SOURCE_DIR "/tests/golden/hf_gpt2"},
                                    {"data.valid_fraction", "0"},
                                    {"model.dropout", "0"},
                                    {"precision.compute", s->compute},
                                    {"train.batch", "2"},
                                    {"train.steps", "1"},
                                    {"run.threads", "1"},
                                    {"run.pin", "false"},
                                    {"run.dir", s->dir}};
    cadre_end_report end;
    cadre_settings *set = NULL;
    const cadre_observer observer = {.self = me->record, .step = on_step};
    const cadre_run_opts opts = {.observers = &observer, .observer_count = 1};
    cadre_status st = cadre_settings_open(&set, NULL);
    for (int i = 0; !st && i < CADRE_COUNT(pairs); i++)
        st = cadre_settings_set(set, pairs[i][0], pairs[i][1]);
    if (!st) st = cadre_run_train(me->comm, set, &opts, &end);
    cadre_settings_close(&set);
    return st;
}

static double first_loss(const char *compute, int size) {
    const started s = {CADRE_SOURCE_DIR "/tests/golden/hf_gpt2.bin", compute, temp_folder()};
    double losses[2] = {0};
    test_result results[2];
    on_threads(size, NULL, start, &s, losses, sizeof *losses, results);
    all_ok(results, size);
    return losses[0];
}

/* The given weights reach what bf16 computes with, not its f32 copy alone: the loss of weights of
 * zero would be ln 13. */
static void a_run_in_bf16_starts_from_them_too(void **state) {
    (void)state;
    for (int size = 1; size <= 2; size++) {
        double f32 = first_loss("f32", size), bf16 = first_loss("bf16", size);
        assert_true(fabs(f32 - log(13)) > 0.05);
        if (!(fabs(f32 - bf16) < 0.01)) fail_msg("%d ranks: %g, in bf16 %g", size, f32, bf16);
    }
}

/* The folder has no tokenizer: a text of as many characters is taken at its word, one of fewer,
 * whose numbers would all be in range, is not. */
static void characters_of_another_text_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"abcdefghijklm abcdefghijkl", "the data have 14 characters, the weights of model.from"},
        {"abcdefghijkl abcdefghijkl", NULL},
        {"abcdefghijk abcdefghijk", "12 characters, the weights of model.from a vocabulary of 13"},
    };
    const char *folder = temp_folder();
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        char *text = temp_file(folder, "text.txt", rows[i].text, strlen(rows[i].text));
        const started s = {text, "f32", temp_folder()};
        double loss = 0;
        test_result result;
        on_threads(1, NULL, start, &s, &loss, sizeof loss, &result);
        free(text);
        assert_int_equal(result.status, rows[i].part ? CADRE_EUSAGE : CADRE_OK);
        if (rows[i].part) assert_non_null(strstr(result.text, rows[i].part));
    }
}

static int dump(char **words) {
    rig r = {0};
    cadre_status st = run(&r, words[0], words[1]);
    if (!st)
        st = cadre_file_replace(words[2], r.logits->data,
                                (size_t)cadre_count(r.logits) * sizeof(float));
    if (st) fprintf(stderr, "%s\n", cadre_error_text());
    close_rig(&r);
    return cadre_exit_code(st);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_pytorch),
        cmocka_unit_test(a_run_in_bf16_starts_from_them_too),
        cmocka_unit_test(characters_of_another_text_are_refused),
    };
    if (argc == 4) return dump(argv + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
