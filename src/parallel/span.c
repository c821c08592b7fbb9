/* SPDX-License-Identifier: Apache-2.0
 *
 * Laying a model's parameters out: the trained ones in model order, then the frozen ones.
 */
#include "parallel/span.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

bool cadre_list_matches(const cadre_list *patterns, const char *name) {
    for (int i = 0; i < patterns->count; i++)
        if (cadre_glob(patterns->at[i], name)) return true;
    return false;
}

/* The parameter's name nearest to a pattern that matches nothing; the first name when none is. */
static const char *nearest_name(const char *pattern, const cadre_model *model) {
    const char *best = cadre_model_param(model, 0)->name;
    int least = cadre_distance(pattern, best);
    for (int id = 1; id < cadre_model_param_count(model); id++) {
        const char *name = cadre_model_param(model, id)->name;
        int distance = cadre_distance(pattern, name);
        if (distance < least) {
            least = distance;
            best = name;
        }
    }
    return best;
}

cadre_status cadre_list_check(const cadre_list *patterns, const cadre_model *model,
                              const char *setting) {
    int params = cadre_model_param_count(model);
    for (int i = 0; i < patterns->count; i++) {
        bool found = false;
        for (int id = 0; id < params && !found; id++)
            found = cadre_glob(patterns->at[i], cadre_model_param(model, id)->name);
        CADRE_CHECK(found, CADRE_EUSAGE,
                    "%s: no parameter's name matches \"%s\"; the nearest is \"%s\"", setting,
                    patterns->at[i], params > 0 ? nearest_name(patterns->at[i], model) : "");
    }
    return CADRE_OK;
}

/* Places the parameters that are frozen, or those that are not, from `at` on; returns the end. */
static int64_t place(cadre_span *span, bool frozen, int64_t at) {
    for (int id = 0; id < span->params; id++) {
        cadre_span_param *p = &span->param[id];
        if (p->frozen != frozen) continue;
        int64_t room = (p->count + CADRE_CHUNK - 1) / CADRE_CHUNK * CADRE_CHUNK;
        p->offset = at;
        span->padding += room - p->count;
        at += room;
    }
    return at;
}

cadre_status cadre_span_open(cadre_span *ret_span, const cadre_model *model,
                             const cadre_list *freeze) {
    CADRE_TRY(cadre_list_check(freeze, model, "optim.freeze"));
    cadre_span span = {.dtype = cadre_model_dtype(model), .params = cadre_model_param_count(model)};
    CADRE_TRY(cadre_alloc_array(&span.param, CADRE_MEM_OTHER, span.params, sizeof *span.param));
    for (int id = 0; id < span.params; id++) {
        const cadre_parameter *p = cadre_model_param(model, id);
        span.param[id] = (cadre_span_param){.count = cadre_dims_count(&p->dims),
                                            .name = p->name,
                                            .frozen = cadre_list_matches(freeze, p->name)};
    }
    span.trained = place(&span, false, 0);
    span.length = place(&span, true, span.trained);
    *ret_span = span;
    return CADRE_OK;
}

uint64_t cadre_span_hash(const cadre_span *span, const cadre_model *model) {
    uint64_t hash = (uint64_t)span->dtype;
    for (int id = 0; id < span->params; id++) {
        const cadre_parameter *p = cadre_model_param(model, id);
        int64_t frozen = span->param[id].frozen;
        hash = cadre_hash(p->name, strlen(p->name), hash);
        hash = cadre_hash(p->dims.at, (size_t)p->dims.n * sizeof p->dims.at[0], hash);
        hash = cadre_hash(&frozen, sizeof frozen, hash);
    }
    return hash;
}

void cadre_span_close(cadre_span *span) {
    cadre_free(&span->param);
    *span = (cadre_span){0};
}
