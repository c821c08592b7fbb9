/* SPDX-License-Identifier: Apache-2.0
 *
 * How reference kernels read and write: any element as a double, rounded once when stored. Slow and
 * obviously right.
 */
#ifndef CADRE_TENSOR_OPS_REF_H
#define CADRE_TENSOR_OPS_REF_H

#include <math.h>

#include "tensor/ops/ops.h"

static inline double at(const cadre_tensor *t, int64_t i) {
    if (t->dtype == CADRE_F64) return ((const double *)t->data)[i];
    if (t->dtype == CADRE_BF16) return (double)cadre_bf16_to_f32(((const uint16_t *)t->data)[i]);
    return (double)((const float *)t->data)[i];
}

static inline void put(cadre_tensor *t, int64_t i, double value) {
    if (t->dtype == CADRE_F64)
        ((double *)t->data)[i] = value;
    else if (t->dtype == CADRE_BF16)
        ((uint16_t *)t->data)[i] = cadre_f64_to_bf16(value);
    else
        ((float *)t->data)[i] = (float)value;
}

static inline void put_or_add(cadre_tensor *t, int64_t i, double value, bool add) {
    put(t, i, add ? at(t, i) + value : value);
}

/* For infer: the dtype of activations is f32, f64 or bf16. */
#define CADRE_CHECK_REAL(c)                                                                        \
    CADRE_CHECK(cadre_is_real((c)->in[0]->dtype), CADRE_EUSAGE,                                    \
                "%s takes f32, f64 or bf16, not %s", cadre_op_table[(c)->op].name,                 \
                cadre_dtype_name((c)->in[0]->dtype))

/* For infer: parameters are of the input's dtype. */
#define CADRE_CHECK_ALIKE(c)                                                                       \
    for (int k_ = 0; k_ < CADRE_OP_PARAM; k_++)                                                    \
    CADRE_CHECK(!(c)->param[k_] || (c)->param[k_]->dtype == (c)->in[0]->dtype, CADRE_EUSAGE,       \
                "%s: the input is %s, parameter %d is %s; they must be of one type",               \
                cadre_op_table[(c)->op].name, cadre_dtype_name((c)->in[0]->dtype), k_,             \
                cadre_dtype_name((c)->param[k_]->dtype))

/* Nothing made: the start of every infer. */
static inline cadre_inferred cadre_nothing_made(void) {
    cadre_inferred made = {0};
    for (int i = 0; i < CADRE_OP_SAVED; i++) made.saved[i].dims.n = -1;
    made.scratch.dims.n = -1;
    return made;
}

#define CADRE_GELU_SCALE 0.79788456080286535588 /* sqrt(2 / pi) */
#define CADRE_GELU_CUBE 0.044715

static inline double cadre_gelu_of(double x) {
    return 0.5 * x * (1 + tanh(CADRE_GELU_SCALE * (x + CADRE_GELU_CUBE * x * x * x)));
}

static inline double cadre_gelu_slope(double x) {
    double t = tanh(CADRE_GELU_SCALE * (x + CADRE_GELU_CUBE * x * x * x));
    return 0.5 * (1 + t) +
           0.5 * x * (1 - t * t) * CADRE_GELU_SCALE * (1 + 3 * CADRE_GELU_CUBE * x * x);
}

#endif
