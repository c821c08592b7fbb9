/* SPDX-License-Identifier: Apache-2.0
 *
 * The tape: one per micro-batch in flight, with an arena of its own that allocates nothing after
 * the first pass of a shape.
 *
 *   cadre_tape_begin(t, &pass)          forget the last pass; the batch's tensors by name
 *   cadre_tape_enter(t, block) ...      blocks mark where they begin and end (nn does it)
 *   recorders ...                       include/cadre/tape.h
 *   cadre_tape_status(t)                the first failure, if any
 *   cadre_tape_backward(t, loss, NULL)  gradients into the store, "ready" once a parameter is
 * complete
 */
#ifndef CADRE_TAPE_TAPE_H
#define CADRE_TAPE_TAPE_H

#include "tape/parameter.h"
#include "tensor/ops/ops.h"

enum { CADRE_TAPE_INPUTS = 8 };

typedef struct cadre_named_tensor {
    const char *name;
    cadre_tensor tensor; /* data borrowed until the pass ends */
} cadre_named_tensor;

typedef struct cadre_pass {
    bool training;  /* a backward pass follows; dropout is on */
    bool no_labels; /* generation: cadre_input("labels") is NULL and cross-entropy hands the logits
                       through */
    cadre_draw_key key;
    double label_smoothing;
    int inputs;
    cadre_named_tensor input[CADRE_TAPE_INPUTS];
} cadre_pass;

/* `queue` and `store` are borrowed. On a meta queue the arena only counts. `dtype`: of activations
 * and parameters (f32, bf16 or f64). */
cadre_status cadre_tape_open(cadre_tape **ret_tape, cadre_queue *queue,
                             const cadre_param_store *store, cadre_dtype dtype);
/* Before the first pass: takes the memory in one piece of what a dry pass counted
 * (cadre_tape_peak_bytes), so that the first pass holds no more than later ones. */
cadre_status cadre_tape_reserve(cadre_tape *t, size_t bytes);
/* The same and all else that `dry` took: the first pass then allocates nothing at all. */
cadre_status cadre_tape_reserve_like(cadre_tape *t, const cadre_tape *dry);
/* From the next pass on: of the blocks 0 to `blocks` - 1 each keeps, in a training pass, only what
 * it was handed, and is computed again in the backward pass; results are the same bits. Blocks with
 * a loss, and those that would save nothing, are left out. 0 (the start): none. */
void cadre_tape_recompute(cadre_tape *t, int blocks);
/* Before the first pass of `t`: its passes lie in the memory of `lender`, which is closed after it.
 * One of the two has a pass at a time: a begin ends the other's. */
void cadre_tape_borrow(cadre_tape *t, cadre_tape *lender);
cadre_status cadre_tape_begin(cadre_tape *t, const cadre_pass *pass);
/* Block marks, for the store's hooks and for recomputation later. A tensor that one block hands to
 * the next is the only way between. */
void cadre_tape_enter(cadre_tape *t, int block);
/* What the block returns. At its end all else it made goes, except what the replay reads; without
 * this call everything stays until the next pass. */
void cadre_tape_hand_over(cadre_tape *t, cadre_tensor *x);
void cadre_tape_leave(cadre_tape *t);
cadre_status cadre_tape_status(
    const cadre_tape *t); /* the first failure (its error is restored to this thread) */
/* Sticks `status` (with the thread's error) to the tape, as recorders do. */
void cadre_tape_fail(cadre_tape *t, cadre_status status);

/* Replays in reverse. `out`: a loss (dout NULL: its gradient is one) or any tensor with its
 * gradient `dout`. Runs backward towards inputs and towards parameters of each operation, inputs
 * first. Gradients of activations live in recycled memory of the arena and go when their operation
 * has been replayed. */
cadre_status cadre_tape_backward(cadre_tape *t, cadre_tensor *out, const cadre_tensor *dout);
/* The same, and keeps the gradient of `wrt` (an input or any recorded tensor): valid until the next
 * begin. */
cadre_status cadre_tape_backward_wrt(cadre_tape *t, cadre_tensor *out, const cadre_tensor *dout,
                                     cadre_tensor *wrt, cadre_tensor **ret_dwrt);

int cadre_tape_length(const cadre_tape *t); /* operations recorded in this pass */
/* Blocks of this pass that are computed again, and the work done for it so far. */
void cadre_tape_recomputed(const cadre_tape *t, int *ret_blocks, double *ret_flops);
size_t cadre_tape_peak_bytes(
    const cadre_tape *t); /* most memory the arena ever held, forward and backward */
void cadre_tape_close(cadre_tape **t);

#endif
