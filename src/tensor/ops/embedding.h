/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels of embedding share.
 */
#ifndef CADRE_TENSOR_OPS_EMBEDDING_H
#define CADRE_TENSOR_OPS_EMBEDDING_H

#include "tensor/ops/ops.h"

/* Every id (i32) is in [0, vocab); else CADRE_EDATA with place and value. */
cadre_status cadre_check_ids(const cadre_tensor *ids, int64_t vocab, const char *what);

#endif
