/* SPDX-License-Identifier: Apache-2.0
 *
 * One array a parameter and, when wanted, one a gradient; the first use after a zero overwrites.
 */
#include "tape/plain_store.h"

#include "base/alloc.h"
#include "base/status.h"
#include "tensor/tensor.h"

typedef struct plain_entry {
    void *value, *gradient;
    bool written;
} plain_entry;

struct cadre_plain_store {
    plain_entry *entries; /* by parameter id */
    int count;
    cadre_param_store view;
};

static void *value(void *self, const cadre_parameter *p) {
    return cadre_plain_store_value(self, p->id);
}

static void *gradient(void *self, const cadre_parameter *p, bool *ret_add) {
    cadre_plain_store *s = self;
    plain_entry *e = &s->entries[p->id];
    *ret_add = e->written;
    e->written = true;
    return e->gradient;
}

static bool wanted(void *self, const cadre_parameter *p) {
    return cadre_plain_store_gradient(self, p->id) != NULL;
}

static cadre_status make_entry(plain_entry *e, const cadre_parameter *p, bool gradients) {
    int64_t n = cadre_dims_count(&p->dims);
    size_t size = cadre_dtype_size(p->dtype), wide = cadre_dtype_size(cadre_sum_dtype(p->dtype));
    CADRE_TRY(cadre_alloc_array(&e->value, CADRE_MEM_PARAMETERS, n, size));
    return gradients ? cadre_alloc_array(&e->gradient, CADRE_MEM_GRADIENTS, n, wide) : CADRE_OK;
}

cadre_status cadre_plain_store_open(cadre_plain_store **ret_store,
                                    const cadre_parameter *const *params, int count,
                                    bool gradients) {
    cadre_plain_store *s = NULL;
    CADRE_TRY(cadre_alloc(&s, CADRE_MEM_OTHER, sizeof *s));
    cadre_status st = cadre_alloc_array(&s->entries, CADRE_MEM_OTHER, count, sizeof *s->entries);
    for (int i = 0; !st && i < count; i++, s->count++)
        st = make_entry(&s->entries[i], params[i], gradients);
    if (st) {
        s->count = s->entries ? count : 0;
        cadre_plain_store_close(&s);
        return st;
    }
    s->view =
        (cadre_param_store){.self = s,
                            .value = value,
                            .gradient = gradient,
                            .gradient_dtype = count ? cadre_sum_dtype(params[0]->dtype) : CADRE_F32,
                            .wanted = wanted};
    *ret_store = s;
    return CADRE_OK;
}

const cadre_param_store *cadre_plain_store_view(cadre_plain_store *s) {
    return &s->view;
}

void *cadre_plain_store_value(cadre_plain_store *s, int id) {
    return s->entries[id].value;
}

void *cadre_plain_store_gradient(cadre_plain_store *s, int id) {
    return s->entries[id].gradient;
}

void cadre_plain_store_zero(cadre_plain_store *s) {
    for (int i = 0; i < s->count; i++) s->entries[i].written = false;
}

void cadre_plain_store_close(cadre_plain_store **store) {
    cadre_plain_store *s = *store;
    if (!s) return;
    for (int i = 0; i < s->count; i++) {
        cadre_free(&s->entries[i].value);
        cadre_free(&s->entries[i].gradient);
    }
    cadre_free(&s->entries);
    cadre_free(store);
}
