/* SPDX-License-Identifier: Apache-2.0
 *
 * What loss kernels of every backend share.
 */
#ifndef CADRE_TENSOR_OPS_LOSSES_H
#define CADRE_TENSOR_OPS_LOSSES_H

#include "tensor/ops/ops.h"

/* Labels for the rows of a matrix of logits: i32, one each; smoothing below 1. */
cadre_status cadre_check_entropy(const cadre_call *c);
/* Every label is -1 or a class; else CADRE_EDATA with place and value. */
cadre_status cadre_check_labels(const cadre_call *c, int64_t classes);
/* How many labels count. */
double cadre_count_labels(const cadre_call *c);
/* Reference: the loss of row r of the logits; in training it becomes its own gradient. */
double cadre_ref_row_loss(cadre_tensor *logits, int64_t r, int32_t label, double smoothing,
                          bool training);
/* out = (saved[0]'s losses along the tree, count). */
void cadre_put_loss(cadre_call *c, double count);

#endif
