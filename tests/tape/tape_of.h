/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the tape share: a handful of parameters in f64 on ref, and gradients checked
 * against central differences.
 */
#ifndef CADRE_TESTS_TAPE_OF_H
#define CADRE_TESTS_TAPE_OF_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "tape/plain_store.h"
#include "tape/tape.h"

enum { PARAMS = 8, ROWS = 2, LENGTH = 3, WIDTH = 4, VOCAB = 5 };

typedef struct bench {
    cadre_parameter param[PARAMS];
    int params;
    cadre_plain_store *store;
    cadre_queue *queue;
    cadre_tape *tape;
    cadre_pass pass;
    double x[ROWS * LENGTH * WIDTH];
    int32_t ids[ROWS * LENGTH], labels[ROWS * LENGTH];
    int64_t samples[ROWS];
} bench;

/* A formula: what is recorded on the tape out of the bench's parameters and inputs. */
typedef cadre_tensor *formula(bench *b);

static inline double some(int64_t i) {
    return sin(1.7 * (double)i + 0.3) * 0.6;
}

static inline const cadre_parameter *add(bench *b, const char *name, cadre_dims dims) {
    cadre_parameter *p = &b->param[b->params];
    *p = (cadre_parameter){.id = b->params++, .name = name, .dtype = CADRE_F64, .dims = dims};
    return p;
}

static inline cadre_named_tensor named(const char *name, cadre_dtype dtype, cadre_dims dims,
                                       void *data) {
    return (cadre_named_tensor){name, {.dtype = dtype, .dims = dims, .data = data, .id = -1}};
}

/* w (W, W), u (W, W), bias (W), scale (W), table (V, W), places (LENGTH, W), qkv (W, 3W) */
enum { W, U, BIAS, SCALE, TABLE, PLACES, QKV };

static inline void bench_open(bench *b, const char *backend, const cadre_param_store *store) {
    const cadre_parameter *all[PARAMS];
    memset(b, 0, sizeof *b);
    add(b, "w", cadre_dims2(WIDTH, WIDTH));
    add(b, "u", cadre_dims2(WIDTH, WIDTH));
    add(b, "bias", cadre_dims1(WIDTH));
    add(b, "scale", cadre_dims1(WIDTH));
    add(b, "table", cadre_dims2(VOCAB, WIDTH));
    add(b, "places", cadre_dims2(LENGTH, WIDTH));
    add(b, "qkv", cadre_dims2(WIDTH, 3 * WIDTH));
    for (int i = 0; i < b->params; i++) all[i] = &b->param[i];
    OK(cadre_plain_store_open(&b->store, all, b->params, true));
    for (int i = 0; i < b->params; i++)
        for (int64_t k = 0; k < cadre_dims_count(&all[i]->dims); k++)
            ((double *)cadre_plain_store_value(b->store, i))[k] = some(100 * i + k);
    OK(cadre_queue_open(&b->queue, backend, NULL));
    OK(cadre_tape_open(&b->tape, b->queue, store ? store : cadre_plain_store_view(b->store),
                       CADRE_F64));
    for (int i = 0; i < CADRE_COUNT(b->x); i++) b->x[i] = some(1000 + i);
    for (int i = 0; i < CADRE_COUNT(b->ids); i++) {
        b->ids[i] = (i * 3) % VOCAB;
        b->labels[i] = i == 1 ? -1 : (i * 2) % VOCAB;
    }
    for (int i = 0; i < ROWS; i++) b->samples[i] = 40 + i;
    b->pass.training = true;
    b->pass.key = (cadre_draw_key){1, 2, b->samples, ROWS};
    b->pass.inputs = 3;
    cadre_dims tokens = cadre_dims2(ROWS, LENGTH);
    b->pass.input[0] = named("inputs", CADRE_F64, cadre_dims3(ROWS, LENGTH, WIDTH), b->x);
    b->pass.input[1] = named("labels", CADRE_I32, tokens, b->labels);
    b->pass.input[2] = named("ids", CADRE_I32, tokens, b->ids);
}

static inline void bench_close(bench *b) {
    cadre_tape_close(&b->tape);
    cadre_queue_close(&b->queue);
    cadre_plain_store_close(&b->store);
}

static inline cadre_tensor *input(bench *b) {
    return cadre_input(b->tape, "inputs");
}

static inline double loss_of(bench *b, formula *f) {
    OK(cadre_tape_begin(b->tape, &b->pass));
    cadre_tensor *loss = f(b);
    OK(cadre_tape_status(b->tape));
    return ((double *)cadre_tensor_data(loss))[0];
}

static inline void check_slope(bench *b, formula *f, double *at, double got, const char *name,
                               int64_t k) {
    const double step = 1e-5;
    double kept = *at;
    *at = kept + step;
    double above = loss_of(b, f);
    *at = kept - step;
    double below = loss_of(b, f);
    *at = kept;
    double want = (above - below) / (2 * step);
    if (!(fabs(got - want) <= 1e-8 * (1 + fabs(want))))
        fail_msg("%s[%d]: the tape gives %.12g, differences %.12g", name, (int)k, got, want);
}

/* Gradients of every parameter that the formula uses, and of the input, against differences. */
static inline void check_gradients(bench *b, formula *f) {
    double dx[ROWS * LENGTH * WIDTH];
    cadre_tensor *dwrt = NULL;
    for (int i = 0; i < b->params; i++)
        memset(cadre_plain_store_gradient(b->store, i), 0,
               (size_t)cadre_dims_count(&b->param[i].dims) * sizeof(double));
    cadre_plain_store_zero(b->store);
    OK(cadre_tape_begin(b->tape, &b->pass));
    cadre_tensor *x = input(b), *loss = f(b);
    OK(cadre_tape_status(b->tape));
    OK(cadre_tape_backward_wrt(b->tape, loss, NULL, x, &dwrt));
    memcpy(dx, cadre_tensor_data(dwrt), sizeof dx);
    double *kept[PARAMS]; /* a forward may put gradients too */
    for (int i = 0; i < b->params; i++) {
        size_t bytes = (size_t)cadre_dims_count(&b->param[i].dims) * sizeof(double);
        kept[i] = malloc(bytes);
        memcpy(kept[i], cadre_plain_store_gradient(b->store, i), bytes);
    }
    for (int i = 0; i < b->params; i++) {
        for (int64_t k = 0; k < cadre_dims_count(&b->param[i].dims); k++)
            check_slope(b, f, (double *)cadre_plain_store_value(b->store, i) + k, kept[i][k],
                        b->param[i].name, k);
        free(kept[i]);
    }
    for (int k = 0; k < CADRE_COUNT(dx); k++) check_slope(b, f, &b->x[k], dx[k], "x", k);
}

#endif
