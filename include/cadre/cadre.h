/* SPDX-License-Identifier: Apache-2.0
 *
 * Cadre: distributed training of neural networks in C. This header brings in the whole interface,
 * in tiers:
 *
 *   1. one call                    cadre_train_file                     <cadre/train.h>
 * examples/01_one_call.c
 *   2. own model, own loop         cadre_model_chain, cadre_trainer_*   <cadre/train.h>
 * examples/02_own_loop.c blocks and formulas                  <cadre/nn.h> <cadre/tape.h>
 *   3. own arrays and gradients    cadre_sync_*                         <cadre/parallel.h>
 * examples/03_own_gradients.c single pieces                  collectives <cadre/comm.h>
 *
 * Compiles as C99 and C++11. Contracts (statuses, ownership, who must call): <cadre/base.h>.
 */
#ifndef CADRE_CADRE_H
#define CADRE_CADRE_H

#include <cadre/base.h>
#include <cadre/comm.h>
#include <cadre/nn.h>
#include <cadre/parallel.h>
#include <cadre/tape.h>
#include <cadre/tensor.h>
#include <cadre/train.h>

#endif
