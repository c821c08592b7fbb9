/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of nn share: the inside of a model, and how the known kinds build theirs.
 */
#ifndef CADRE_NN_PRIVATE_H
#define CADRE_NN_PRIVATE_H

#include "base/alloc.h"
#include "nn/model.h"

typedef struct model_param {
    cadre_parameter p; /* first: its address is the handle */
    cadre_init init;
    uint64_t name_hash;
} model_param;

typedef struct model_tie {
    int block, param;
} model_tie;

struct cadre_model {
    cadre_block *blocks;
    int block_count;
    model_param *params;
    int param_count, param_room;
    model_tie *ties;
    int tie_count;
    uint64_t weight_key;
    cadre_dtype dtype;
    cadre_settings *settings; /* a known model's own, resolved; owns the texts in `cfg` */
    cadre_model_cfg cfg;
    int64_t context;
};

/* The k-th parameter that the block declared, own or tied, in the order of its params function. */
const cadre_parameter *cadre_block_param(const cadre_block *b, int k);
/* Runs the params functions; the names of the blocks are copied. */
cadre_status cadre_model_build(cadre_model *m, const cadre_block_kind *chain, int blocks);
/* Reads train.seed and precision.compute; `set` may be NULL. */
cadre_status cadre_model_set_up(cadre_model *m, const cadre_settings *set);

/* A known kind declares its chain on a model whose cfg is filled in. */
cadre_status cadre_gpt2_build(cadre_model *m);
cadre_status cadre_mlp_build(cadre_model *m);

#endif
