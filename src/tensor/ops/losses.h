/* SPDX-License-Identifier: Apache-2.0
 *
 * What loss kernels of every backend share.
 */
#ifndef CADRE_TENSOR_OPS_LOSSES_H
#define CADRE_TENSOR_OPS_LOSSES_H

#include "tensor/ops/ops.h"

/* Every label is -1 or a class; else CADRE_EDATA with place and value. */
cadre_status cadre_check_labels(const cadre_call *c);
/* out = (saved[0]'s losses along the tree, count). */
void cadre_put_loss(cadre_call *c, double count);

#endif
