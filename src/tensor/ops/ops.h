/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operations. An operation is a row: what shapes it makes, what it costs, and three
 * kernels a backend: forward, backward towards inputs, backward towards parameters (apart, because
 * zero-bubble schedules run them apart).
 *
 * A call holds everything an execution needs; the tape fills it in while recording and keeps it for
 * the backward pass. Kernels read and write through the call's tensors and never allocate: scratch
 * is `saved` or on the stack; backends may keep a workspace of their own (counted as
 * CADRE_MEM_WORKSPACE).
 */
#ifndef CADRE_TENSOR_OPS_H
#define CADRE_TENSOR_OPS_H

#include "tensor/device.h"

typedef enum cadre_op_id {
    CADRE_OP_LINEAR, /* y = x W' + b, W (out, in); attribute in_out: W (in, out); attribute gelu: y
                        = gelu(...) */
    CADRE_OP_EMBEDDING,     /* y[i] = W[id[i]] */
    CADRE_OP_POSITIONS,     /* y[b, t] = x[b, t] + W[t] */
    CADRE_OP_LAYER_NORM,    /* over the last dim; weight, bias; attribute eps */
    CADRE_OP_ATTENTION,     /* causal, in: qkv (B, T, 3C) as GPT-2 lays it out (q | k | v, heads
                               inside); attribute heads */
    CADRE_OP_GELU,          /* tanh form */
    CADRE_OP_ADD,           /* a + b, same shape */
    CADRE_OP_DROPOUT,       /* attribute rate; mask keyed by (seed, step, sample, site, element) */
    CADRE_OP_CROSS_ENTROPY, /* (rows, V) logits, labels i32 (rows), -1 ignored -> f64 (2): sum of
                               losses, count */
    CADRE_OP_LINEAR_CROSS_ENTROPY, /* cross-entropy of x W' in blocks of rows: the logits are never
                                      held whole */
    CADRE_OP_SQUARED_ERROR, /* x, target: same shape -> f64 (2): sum of (x - target)^2, count of
                               elements */
    CADRE_OP_SUM,           /* x -> f64 (2): sum of elements, rows */
    CADRE_OPS
} cadre_op_id;

enum { CADRE_OP_IN = 2, CADRE_OP_PARAM = 2, CADRE_OP_SAVED = 3 };

/* What keys a random draw inside a pass (dropout): identity is global, never per rank. */
typedef struct cadre_draw_key {
    uint64_t seed;
    int64_t step;
    const int64_t *samples; /* global index of each row of dim 0 */
    int64_t sample_count;
} cadre_draw_key;

typedef struct cadre_attributes {
    bool in_out;            /* linear: weight is (in, out), as Hugging Face stores GPT-2's */
    bool gelu;              /* linear: fused GELU on the result */
    bool training;          /* a backward pass will come: keep what it needs */
    int64_t heads;          /* attention */
    double eps;             /* layer norm */
    double rate;            /* dropout */
    double label_smoothing; /* cross-entropy */
    bool slope_taken;       /* linear, backward of a fused GELU: saved[0] holds dz already */
    const char *site;       /* dropout: the name of the place, keys the mask */
    cadre_draw_key key;     /* dropout */
} cadre_attributes;

typedef struct cadre_call {
    cadre_op_id op;
    cadre_attributes a;
    cadre_tensor *in[CADRE_OP_IN];       /* unused: NULL */
    cadre_tensor *param[CADRE_OP_PARAM]; /* values; a missing bias is NULL */
    cadre_tensor *out;
    cadre_tensor *
        saved[CADRE_OP_SAVED]; /* made where `infer` asked for it; forward writes, backward reads */
    cadre_tensor *scratch;     /* the forward's alone, where `infer` asked for it */
    /* backward only, or with params_in_forward */
    cadre_tensor *dout;             /* gradient of out; NULL for losses, whose gradient is one */
    cadre_tensor *din[CADRE_OP_IN]; /* where to put gradients towards inputs; NULL: not wanted */
    bool din_add[CADRE_OP_IN];      /* add to what is there instead of overwriting */
    cadre_tensor *dparam[CADRE_OP_PARAM]; /* the same towards parameters */
    bool dparam_add[CADRE_OP_PARAM];
} cadre_call;

