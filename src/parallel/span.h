/* SPDX-License-Identifier: Apache-2.0
 *
 * The flat span: an index space that every parameter of a model has its place in, block after
 * block. Each parameter begins on a chunk of 1,024 elements; the padding between stays zero.
 * Values, gradients and optimizer state are arrays over it.
 */
#ifndef CADRE_PARALLEL_SPAN_H
#define CADRE_PARALLEL_SPAN_H

#include "nn/model.h"

enum { CADRE_CHUNK = 1024 };

typedef struct cadre_span_param {
    int64_t offset, count; /* elements */
    const char *name;
    bool frozen;
} cadre_span_param;

typedef struct cadre_span {
    cadre_dtype dtype;
    int params;
    cadre_span_param *param;
    int64_t length;  /* elements, padding included: a multiple of CADRE_CHUNK */
    int64_t padding; /* elements of it */
} cadre_span;

#endif
