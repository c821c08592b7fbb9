/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of optimizers, in the order of cadre_optim_kind.
 */
#include <math.h>

#include "optim/adamw.h"
#include "optim/optim.h"
#include "optim/sgd.h"

const cadre_optimizer cadre_optimizers[] = {
    [CADRE_ADAMW] = {.name = "adamw",
                     .help = "Adam with decoupled weight decay (Loshchilov, Hutter 2019)",
                     .states = 2,
                     .state_name = {"adamw.m", "adamw.v"},
                     .default_lr = 6e-4,
                     .apply = cadre_adamw_apply},
    [CADRE_SGD] = {.name = "sgd",
                   .help = "stochastic gradient descent, with momentum and weight decay",
                   .states = 1,
                   .state_name = {"sgd.momentum"},
                   .default_lr = NAN,
                   .apply = cadre_sgd_apply},
    [CADRE_LAMB] = {.name = "lamb", .help = "not built yet", .default_lr = NAN},
    [CADRE_LARS] = {.name = "lars", .help = "not built yet", .default_lr = NAN},
};
const int cadre_optimizer_count = CADRE_COUNT(cadre_optimizers);
