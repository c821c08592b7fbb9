/* SPDX-License-Identifier: Apache-2.0
 *
 * A store that writes down what it is asked: "=w " a gradient written, "+w " added, "!w " ready.
 */
#ifndef CADRE_TESTS_WITNESS_H
#define CADRE_TESTS_WITNESS_H

#include "tape_of.h"

typedef struct witness {
    bench *b;
    char said[4096];
    uint32_t frozen; /* a bit for each parameter that is not trained */
    bool knows;      /* has `wanted` too */
    int between;
} witness;

static inline bool is_frozen(const witness *w, const cadre_parameter *p) {
    return (w->frozen >> p->id & 1) != 0;
}

static inline void say(witness *w, const char *what, const char *name) {
    size_t at = strlen(w->said);
    snprintf(w->said + at, sizeof w->said - at, "%s%s ", what, name);
}

static inline void *witness_value(void *self, const cadre_parameter *p) {
    return cadre_plain_store_value(((witness *)self)->b->store, p->id);
}

static inline void *witness_gradient(void *self, const cadre_parameter *p, bool *ret_add) {
    witness *w = self;
    const cadre_param_store *plain = cadre_plain_store_view(w->b->store);
    if (is_frozen(w, p)) return NULL;
    void *to = plain->gradient(plain->self, p, ret_add);
    say(w, *ret_add ? "+" : "=", p->name);
    return to;
}

static inline cadre_status witness_ready(void *self, const cadre_parameter *p) {
    say(self, "!", p->name);
    return CADRE_OK;
}

static inline cadre_status witness_between(void *self) {
    ((witness *)self)->between++;
    return CADRE_OK;
}

static inline bool witness_wanted(void *self, const cadre_parameter *p) {
    return !is_frozen(self, p);
}

static inline cadre_param_store witness_view(witness *w) {
    return (cadre_param_store){.self = w,
                               .value = witness_value,
                               .gradient = witness_gradient,
                               .ready = witness_ready,
                               .between = witness_between,
                               .wanted = w->knows ? witness_wanted : NULL};
}

#endif
