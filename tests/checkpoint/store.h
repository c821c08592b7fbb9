/* SPDX-License-Identifier: Apache-2.0
 *
 * A small set of tensors whose every element is known from its place, split over any number of
 * ranks: what the checkpoint tests write and expect to read.
 */
#ifndef CADRE_TESTS_CHECKPOINT_STORE_H
#define CADRE_TESTS_CHECKPOINT_STORE_H

#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "support/check.h"

static const struct store_row {
    const char *name;
    cadre_dtype dtype;
    cadre_dims dims;
    bool weights;
} store_rows[] = {
    {"transformer.wte.weight", CADRE_F32, {2, {37, 5}}, true},
    {"transformer.ln_f.bias", CADRE_F64, {1, {11}}, true},
    {"scale", CADRE_BF16, {0, {0}}, true},
    {"nothing", CADRE_F32, {2, {0, 4}}, true},
    {"adamw.m/transformer.wte.weight", CADRE_F32, {2, {37, 5}}, false},
    {"adamw.v/transformer.wte.weight", CADRE_F32, {2, {37, 5}}, false},
    {"adamw.m/transformer.ln_f.bias", CADRE_F64, {1, {11}}, false},
};

enum { STORE_TENSORS = CADRE_COUNT(store_rows) };

typedef struct store {
    cadre_piece pieces[STORE_TENSORS];
} store;

/* Byte `i` of tensor `t` as step `step` has it. */
static inline uint8_t store_byte(int64_t step, int t, int64_t i) {
    return (uint8_t)(step * 7 + t * 31 + i * 13 + (i >> 8));
}

/* How a run lays its tensors out over ranks. */
typedef enum store_layout {
    STORE_SPLIT,      /* everything in ranges */
    STORE_FIRST,      /* rank 0 holds all */
    STORE_STATE_SPLIT /* weights on rank 0, state in ranges */
} store_layout;

/* The pieces of `rank` of `size`, filled for `step` (>= 0) or zero (< 0). */
static inline void store_open(store *s, store_layout layout, int rank, int size, int64_t step) {
    for (int t = 0; t < STORE_TENSORS; t++) {
        const struct store_row *row = &store_rows[t];
        int64_t n = cadre_dims_count(&row->dims), width = (int64_t)cadre_dtype_size(row->dtype);
        int64_t first = n * rank / size, end = n * (rank + 1) / size;
        if (layout == STORE_FIRST || (layout == STORE_STATE_SPLIT && row->weights)) {
            first = 0;
            end = rank == 0 ? n : 0;
        }
        uint8_t *data = calloc(1, (size_t)((end - first) * width) + 1);
        for (int64_t i = 0; step >= 0 && i < (end - first) * width; i++)
            data[i] = store_byte(step, t, first * width + i);
        s->pieces[t] = (cadre_piece){.name = row->name,
                                     .dtype = row->dtype,
                                     .dims = row->dims,
                                     .first = first,
                                     .count = end - first,
                                     .data = data,
                                     .weights = row->weights};
    }
}

/* Elements that are not what `step` has there. */
static inline int64_t store_wrong(const store *s, int64_t step) {
    int64_t wrong = 0;
    for (int t = 0; t < STORE_TENSORS; t++) {
        const cadre_piece *p = &s->pieces[t];
        int64_t width = (int64_t)cadre_dtype_size(p->dtype);
        for (int64_t i = 0; i < p->count * width; i++)
            wrong += ((const uint8_t *)p->data)[i] != store_byte(step, t, p->first * width + i);
    }
    return wrong;
}

static inline void store_close(store *s) {
    for (int t = 0; t < STORE_TENSORS; t++) free(s->pieces[t].data);
}

static inline cadre_checkpoint_head store_head(int64_t step, double valid_loss) {
    return (cadre_checkpoint_head){.step = step,
                                   .samples = step * 12,
                                   .data_hash = 0x8123456789abcdefu,
                                   .parameter_hash = 0xfedcba9876543210u,
                                   .valid_loss = valid_loss,
                                   .settings = "train:\n  batch: 12\n",
                                   .layout = "dp=1"};
}

static const cadre_side_file store_files[] = {
    {"config.json", "{\"model_type\": \"gpt2\"}\n", 23},
    {"tokenizer.json", "{}", 2},
};

#endif
