/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_OPTIM_ADAMW_H
#define CADRE_OPTIM_ADAMW_H

#include "optim/optim.h"

/* The table's `apply` of adamw; state[0] is m, state[1] is v. */
void cadre_adamw_apply(const cadre_optim_cfg *cfg, const cadre_segment *segments, int count,
                       const cadre_optim_step *step, const cadre_optim_arrays *arrays,
                       cadre_pool *pool);

#endif
