/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a context, shared by the files of this room.
 */
#ifndef CADRE_PARALLEL_CONTEXT_H
#define CADRE_PARALLEL_CONTEXT_H

#include "parallel/bucket.h"
#include "parallel/clip.h"
#include "parallel/parallel.h"
#include "parallel/schedule.h"

struct cadre_parallel {
    cadre_comm *world;
    const cadre_model *model;
    cadre_queue *queue;
    cadre_parallel_cfg cfg;
    cadre_optim_cfg optim;
    const cadre_optimizer *optimizer;
    cadre_mesh mesh;
    cadre_span span;

    /* In bf16 runs the model computes with `values` in bf16, and `master` holds the trained ones in
     * f32, which the optimizer moves; elsewhere there is no master. */
    cadre_dtype master_dtype, gradient_dtype, wire_dtype;
    void *values, *gradients;           /* over the span; over its trained part; NULL on meta */
    float *master;                      /* over the trained part; NULL: values themselves */
    void *state[CADRE_OPTIM_STATES];    /* over the trained part */
    int64_t noted[CADRE_MEM_KINDS];     /* bytes from cadre_comm_alloc, counted by cadre_mem_note */
    int64_t predicted[CADRE_MEM_KINDS]; /* what open allocates, or would on meta */

    /* The trained parameters in span order: what buckets and the optimizer work on. */
    int items;
    int *item_param, *param_item; /* -1: frozen */
    cadre_bucket_item *item;
    cadre_segment *segment;
    cadre_buckets *buckets;
    cadre_norm norm;

    cadre_tape *tape;
    int again_blocks; /* computed again in the backward pass */
    bool reserved;    /* the tape has its memory */
    cadre_param_store training, reading;
    int64_t serial;   /* of the step */
    int64_t *written; /* by parameter: the step in which its gradient was last written */
    bool last_micro;  /* gradients that become complete now are final */
    int bad_param;    /* the first in backward order whose gradient is not finite here; -1 */
    int64_t skipped_steps;
    int64_t *hashes; /* of all parameters on all ranks, for the comparison; NULL before the first */

    void (*after_action)(void *self); /* NULL: nobody looks */
    void *after_self;

    cadre_schedule schedule;
    int64_t schedule_micros; /* -1: none written yet */
};

/* What the tape sees (parallel/store.c). */
void cadre_parallel_stores(cadre_parallel *p);
/* Records a pass: the model's loss (parallel/dry.c). */
cadre_status cadre_parallel_forward(const cadre_parallel *p, cadre_tape *tape,
                                    const cadre_pass *pass, cadre_tensor **ret_loss);
/* A bucket starts: looks for values that are not finite in this rank's own gradients. */
void cadre_parallel_scan(void *self, int bucket);

#endif
