/* SPDX-License-Identifier: Apache-2.0
 *
 * The mask of a dropout call, for every backend.
 */
#ifndef CADRE_TENSOR_OPS_DROPOUT_H
#define CADRE_TENSOR_OPS_DROPOUT_H

#include "tensor/ops/ops.h"

typedef struct cadre_dropout_mask {
    uint64_t key, step; /* Philox key; upper half of the second counter word */
    uint32_t below;     /* words below it are dropped */
    double scale;       /* of what is kept */
} cadre_dropout_mask;

/* No element is dropped: the result is a copy. */
bool cadre_dropout_off(const cadre_call *c);
cadre_dropout_mask cadre_dropout_mask_of(const cadre_call *c);

#endif
