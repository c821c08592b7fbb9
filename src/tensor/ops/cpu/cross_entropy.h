/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of cross-entropy, for the loss alone and for the loss fused with its linear layer.
 */
#ifndef CADRE_TENSOR_OPS_CPU_CROSS_ENTROPY_H
#define CADRE_TENSOR_OPS_CPU_CROSS_ENTROPY_H

#include "tensor/ops/cpu/piece.h"

/* The loss of row r of the logits (f32 or bf16); label -1 counts for nothing. In training the row
 * becomes its own gradient. `room`: a row of f32, needed for bf16. */
double cadre_cross_entropy_row(const cadre_tensor *logits, int64_t r, int32_t label,
                               double smoothing, bool training, float *room);

#endif
