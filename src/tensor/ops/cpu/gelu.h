/* SPDX-License-Identifier: Apache-2.0
 *
 * GELU over a range of elements, for the operation alone and for the one that is fused with a
 * linear layer.
 */
#ifndef CADRE_TENSOR_OPS_CPU_GELU_H
#define CADRE_TENSOR_OPS_CPU_GELU_H

#include "tensor/tensor.h"

/* to = gelu(from), elements [begin, end). */
void cadre_gelu_pieces(const cadre_tensor *from, const cadre_tensor *to, int64_t begin,
                       int64_t end);
/* to [+]= gradient x gelu'(from); `to` may be `from`. */
void cadre_gelu_back_pieces(const cadre_tensor *from, const cadre_tensor *gradient,
                            const cadre_tensor *to, bool add, int64_t begin, int64_t end);

#endif