/* What infer answers: shapes the tape must make before forward. n < 0: none. */
typedef struct cadre_made {
    cadre_dtype dtype;
    cadre_dims dims;
} cadre_made;

typedef struct cadre_inferred {
    cadre_made out;
    cadre_made saved[CADRE_OP_SAVED]; /* dims.n < 0: none */
    cadre_made scratch;               /* goes back right after the forward; dims.n < 0: none */
} cadre_inferred;

typedef enum cadre_phase {
    CADRE_FORWARD,
    CADRE_BACKWARD_INPUTS,
    CADRE_BACKWARD_PARAMS,
    CADRE_PHASES
} cadre_phase;

typedef struct cadre_op {
    const char *name;
    const char *help;
    int inputs, params;
    /* Checks shapes, dtypes and attributes (CADRE_EUSAGE with the numbers) and says what to make.
     */
    cadre_status (*infer)(const cadre_call *c, cadre_inferred *ret);
    void (*cost)(const cadre_call *c, cadre_phase phase, cadre_cost *ret);
    bool reads_in[CADRE_OP_IN]; /* whether a backward kernel reads in[i]; what nobody reads may be
                                   dropped early */
    bool reads_out;
    /* The forward of a training pass leaves the gradient of in[0] in in[0]'s own memory
     * (cross-entropy): the tape then takes in[0] itself as din[0] and calls no backward kernel. */
    bool gradient_in_place;
    /* The forward of a training pass also puts the gradients of the parameters (dparam is aimed
     * before it); there is no kernel for them in the backward pass. Losses alone: their block is
     * never computed again. */
    bool params_in_forward;
    /* The gradient towards every input is dout itself: the tape may hand its memory on instead of
     * calling a backward kernel. */
    bool gradient_passes;
    /* What the cpu backend's kernels keep a thread, where that is much; NULL: it is not. */
    void (*keeps)(const cadre_call *c, cadre_kept *ret);
    bool loss; /* makes a sum and its count, whose gradient is one: ends a formula */
} cadre_op;

extern const cadre_op cadre_op_table[CADRE_OPS]; /* ops/table.c */

typedef cadre_status cadre_kernel(cadre_queue *q, cadre_call *c);

/* A backend: kernels by operation and phase, a full table: every slot starts as ref's (which knows
 * f32 and f64) and hardware replaces what it has. A NULL BACKWARD_PARAMS slot means the operation
 * has no parameters. */
typedef struct cadre_backend {
    const char *name;
    const char *help;
    cadre_kernel *kernel[CADRE_OPS][CADRE_PHASES];
} cadre_backend;

int cadre_backend_count(void);
const cadre_backend *cadre_backend_at(int i);              /* filled at first use, thread-safe */
const cadre_backend *cadre_backend_find(const char *name); /* NULL when unknown */

/* Looks at a queue: is told of every phase of every call when it is over, on meta too. */
typedef struct cadre_op_watch {
    void *self;
    /* `ns`: what it took; `product_ns`: the part of it in matrix products, on the average of the
     * pool's threads. Both 0 on meta. */
    void (*done)(void *self, const cadre_call *c, cadre_phase phase, int64_t ns,
                 int64_t product_ns);
    int64_t product_ns; /* of the phase that runs; kernels add to it */
} cadre_op_watch;

/* Runs one phase of a call on the queue: counts its cost, traces it, calls the kernel (none on
 * meta), tells the watch. */
cadre_status cadre_op_run(cadre_queue *q, cadre_call *c, cadre_phase phase);

#endif
