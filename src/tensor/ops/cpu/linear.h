/* SPDX-License-Identifier: Apache-2.0
 *
 * Products over the pool, for linear layers and for the one that is fused with its loss.
 */
#ifndef CADRE_TENSOR_OPS_CPU_LINEAR_H
#define CADRE_TENSOR_OPS_CPU_LINEAR_H

#include "tensor/ops/cpu/dnnl.h"
#include "tensor/ops/ops.h"

/* The product in tiles, shared out over the queue's pool; the same bits for any number of threads.
 */
cadre_status cadre_product_tiled(cadre_queue *q, const cadre_product *p, const void *a,
                                 const void *b, void *c);
/* Raises `kept` to what a tile of the product keeps of its thread. */
void cadre_product_tiled_keeps(const cadre_product *p, cadre_kept *kept);

#endif
