/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the tape share: slots (a tensor and all that is known of it), nodes (an
 * operation and what its backward pass needs), and the tape itself.
 */
#ifndef CADRE_TAPE_PRIVATE_H
#define CADRE_TAPE_PRIVATE_H

#include "tape/recycle.h"
#include "tape/tape.h"

typedef struct tape_slot {
    cadre_tensor tensor; /* first: what recorders return is its address; id = place on the shelf */
    cadre_piece *memory; /* of the tensor; NULL: borrowed from the batch, or given back */
    cadre_tensor gradient;
    cadre_piece *gradient_memory; /* NULL: the caller's, or the tensor's own memory */
    int producer;                 /* the node that made it; -1: a tensor of the batch */
    int uses;                     /* operations that read it */
    bool batch;                   /* given with the pass */
    bool loss;                    /* made by a loss: ends a formula */
    bool read_later;              /* a backward kernel reads its values */
    bool spent;                   /* its memory holds its gradient already */
    bool wanted;                  /* its gradient reaches a trained parameter or `wrt` */
    bool has_gradient;
    bool kept;         /* the caller reads it (or its gradient) after the backward pass */
    bool starts_again; /* a block that is computed again starts from it */
    bool needed;       /* when a block is computed again: its value is made */
    bool read_again;   /* the same: a backward kernel of the block reads it */
} tape_slot;

typedef struct tape_node {
    cadre_call call; /* in and out point into slots, the rest into this node */
    int block;
    const cadre_parameter *parameter[CADRE_OP_PARAM];
    cadre_tensor value[CADRE_OP_PARAM], gradient[CADRE_OP_PARAM];
    cadre_tensor saved[CADRE_OP_SAVED];
    cadre_piece *saved_memory[CADRE_OP_SAVED];
    bool dropped; /* its block has let go what it made; the replay makes it again */
    bool again;   /* runs again when the block does */
    cadre_tensor scratch;
    cadre_piece *scratch_memory;
} tape_node;

/* Uses of a parameter in this pass: how many are still to put their gradient, and whether one has.
 */
typedef struct tape_use {
    int left;
    bool put;
} tape_use;

struct cadre_tape {
    cadre_queue *queue;
    const cadre_param_store *store;
    cadre_dtype dtype;
    cadre_recycler own, *memory; /* its own, or the one that another tape lends */
    cadre_shelf slots, nodes;
    tape_use *use; /* by parameter id */
    int use_room;
    cadre_pass pass;
    bool begun, replayed;
    int length;          /* operations recorded; nodes are kept in training passes alone */
    int block;           /* being recorded or replayed; -1: none */
    int first_slot;      /* the first made in this block */
    int first_node;      /* the first recorded in this block */
    tape_slot *arriving; /* what the last block handed over */
    tape_slot *leaving;  /* what this block hands over */
    int again_blocks;    /* the first so many blocks are computed again */
    int dropped;         /* blocks of this pass that are */
    double again_flops;  /* of their second runs in this pass */
    cadre_error error;   /* the first failure; status 0: none */
    cadre_tensor placeholder;
};

/* Passes a failure on to the tape; `status` 0 is fine. */
void cadre_tape_note(cadre_tape *t, cadre_status status);
/* The slot of a tensor of this tape, NULL when it is of none or another. */
tape_slot *cadre_tape_slot(const cadre_tape *t, const cadre_tensor *tensor);
/* A new tensor with memory of its own. */
cadre_status cadre_tape_make(cadre_tape *t, cadre_dtype dtype, const cadre_dims *dims,
                             tape_slot **ret_slot);
/* Runs the forward of `call` (op, attributes and inputs are filled in) and records it. */
cadre_tensor *cadre_tape_record(cadre_tape *t, cadre_call *call, const cadre_parameter *first,
                                const cadre_parameter *second);
/* Points the node's parameter tensors at where the values lie now. */
void cadre_tape_bind(cadre_tape *t, tape_node *n);
/* Gives the tensor's memory back: its data is NULL then. */
void cadre_tape_give(cadre_tape *t, tape_slot *s);
/* At the end of a block that is to be computed again: lets go everything but what it was handed and
 * what it hands over (recompute.c). */
void cadre_tape_drop_block(cadre_tape *t);
/* Before `n`, the last of its block, is replayed: makes again what the block let go. */
cadre_status cadre_tape_again(cadre_tape *t, const tape_node *n);
/* Points the gradient of the node's k-th parameter at where this use of it goes. */
void cadre_tape_aim_parameter(cadre_tape *t, tape_node *n, int k);
/* Tells the store that a block begins or ends. */
cadre_status cadre_tape_enter_block(cadre_tape *t, int block, int backward);
cadre_status cadre_tape_leave_block(cadre_tape *t, int backward);

#endif
