/* SPDX-License-Identifier: Apache-2.0
 *
 * A parameter as everybody sees it: a number, a global name, a shape. Its values and gradients live
 * wherever the store says, and may move (ZeRO-3 gathers and releases), so nobody keeps the address.
 */
#ifndef CADRE_TAPE_PARAMETER_H
#define CADRE_TAPE_PARAMETER_H

#include <cadre/tape.h>

struct cadre_parameter {
    int id;    /* place in its model, 0-based, in block order; negative: a mistake, and `name` is a
                  sentence that says which (recorders fail with it) */
    int block; /* the block that owns it (a tied use elsewhere refers to the same parameter) */
    const char *name; /* Hugging Face's name, global and permanent */
    cadre_dtype dtype;
    cadre_dims dims;
    bool decay; /* matrices and embeddings: decayed by default */
};

/* How a tape reaches parameters. Given by parallel; tests have a plain one (tape/plain_store.h). */
typedef struct cadre_param_store {
    void *self;
    void *(*value)(void *self, const cadre_parameter *p);
    /* Where the gradient of this use goes, in `gradient_dtype`; `*ret_add`: add to what is there,
     * else overwrite. NULL: frozen, wants none. Asked once a use, right before its kernel runs. */
    void *(*gradient)(void *self, const cadre_parameter *p, bool *ret_add);
    cadre_dtype gradient_dtype; /* f64 where the tape computes in f64; else f32, or bf16 with it */
    /* All uses of `p` in this pass have put their gradient. NULL: nobody listens. */
    cadre_status (*ready)(void *self, const cadre_parameter *p);
    /* A moment between two operations: communication may make progress. NULL: nothing to do. */
    cadre_status (*between)(void *self);
    /* Block `block` is about to be used / is done with, in a forward (0) or backward (1) pass.
     * NULL: nothing to do. */
    cadre_status (*enter_block)(void *self, int block, int backward);
    cadre_status (*leave_block)(void *self, int block, int backward);
    /* Whether `p` is trained, asked before the replay: gradients that lead to frozen parameters
     * alone are not computed. NULL: all are. */
    bool (*wanted)(void *self, const cadre_parameter *p);
} cadre_param_store;

#endif
