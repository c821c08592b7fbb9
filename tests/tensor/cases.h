/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of operations with made-up contents, out of rows of shapes: what the tests of this room
 * walk. The same row gives the same numbers in every type: they are few bits long.
 */
#ifndef CADRE_TESTS_TENSOR_CASES_H
#define CADRE_TESTS_TENSOR_CASES_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/check.h"
#include "tensor/ops/ops.h"

typedef struct op_case {
    cadre_op_id op;
    cadre_attributes a;
    cadre_dims in[CADRE_OP_IN], param[CADRE_OP_PARAM]; /* n = 0: none */
    double gap; /* allowed between cpu in f32 and ref in f64: ||a - b|| / ||b|| */
} op_case;

#define D1(...)                                                                                    \
    {                                                                                              \
        1, {                                                                                       \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define D2(...)                                                                                    \
    {                                                                                              \
        2, {                                                                                       \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define D3(...)                                                                                    \
    {                                                                                              \
        3, {                                                                                       \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

enum { TENSORS = 16, SAMPLES = 64 };

typedef struct op_run {
    cadre_call c;
    cadre_tensor tensor[TENSORS];
    int count;
    int64_t samples[SAMPLES];
} op_run;

static inline double real_at(const cadre_tensor *t, int64_t i) {
    double value;
    cadre_convert((char *)t->data + (size_t)i * cadre_dtype_size(t->dtype), t->dtype, &value,
                  CADRE_F64, 1);
    return value;
}

static inline void real_put(const cadre_tensor *t, int64_t i, double value) {
    cadre_convert(&value, CADRE_F64, (char *)t->data + (size_t)i * cadre_dtype_size(t->dtype),
                  t->dtype, 1);
}

static inline bool is_real(const cadre_tensor *t) {
    return t && cadre_is_real(t->dtype);
}

static inline cadre_tensor *new_tensor(op_run *r, cadre_dtype dtype, cadre_dims dims) {
    cadre_tensor *t = &r->tensor[r->count++];
    *t = (cadre_tensor){.dtype = dtype, .dims = dims, .id = -1};
    size_t bytes = (cadre_tensor_bytes(t) + 63) / 64 * 64;
    t->data = aligned_alloc(64, bytes ? bytes : 64);
    assert_non_null(t->data);
    return t;
}

/* Numbers in [-1, 1) that bf16 holds, the same for the same `key`. */
static inline cadre_tensor *new_reals(op_run *r, cadre_dtype dtype, cadre_dims dims, int key) {
    cadre_tensor *t = new_tensor(r, dtype, dims);
    for (int64_t i = 0; i < cadre_count(t); i++) {
        cadre_philox block = cadre_philox_draw((uint64_t)key, (uint64_t)i, 0);
        float number = cadre_uniform_f32(block.v[0]) * 2 - 1;
        real_put(t, i, (double)cadre_bf16_to_f32(cadre_f32_to_bf16(number)));
    }
    return t;
}

/* Ids in [0, limit); every seventh is -1 when `holes`. */
static inline cadre_tensor *new_ids(op_run *r, cadre_dims dims, int64_t limit, bool holes) {
    cadre_tensor *t = new_tensor(r, CADRE_I32, dims);
    for (int64_t i = 0; i < cadre_count(t); i++)
        ((int32_t *)t->data)[i] =
            holes && i % 7 == 6
                ? -1
                : (int32_t)(cadre_philox_draw(9, (uint64_t)i, 0).v[1] % (uint32_t)limit);
    return t;
}

static inline void open_operands(op_run *r, const op_case *row, cadre_dtype dtype) {
    *r = (op_run){.c = {.op = row->op, .a = row->a}};
    for (int k = 0; k < CADRE_OP_IN; k++)
        if (row->in[k].n && row->op == CADRE_OP_EMBEDDING)
            r->c.in[k] = new_ids(r, row->in[k], row->param[0].at[0], false);
        else if (row->in[k].n && row->op == CADRE_OP_CROSS_ENTROPY && k == 1)
            r->c.in[k] = new_ids(r, row->in[k], row->in[0].at[row->in[0].n - 1], true);
        else if (row->in[k].n && row->op == CADRE_OP_LINEAR_CROSS_ENTROPY && k == 1)
            r->c.in[k] = new_ids(r, row->in[k], row->param[0].at[0], true);
        else if (row->in[k].n)
            r->c.in[k] = new_reals(r, dtype, row->in[k], 1 + k);
    for (int k = 0; k < CADRE_OP_PARAM; k++)
        if (row->param[k].n) r->c.param[k] = new_reals(r, dtype, row->param[k], 3 + k);
    if (row->op == CADRE_OP_DROPOUT) {
        for (int64_t i = 0; i < SAMPLES; i++) r->samples[i] = 1000 + 3 * i;
        r->c.a.site = "here";
        r->c.a.key = (cadre_draw_key){7, 11, r->samples, row->in[0].at[0]};
    }
}

/* Everything a call needs for its three phases; gradients hold numbers, so that adding shows. */
static inline void open_run(op_run *r, const op_case *row, cadre_dtype dtype, bool training,
                            bool add) {
    open_operands(r, row, dtype);
    r->c.a.training = training;
    cadre_inferred made;
    OK(cadre_op_table[row->op].infer(&r->c, &made));
    r->c.out = new_tensor(r, made.out.dtype, made.out.dims);
    for (int k = 0; k < CADRE_OP_SAVED; k++)
        if (made.saved[k].dims.n >= 0)
            r->c.saved[k] = new_tensor(r, made.saved[k].dtype, made.saved[k].dims);
    if (made.scratch.dims.n >= 0)
        r->c.scratch = new_tensor(r, made.scratch.dtype, made.scratch.dims);
    if (!cadre_op_table[row->op].loss) r->c.dout = new_reals(r, dtype, made.out.dims, 5);
    for (int k = 0; k < CADRE_OP_IN; k++)
        if (is_real(r->c.in[k])) {
            r->c.din[k] = new_reals(r, dtype, row->in[k], 6 + k);
            r->c.din_add[k] = add;
        }
    for (int k = 0; k < CADRE_OP_PARAM; k++)
        if (r->c.param[k]) {
            r->c.dparam[k] = new_reals(r, cadre_sum_dtype(dtype), row->param[k], 8 + k);
            r->c.dparam_add[k] = add;
        }
}

static inline void close_run(op_run *r) {
    for (int i = 0; i < r->count; i++) free(r->tensor[i].data);
    *r = (op_run){0};
}

/* Forward and both parts of backward, as the tape calls them. */
static inline void run_all(cadre_queue *q, op_run *r) {
    OK(cadre_op_run(q, &r->c, CADRE_FORWARD));
    if (!cadre_op_table[r->c.op].gradient_in_place && (r->c.din[0] || r->c.din[1]))
        OK(cadre_op_run(q, &r->c, CADRE_BACKWARD_INPUTS));
    OK(cadre_op_run(q, &r->c, CADRE_BACKWARD_PARAMS));
}

/* "attention case 3", for messages. */
static inline const char *case_name(const op_case *row, int i) {
    static char text[64];
    snprintf(text, sizeof text, "%s case %d", cadre_op_table[row->op].name, i);
    return text;
}

/* Fails unless every operation has a row. */
static inline void each_operation_has_a_case(const op_case *rows, int count) {
    for (int op = 0; op < CADRE_OPS; op++) {
        int found = 0;
        for (int i = 0; i < count; i++) found += (int)rows[i].op == op;
        if (!found) fail_msg("operation %s has no case here", cadre_op_table[op].name);
    }
}

#endif
