/* SPDX-License-Identifier: Apache-2.0
 *
 * A model: its blocks, its parameters in block order, how they start. It knows no ranks and holds
 * no numbers.
 */
#ifndef CADRE_NN_MODEL_H
#define CADRE_NN_MODEL_H

#include <cadre/nn.h>

#include "nn/settings.h"
#include "tape/tape.h"

struct cadre_block {
    const char *name; /* "transformer.h.0" */
    int index;
    cadre_block_kind kind;
    cadre_model *model;
    int first_param, param_count; /* own parameters: ids [first, first + count) */
    cadre_status status;          /* first failure of its params function */
};

int cadre_model_block_count(const cadre_model *m);
const cadre_block *cadre_model_block(const cadre_model *m, int i);
int cadre_model_param_count(const cadre_model *m);
const cadre_parameter *cadre_model_param(const cadre_model *m, int id);
const cadre_parameter *cadre_model_find(const cadre_model *m,
                                        const char *name);       /* NULL when unknown */
cadre_dtype cadre_model_dtype(const cadre_model *m);             /* by precision.compute */
const cadre_model_cfg *cadre_model_config(const cadre_model *m); /* NULL for an own chain */
int64_t
cadre_model_context(const cadre_model *m); /* tokens a sample at most; 0: not a token model */

/* Draws elements [first, first + count) of a parameter's start into `ret`, as `dtype`: any
 * rank can draw any part. */
void cadre_model_draw(const cadre_model *m, const cadre_parameter *p, int64_t first, int64_t count,
                      cadre_dtype dtype, void *ret);

/* Records block `i` / all blocks on the tape. Returns what the (last) block returned: the loss, or
 * logits without labels. */
cadre_tensor *cadre_model_forward_block(const cadre_model *m, int i, cadre_tape *t,
                                        cadre_tensor *x);
cadre_tensor *cadre_model_forward(const cadre_model *m, cadre_tape *t);

/* config.json as Hugging Face writes it for this kind; CADRE_EUSAGE for an own chain. Appends to
 * `to`. */
cadre_status cadre_model_config_json(const cadre_model *m, cadre_text *to);
/* Reads a config.json into model.* settings (source: file) and resolves these. An unknown
 * model_type, and values that no model has, are CADRE_EDATA. */
cadre_status cadre_model_config_read(cadre_settings *set, const char *json, size_t bytes,
                                     const char *label);
/* The same as derived values of `set`, for weights that are given (model.from). What is given
 * there, or by a preset, has to agree: CADRE_EUSAGE naming both. model.dropout is free, its value
 * in config.json the default. */
cadre_status cadre_model_apply_config(cadre_settings *set, const char *json, size_t bytes,
                                      const char *label);

/* The known kinds, one row each (nn/kinds.c); --help and tests walk it. */
typedef struct cadre_model_kind {
    const char *name, *help;
    cadre_status (*open)(cadre_model **ret_model, const cadre_settings *set,
                         const cadre_model_cfg *cfg);
} cadre_model_kind;
extern const cadre_model_kind cadre_model_kinds[];
extern const int cadre_model_kind_count;
/* Refuses the kinds whose names are reserved. */
cadre_status cadre_model_kind_check(int kind);

#endif
