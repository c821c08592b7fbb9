/* SPDX-License-Identifier: Apache-2.0
 *
 * The flat span: an index space that every parameter of a model has its place in, block after
 * block. Each parameter begins on a chunk of 1,024 elements; the padding between stays zero.
 * Values are an array over all of it. Frozen parameters come after the trained ones, so that
 * gradients and optimizer state are arrays over its first part alone.
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
    int64_t trained; /* elements before the first frozen parameter, padding included */
} cadre_span;

/* Local. `freeze`: patterns of names; one that matches no parameter is CADRE_EUSAGE and names the
 * nearest. The model is borrowed until close. */
cadre_status cadre_span_open(cadre_span *ret_span, const cadre_model *model,
                             const cadre_list *freeze);
void cadre_span_close(cadre_span *span);
/* Local. Is `name` matched by one of the patterns? */
bool cadre_list_matches(const cadre_list *patterns, const char *name);
/* Local. CADRE_EUSAGE when a pattern matches no parameter; `setting` is named. */
cadre_status cadre_list_check(const cadre_list *patterns, const cadre_model *model,
                              const char *setting);
/* Local. A hash of names, shapes, types and what is frozen. */
uint64_t cadre_span_hash(const cadre_span *span, const cadre_model *model);

#endif
