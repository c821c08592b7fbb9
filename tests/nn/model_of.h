/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of nn share: settings of model.* beside the few rows of other rooms that a model
 * reads, and a model with its numbers, ready to run on one backend.
 */
#ifndef CADRE_TESTS_NN_MODEL_OF_H
#define CADRE_TESTS_NN_MODEL_OF_H

#include <string.h>

#include "nn/model.h"
#include "support/check.h"
#include "tape/plain_store.h"

typedef struct few_rows {
    int64_t seed;
    int compute;
} few_rows;

static const cadre_setting few[] = {
    {.name = "train.seed",
     .type = CADRE_SET_INT,
     .fallback = "1",
     .offset = offsetof(few_rows, seed),
     .help = "seed"},
    {.name = "precision.compute",
     .type = CADRE_SET_CHOICE,
     .fallback = "f32",
     .choices = "f32|bf16|auto|f64",
     .offset = offsetof(few_rows, compute),
     .help = "numbers"},
};
static const cadre_setting_table few_settings = {"train", few, 2};

/* "model.layers", "2", ..., NULL */
static cadre_settings *settings_of(const char *const *pairs) {
    static const cadre_setting_table *const tables[] = {&cadre_model_settings, &few_settings};
    cadre_settings *set = NULL;
    OK(cadre_settings_make(&set, tables, 2));
    for (int i = 0; pairs && pairs[i]; i += 2) OK(cadre_settings_set(set, pairs[i], pairs[i + 1]));
    return set;
}
#define SETTINGS(...) settings_of((const char *const[]){__VA_ARGS__, NULL})

/* A model, its numbers drawn, a queue and a tape. */
typedef struct rig {
    cadre_model *model;
    cadre_plain_store *store;
    cadre_queue *queue;
    cadre_tape *tape;
} rig;

static inline void rig_open(rig *r, cadre_model *model, const char *backend) {
    const cadre_parameter *params[512];
    int count = cadre_model_param_count(model);
    r->model = model;
    for (int i = 0; i < count; i++) params[i] = cadre_model_param(model, i);
    OK(cadre_plain_store_open(&r->store, params, count, true));
    for (int i = 0; i < count; i++)
        cadre_model_draw(model, params[i], 0, cadre_dims_count(&params[i]->dims), params[i]->dtype,
                         cadre_plain_store_value(r->store, i));
    OK(cadre_queue_open(&r->queue, backend, NULL));
    OK(cadre_tape_open(&r->tape, r->queue, cadre_plain_store_view(r->store),
                       cadre_model_dtype(model)));
}

/* Closes the model too. */
static inline void rig_close(rig *r) {
    cadre_tape_close(&r->tape);
    cadre_queue_close(&r->queue);
    cadre_plain_store_close(&r->store);
    cadre_model_close(&r->model);
}

/* A pass over tokens and labels (rows, length). */
static inline cadre_pass pass_of(const void *inputs, const void *labels, int64_t rows,
                                 int64_t length, bool training) {
    static const int64_t samples[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                        12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
    cadre_pass pass;
    memset(&pass, 0, sizeof pass);
    pass.training = training;
    pass.no_labels = !labels;
    pass.key = (cadre_draw_key){.seed = 1, .samples = samples, .sample_count = rows};
    pass.inputs = labels ? 2 : 1;
    const void *data[2] = {inputs, labels};
    for (int i = 0; i < pass.inputs; i++) {
        pass.input[i].name = i ? "labels" : "inputs";
        pass.input[i].tensor = (cadre_tensor){.dtype = CADRE_I32,
                                              .dims = cadre_dims2(rows, length),
                                              .data = (void *)data[i],
                                              .id = -1};
    }
    return pass;
}

/* One training pass: the loss's sum and count; gradients go to the store. */
static inline void rig_step(rig *r, const cadre_pass *pass, double ret_loss[2]) {
    cadre_plain_store_zero(r->store);
    OK(cadre_tape_begin(r->tape, pass));
    cadre_tensor *loss = cadre_model_forward(r->model, r->tape);
    OK(cadre_tape_status(r->tape));
    OK(cadre_tape_backward(r->tape, loss, NULL));
    memcpy(ret_loss, cadre_tensor_data(loss), 2 * sizeof(double));
}

#endif
