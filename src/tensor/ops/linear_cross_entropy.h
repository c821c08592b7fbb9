/* SPDX-License-Identifier: Apache-2.0
 *
 * The blocks of rows that kernels of linear_cross_entropy work on.
 */
#ifndef CADRE_TENSOR_OPS_LINEAR_CROSS_ENTROPY_H
#define CADRE_TENSOR_OPS_LINEAR_CROSS_ENTROPY_H

#include "tensor/ops/ops.h"

typedef struct cadre_head_block {
    int64_t first;       /* row of the whole */
    cadre_tensor logits; /* (n, V), in the scratch */
    cadre_tensor x;      /* (n, C), in in[0]; in training its gradient goes there */
    bool add;            /* to what dparam[0] holds */
} cadre_head_block;

typedef cadre_status cadre_head_block_fn(cadre_queue *q, cadre_call *c, const cadre_head_block *b);

/* Runs `fn` over the blocks in order, which leaves each row's loss in saved[0]; then the sum. */
cadre_status cadre_head_blocks(cadre_queue *q, cadre_call *c, cadre_head_block_fn *fn);

#endif
