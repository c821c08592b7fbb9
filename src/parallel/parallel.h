/* SPDX-License-Identifier: Apache-2.0
 *
 * A model trained by many ranks in step: the context that joins model, mesh, communicator, buckets
 * and optimizer, and the executor of a step. It owns values, gradients and optimizer state.
 *
 *   open -> draw (or values from a checkpoint) -> step, step, ... -> close
 */
#ifndef CADRE_PARALLEL_PARALLEL_H
#define CADRE_PARALLEL_PARALLEL_H

#include "base/alloc.h"
#include "base/tree.h"
#include "comm/comm.h"
#include "comm/mesh.h"
#include "nn/model.h"
#include "optim/optim.h"
#include "parallel/settings.h"
#include "parallel/span.h"

typedef struct cadre_parallel cadre_parallel;

/* Collective over `world`. All are borrowed. On a meta queue nothing is allocated, sizes are
 * counted (cadre_parallel_bytes). The ranks must hold the same model (a hash of names and shapes is
 * compared). */
cadre_status cadre_parallel_open(cadre_parallel **ret_parallel, cadre_comm *world,
                                 const cadre_model *model, cadre_queue *queue,
                                 const cadre_parallel_cfg *cfg, const cadre_optim_cfg *optim);
/* Local: draws every parameter's start, from (seed, name, element). Optimizer state to zero. */
cadre_status cadre_parallel_draw(cadre_parallel *p);

/* The micro-batches of a step, asked for in order. The pass's tensors must live until the next
 * call. */
typedef struct cadre_micro_source {
    void *self;
    cadre_status (*next)(void *self, int64_t micro, cadre_pass *ret_pass);
} cadre_micro_source;

enum { CADRE_VOTES = 4 };

typedef struct cadre_step_result {
    double loss;      /* mean over all valid tokens of all ranks, before the update */
    double count;     /* of them */
    double grad_norm; /* of the mean gradient, before clipping */
    double lr;
    bool skipped;           /* optim.nonfinite=skip: no update was made */
    int64_t skipped_steps;  /* so far, since open, this one included */
    char nonfinite[192];    /* which parameter and rank, when grad_norm is not finite; "" */
    bool vote[CADRE_VOTES]; /* whether any rank voted so */
    int64_t step_ns, comm_ns, exposed_ns, data_ns; /* this rank's */
    int64_t update_ns; /* norm, clipping, the optimizer's pass; without communication */
} cadre_step_result;

/* Collective over the world: one optimizer step number `step` (1-based) over `micros` micro-batches
 * of this rank. A rank without data gives micro-batches whose labels are all -1, or micros = 0.
 * `vote`: this rank's votes (signals), joined by "any"; NULL: none. When a value is not finite and
 * optim.nonfinite=stop: CADRE_ENUMERIC on all ranks naming parameter, rank and step; nothing was
 * updated. A step in which nothing counts on any rank (count 0) has loss and norm 0 and updates
 * nothing. A rank that fails by itself (its source, its memory) announces it, so that its peers
 * fail at once. On a meta queue: records forward and backward, counts, and that is all. */
cadre_status cadre_parallel_step(cadre_parallel *p, const cadre_micro_source *source,
                                 int64_t micros, int64_t step, const bool vote[CADRE_VOTES],
                                 cadre_step_result *ret_result);

/* Local: `after` is called behind every action of a step from now on, in the caller's thread. */
void cadre_parallel_on_action(cadre_parallel *p, void (*after)(void *self), void *self);

/* What a pass holds and costs on one rank. */
typedef struct cadre_pass_cost {
    int64_t activations; /* bytes at the peak */
    cadre_kept kept;     /* by its kernels, a thread */
    double flops;        /* without what is computed again */
    int again_blocks;    /* that are computed again */
    double again_flops;
} cadre_pass_cost;

/* Local. Runs a pass of these shapes dry (data are not read; `shapes->training` decides whether
 * there is a backward pass), with the first `blocks` blocks of the model computed again where that
 * saves memory (tape/tape.h). */
cadre_status cadre_parallel_measure(const cadre_parallel *p, const cadre_pass *shapes, int blocks,
                                    cadre_pass_cost *ret_cost);
/* Local. The fewest blocks with which the activations take at most `room` bytes, and what the pass
 * then costs. When no number is enough: all of them. */
cadre_status cadre_parallel_fit(const cadre_parallel *p, const cadre_pass *shapes, int64_t room,
                                int *ret_blocks, cadre_pass_cost *ret_cost);
/* Local: from the next step on the first `blocks` blocks are computed again (at first: none).
 * Results are the same bits, so ranks may differ. */
void cadre_parallel_recompute(cadre_parallel *p, int blocks);

/* Local: gives a tape that has run nothing yet what a pass of these shapes takes, so that the first
 * pass allocates nothing and holds no more than later ones. The first step does it by itself. */
cadre_status cadre_parallel_reserve(const cadre_parallel *p, cadre_tape *tape,
                                    const cadre_pass *shapes);

/* Collective: are all parameters the same bits on every rank? The first that differs is named with
 * rank and step (CADRE_EINTERNAL). */
cadre_status cadre_parallel_check_equal(cadre_parallel *p, int64_t step);
/* Local: one hash over all parameters (names and bits, in order): the same on every layout that
 * holds the same weights. */
uint64_t cadre_parallel_hash(cadre_parallel *p);

/* For forward passes of one's own (evaluation): a tape over this context's parameters, without
 * gradients, in the memory that a step's passes lie in between the steps; closed before it. */
cadre_status cadre_parallel_tape(cadre_parallel *p, cadre_tape **ret_tape);

/* Arrays of parameter `id` (dims as in the model): its weights as they are kept (f32 in bf16 runs,
 * bf16 where it is frozen then), gradient (sums over all ranks after a step, unscaled), optimizer
 * state k (of the weights' type). NULL where there is none (frozen). Whoever writes weights says so
 * with cadre_parallel_settle before the next step. */
void *cadre_parallel_value(cadre_parallel *p, int id);
cadre_dtype cadre_parallel_value_dtype(const cadre_parallel *p, int id);
void cadre_parallel_settle(cadre_parallel *p);
cadre_dtype cadre_parallel_gradient_dtype(const cadre_parallel *p);
void *cadre_parallel_gradient(cadre_parallel *p, int id);
void *cadre_parallel_state(cadre_parallel *p, int id, int k);
bool cadre_parallel_frozen(const cadre_parallel *p, int id);
const cadre_optimizer *cadre_parallel_optimizer(const cadre_parallel *p);

const cadre_mesh *cadre_parallel_mesh(const cadre_parallel *p);
const cadre_span *cadre_parallel_span(const cadre_parallel *p);
int cadre_parallel_bucket_count(const cadre_parallel *p);
/* Bytes by category: what open allocated or would, plus the tape's peak seen so far (activations).
 */
void cadre_parallel_bytes(const cadre_parallel *p, int64_t ret_bytes[CADRE_MEM_KINDS]);
/* Payload bytes all-reduced over dp a step. */
int64_t cadre_parallel_traffic(const cadre_parallel *p);
void cadre_parallel_close(cadre_parallel **p);

/* Global norm (parallel/clip.c): f64 sum of squares of chunks of CADRE_CHUNK elements, joined along
 * the tree T. */
void cadre_chunk_squares(const void *values, cadre_dtype dtype, int64_t first_chunk, int64_t chunks,
                         double *ret_squares, cadre_pool *pool);

#endif
