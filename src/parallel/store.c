/* SPDX-License-Identifier: Apache-2.0
 *
 * How a tape reaches the parameters of a context: an address is a base plus the parameter's place
 * in the span. Gradients accumulate over the micro-batches of a step: the first use overwrites.
 */
#include "parallel/context.h"

enum { PROGRESS_NS = 200000 }; /* communication's turn between two operations, at most about */

static char *at_offset(void *base, cadre_dtype dtype, const cadre_span *span, int id) {
    return (char *)base + (size_t)span->param[id].offset * cadre_dtype_size(dtype);
}

static bool has_master(const cadre_parallel *p, int id) {
    return p->master && !p->span.param[id].frozen;
}

void *cadre_parallel_value(cadre_parallel *p, int id) {
    void *base = has_master(p, id) ? (void *)p->master : p->values;
    return base ? at_offset(base, cadre_parallel_value_dtype(p, id), &p->span, id) : NULL;
}

cadre_dtype cadre_parallel_value_dtype(const cadre_parallel *p, int id) {
    return p->span.param[id].frozen ? p->span.dtype : p->master_dtype;
}

cadre_dtype cadre_parallel_gradient_dtype(const cadre_parallel *p) {
    return p->gradient_dtype;
}

void *cadre_parallel_gradient(cadre_parallel *p, int id) {
    return p->gradients && !p->span.param[id].frozen
               ? at_offset(p->gradients, p->gradient_dtype, &p->span, id)
               : NULL;
}

void *cadre_parallel_state(cadre_parallel *p, int id, int k) {
    if (k < 0 || k >= CADRE_OPTIM_STATES || !p->state[k] || p->span.param[id].frozen) return NULL;
    return at_offset(p->state[k], p->master_dtype, &p->span, id);
}

static void settle_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const cadre_parallel *p = arg;
    cadre_narrow(p->master + begin, (uint16_t *)p->values + begin, end - begin);
}

void cadre_parallel_settle(cadre_parallel *p) {
    if (p->master) cadre_pool_for(p->queue->pool, p->span.trained, CADRE_CHUNK, settle_range, p);
}

/* What the model computes with. */
static void *value(void *self, const cadre_parameter *param) {
    cadre_parallel *p = self;
    return p->values ? at_offset(p->values, p->span.dtype, &p->span, param->id) : NULL;
}

static bool wanted(void *self, const cadre_parameter *param) {
    const cadre_parallel *p = self;
    return !p->span.param[param->id].frozen;
}

static void *gradient(void *self, const cadre_parameter *param, bool *ret_add) {
    cadre_parallel *p = self;
    static char somewhere; /* on meta: an address that is not NULL and that no kernel touches */
    if (p->span.param[param->id].frozen) return NULL;
    *ret_add = p->written[param->id] == p->serial;
    p->written[param->id] = p->serial;
    return p->queue->meta ? &somewhere : cadre_parallel_gradient(p, param->id);
}

static cadre_status ready(void *self, const cadre_parameter *param) {
    cadre_parallel *p = self;
    int item = p->param_item[param->id];
    if (item < 0 || !p->last_micro || p->queue->meta) return CADRE_OK;
    return cadre_buckets_ready(p->buckets, item);
}

static cadre_status between(void *self) {
    cadre_parallel *p = self;
    if (!cadre_buckets_in_flight(p->buckets)) return CADRE_OK;
    return cadre_comm_progress(p->world, PROGRESS_NS);
}

static void *no_gradient(void *self, const cadre_parameter *param, bool *ret_add) {
    (void)self;
    (void)param;
    *ret_add = false;
    return NULL;
}

void cadre_parallel_stores(cadre_parallel *p) {
    p->training = (cadre_param_store){.self = p,
                                      .value = value,
                                      .gradient = gradient,
                                      .gradient_dtype = p->gradient_dtype,
                                      .ready = ready,
                                      .between = between,
                                      .wanted = wanted};
    p->reading = (cadre_param_store){.self = p, .value = value, .gradient = no_gradient};
}

cadre_status cadre_parallel_tape(cadre_parallel *p, cadre_tape **ret_tape) {
    CADRE_TRY(cadre_tape_open(ret_tape, p->queue, &p->reading, p->span.dtype));
    cadre_tape_borrow(*ret_tape, p->tape);
    return CADRE_OK;
}

typedef struct scan {
    const void *gradients;
    cadre_dtype dtype;
    int64_t first;
    bool bad; /* set by any worker, to the one value */
} scan;

static void scan_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    scan *s = arg;
    if (cadre_any_nonfinite(s->gradients, s->dtype, s->first + begin, end - begin))
        __atomic_store_n(&s->bad, true, __ATOMIC_RELAXED);
}

void cadre_parallel_scan(void *self, int bucket) {
    cadre_parallel *p = self;
    const cadre_bucket_range *r = cadre_buckets_range(p->buckets, bucket);
    scan s = {p->gradients, p->gradient_dtype, r->first, false};
    if (p->bad_param >= 0) return;
    cadre_pool_for(p->queue->pool, r->end - r->first, 64 * CADRE_CHUNK, scan_range, &s);
    if (!s.bad) return;
    /* Backward order: where a value first left the finite numbers on its way back. */
    for (int i = r->end_param - 1; i >= r->first_param && p->bad_param < 0; i--)
        if (cadre_any_nonfinite(p->gradients, p->gradient_dtype, p->item[i].offset,
                                p->item[i].count))
            p->bad_param = p->item_param[i];
}
