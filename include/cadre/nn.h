/* SPDX-License-Identifier: Apache-2.0
 *
 * Cadre, nn: a model is a chain of blocks. A block owns its parameters and maps one tensor to one
 * tensor; the last ends in a loss. Everything the system does (bucket, shard, gather, cut,
 * recompute, checkpoint) it does to blocks.
 */
#ifndef CADRE_NN_H
#define CADRE_NN_H

#include <cadre/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_block cadre_block;
typedef struct cadre_model cadre_model;

/* How a parameter starts. The draw is keyed by (seed, parameter name, element), so it is the same
 * on every layout. */
typedef struct cadre_init {
    int32_t kind; /* 0 zeros, 1 ones, 2 normal (0, a), 3 uniform (-a, a) */
    float a;
} cadre_init;
CADRE_API cadre_init cadre_zeros(void);
CADRE_API cadre_init cadre_ones(void);
CADRE_API cadre_init cadre_normal(float std);
CADRE_API cadre_init cadre_uniform(float bound);

/* Local, inside a `params` function. Declares a parameter of this block under its global name; a
 * name used twice in a model is CADRE_EUSAGE. The first failure sticks to the block. Parameters
 * with two or more dims are weight-decayed by default. */
CADRE_API cadre_status cadre_param(cadre_block *b, const char *name, cadre_dims dims,
                                   cadre_init init);
/* Declares a use of a parameter that an earlier block owns (a tied head). */
CADRE_API cadre_status cadre_param_tied(cadre_block *b, const char *name);

/* Local, inside a `forward` function. The parameter this block declared under `name`. An unknown
 * name gives a handle that makes the recorder fail with the block's name and the nearest one. */
CADRE_API const cadre_parameter *cadre_p(const cadre_block *b, const char *name);
/* The argument that the block kind was given. */
CADRE_API const void *cadre_block_arg(const cadre_block *b);

typedef cadre_status cadre_block_params_fn(cadre_block *b, const void *arg);
typedef cadre_tensor *cadre_block_forward_fn(cadre_tape *t, const cadre_block *b, cadre_tensor *x);

typedef struct cadre_block_kind {
    const char *name;
    cadre_block_params_fn *params;   /* names the parameters, once */
    cadre_block_forward_fn *forward; /* records; must not keep state */
    const void *arg;                 /* borrowed until the model is closed */
} cadre_block_kind;

#ifdef __cplusplus
#define CADRE_BLOCK(name, params, forward, arg)                                                    \
    cadre_block_kind {                                                                             \
        (name), (params), (forward), (arg)                                                         \
    }
#else
#define CADRE_BLOCK(name, params, forward, arg)                                                    \
    ((cadre_block_kind){(name), (params), (forward), (arg)})
#endif

/* Local. A model out of own blocks. Reads train.seed and precision from `set`. `chain` is copied.
 */
CADRE_API cadre_status cadre_model_chain(cadre_model **ret_model, const cadre_block_kind *chain,
                                         int blocks, const cadre_settings *set);
/* Local. A known model: model.kind and the rest of model.* . */
CADRE_API cadre_status cadre_model_open(cadre_model **ret_model, const cadre_settings *set);
CADRE_API int64_t cadre_model_parameters(const cadre_model *m); /* elements, tied ones once */
CADRE_API void cadre_model_close(cadre_model **m);

#ifdef __cplusplus
}
#endif
#endif
