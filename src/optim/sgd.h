/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_OPTIM_SGD_H
#define CADRE_OPTIM_SGD_H

#include "optim/optim.h"

/* The table's `apply` of sgd; state[0] is the momentum buffer, untouched at momentum 0. */
void cadre_sgd_apply(const cadre_optim_cfg *cfg, const cadre_segment *segments, int count,
                     const cadre_optim_step *step, const cadre_optim_arrays *arrays,
                     cadre_pool *pool);

#endif
