/* SPDX-License-Identifier: Apache-2.0
 *
 * One collective checked element by element, for the tests of this folder. Every rank knows every
 * rank's input (a function of rank and place), so each checks its own output against the tree T
 * evaluated directly.
 */
#ifndef CADRE_TESTS_COMM_COLLECTIVES_H
#define CADRE_TESTS_COMM_COLLECTIVES_H

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "support/ranks.h"
#include "tensor/tensor.h"

typedef enum collective {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    ALL_TO_ALL,
    COLLECTIVES
} collective;

typedef struct collective_case {
    collective kind;
    cadre_dtype dtype;
    cadre_reduction op;
    int64_t count;
    int root;
    bool heap, in_place;
    int64_t salt; /* makes the inputs of one case its own */
} collective_case;

static inline double input_value(const collective_case *c, int rank, int64_t i) {
    uint64_t x = (uint64_t)(c->salt * 1000003 + rank * 7919 + i + 1) * 0x9E3779B97F4A7C15u;
    return (double)((int64_t)(x >> 44) - (1 << 19)) /
           (c->dtype == CADRE_I32 || c->dtype == CADRE_I64 ? 1 : 3000.0);
}

static inline void store(cadre_dtype dtype, void *at, int64_t i, double value) {
    switch (dtype) {
    case CADRE_F32:
        ((float *)at)[i] = (float)value;
        break;
    case CADRE_F64:
        ((double *)at)[i] = value;
        break;
    case CADRE_BF16:
        ((uint16_t *)at)[i] = cadre_f32_to_bf16((float)value);
        break;
    case CADRE_I32:
        ((int32_t *)at)[i] = (int32_t)value;
        break;
    case CADRE_I64:
        ((int64_t *)at)[i] = (int64_t)value;
        break;
    default:
        abort();
    }
}

/* One element's sum along T, in the arithmetic of the type. */
static inline double pair_of(const collective_case *c, double a, double b) {
    if (c->op == CADRE_MAX) return a > b ? a : b;
    if (c->op == CADRE_MIN) return a < b ? a : b;
    return c->dtype == CADRE_F32 || c->dtype == CADRE_BF16 ? (double)((float)a + (float)b) : a + b;
}

static inline double rounded_input(const collective_case *c, int rank, int64_t i) {
    double x = input_value(c, rank, i);
    if (c->dtype == CADRE_F32) return (float)x;
    if (c->dtype == CADRE_BF16) return cadre_bf16_to_f32(cadre_f32_to_bf16((float)x));
    return x;
}

static inline double tree_of(const collective_case *c, int a, int b, int64_t i) {
    if (b - a == 1) return rounded_input(c, a, i);
    int m = 1;
    while (m * 2 < b - a) m *= 2;
    return pair_of(c, tree_of(c, a, a + m, i), tree_of(c, a + m, b, i));
}

static inline double expected(const collective_case *c, int rank, int size, int64_t i) {
    int64_t n = c->count;
    switch (c->kind) {
    case ALL_REDUCE:
        return tree_of(c, 0, size, i);
    case REDUCE_SCATTER:
        return tree_of(c, 0, size, rank * n + i);
    case ALL_GATHER:
        return rounded_input(c, (int)(i / n), i % n);
    case BROADCAST:
        return rounded_input(c, c->root, i);
    default:
        return rounded_input(c, (int)(i / n), rank * n + i % n); /* all_to_all */
    }
}

static inline cadre_status take(test_rank *me, bool heap, size_t bytes, void **ret) {
    if (heap) return cadre_comm_alloc(me->comm, bytes, ret);
    return cadre_alloc(ret, CADRE_MEM_OTHER, bytes);
}

static inline void give(test_rank *me, bool heap, void *p) {
    if (heap)
        cadre_comm_free(me->comm, p);
    else
        cadre_free(&p);
}

static inline cadre_status call(test_rank *me, const collective_case *c, void *in, void *out,
                                const char *name, cadre_work **work) {
    switch (c->kind) {
    case ALL_REDUCE:
        return cadre_all_reduce(me->comm, in, out, c->count, c->dtype, c->op, name, work);
    case REDUCE_SCATTER:
        return cadre_reduce_scatter(me->comm, in, out, c->count, c->dtype, c->op, name, work);
    case ALL_GATHER:
        return cadre_all_gather(me->comm, in, out, c->count, c->dtype, name, work);
    case BROADCAST:
        return cadre_broadcast(me->comm, out, c->count, c->dtype, c->root, name, work);
    default:
        return cadre_all_to_all(me->comm, in, out, c->count, c->dtype, name, work);
    }
}

/* A case in flight: memory and handle. Whose memory lies in the heap differs between ranks and
 * between `in` and `out` in some cases. */
typedef struct flight {
    collective_case c;
    void *in, *out, *base[2];
    bool heap[2];
    int64_t outs;
    cadre_work *work;
} flight;

static inline cadre_status start(test_rank *me, const collective_case *c, flight *ret,
                                 bool blocking) {
    bool alone = c->salt % 3 == 0 && me->rank % 2, apart = c->salt % 5 == 0;
    flight f = {.c = *c, .heap = {c->heap != alone, (c->heap != alone) != apart}};
    size_t size = cadre_dtype_size(c->dtype);
    int64_t ins =
        c->kind == REDUCE_SCATTER || c->kind == ALL_TO_ALL ? c->count * me->size : c->count;
    f.outs = c->kind == ALL_GATHER || c->kind == ALL_TO_ALL ? c->count * me->size : c->count;
    bool one = c->kind == BROADCAST || (c->in_place && c->kind != ALL_TO_ALL);
    int64_t most = ins > f.outs ? ins : f.outs;
    CADRE_TRY(take(me, f.heap[0], (size_t)(one ? most : ins) * size, &f.base[0]));
    if (!one) CADRE_TRY(take(me, f.heap[1], (size_t)f.outs * size, &f.base[1]));
    char *shared = f.base[0];
    f.in = one && c->kind == ALL_GATHER ? shared + (size_t)(me->rank * c->count) * size : shared;
    f.out = !one                        ? f.base[1]
            : c->kind == REDUCE_SCATTER ? shared + (size_t)(me->rank * c->count) * size
                                        : shared;
    for (int64_t i = 0; i < ins; i++) store(c->dtype, f.in, i, input_value(c, me->rank, i));
    *ret = f;
    return call(me, c, f.in, f.out, "case", blocking ? NULL : &ret->work);
}

static inline cadre_status finish(test_rank *me, flight *f) {
    CADRE_TRY(cadre_work_wait(&f->work, cadre_in_ms(60000)));
    double want[1];
    size_t size = cadre_dtype_size(f->c.dtype);
    for (int64_t i = 0; i < f->outs; i++) {
        store(f->c.dtype, want, 0, expected(&f->c, me->rank, me->size, i));
        if (memcmp(want, (char *)f->out + (size_t)i * size, size) != 0)
            return CADRE_FAIL(
                CADRE_EINTERNAL,
                "kind %d %s op %d count %lld heap %d in place %d: element %lld differs", f->c.kind,
                cadre_dtype_name(f->c.dtype), f->c.op, (long long)f->c.count, f->c.heap,
                f->c.in_place, (long long)i);
    }
    give(me, f->heap[0], f->base[0]);
    if (f->base[1]) give(me, f->heap[1], f->base[1]);
    return CADRE_OK;
}

#endif
