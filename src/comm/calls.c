/* SPDX-License-Identifier: Apache-2.0
 *
 * The public operations: each becomes a descriptor and a work. Memory that is not in the heap is
 * copied where peers have to reach it.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "comm/engine.h"
#include "comm/reduce.h"

/* What a call needs beside its descriptor. */
typedef struct call_memory {
    const void *in;
    void *out;
    size_t in_bytes, out_bytes;
    bool peers_read_in, peers_write_out; /* then it has to lie in the heap */
    int peer;                            /* send, recv; else -1 */
} call_memory;

static cadre_status take_work(cadre_comm *c, cadre_work **ret) {
    cadre_work *w = c->spare;
    if (w) {
        c->spare = w->next;
        memset(w, 0, sizeof *w);
    } else {
        CADRE_TRY(cadre_alloc(&w, CADRE_MEM_OTHER, sizeof *w));
    }
    w->comm = c;
    *ret = w;
    return CADRE_OK;
}

static void give_work(cadre_comm *c, cadre_work *w) {
    for (int i = 0; i < 2; i++) cadre_heap_free(c->world, w->staged[i]);
    w->next = c->spare;
    c->spare = w;
}

static uint64_t place_of(const cadre_comm *c, const void *pointer) {
    return (uint64_t)((const char *)pointer - c->world->segment[c->world->rank].base) + 1;
}

static bool fits_slot(const call_memory *m, size_t bytes) {
    return m->peer < 0 && bytes <= CADRE_SLOT;
}

/* Puts `in` and `out` where peers reach them: they lie in the heap, or a slot or a copy in the heap
 * stands for them. A slot for both serves in place. */
static cadre_status stage(cadre_work *w, const call_memory *m) {
    cadre_world *world = w->comm->world;
    bool read = m->peers_read_in, written = m->peers_write_out && !w->eager;
    bool in_there = cadre_heap_owns(world, m->in), out_there = cadre_heap_owns(world, m->out);
    w->in = m->in;
    w->out = m->out;
    w->in_bytes = m->in_bytes;
    w->slot_in = read && (w->eager || (!in_there && fits_slot(m, m->in_bytes)));
    w->slot_out = written && !out_there && fits_slot(m, m->out_bytes);
    if (read && !in_there && !w->slot_in) {
        CADRE_TRY(cadre_heap_alloc(world, m->in_bytes, &w->staged[0]));
        memcpy(w->staged[0], m->in, m->in_bytes);
        w->in = w->staged[0];
    }
    if (written && !out_there) {
        if (!w->slot_out && !w->staged[0])
            CADRE_TRY(cadre_heap_alloc(world, m->out_bytes, &w->staged[1]));
        if (!w->slot_out) w->out = w->staged[0] ? w->staged[0] : w->staged[1]; /* in place */
        w->user_out = m->out;
        w->user_bytes = m->out_bytes;
    }
    if (read && !w->slot_in) w->call.in = place_of(w->comm, w->in);
    if (written && !w->slot_out) w->call.out = place_of(w->comm, w->out);
    return CADRE_OK;
}

static cadre_status check_state(cadre_comm *c) {
    if (c->broken) return cadre_error_restore(&c->error);
    char text[1024];
    int failed = cadre_comm_first_failure(c, text, sizeof text);
    if (failed < 0 || failed == c->rank) return CADRE_OK;
    return cadre_comm_break(c, CADRE_FAIL(CADRE_EPEER, "rank %d stopped: %s", failed, text));
}

static void enqueue(cadre_comm *c, cadre_work *w) {
    w->sequence = w->peer < 0                       ? c->called++
                  : w->call.kind == CADRE_CALL_SEND ? c->sent[w->peer]++
                                                    : c->wanted[w->peer]++;
    if (c->last)
        c->last->next = w;
    else
        c->first = w;
    c->last = w;
    c->in_flight++;
    if (w->slot_out) w->out = cadre_control_slot(c->control, c->rank, w->sequence);
    cadre_record_start(w);
}

static cadre_status submit(cadre_comm *c, const cadre_descriptor *d, const call_memory *m,
                           cadre_work **ret_work) {
    cadre_work *w = NULL;
    CADRE_TRY(check_state(c));
    CADRE_CHECK(!cadre_fault_here(), CADRE_ERESOURCE, "%s '%s' could not be posted",
                cadre_call_name(d->kind), d->name);
    CADRE_TRY(take_work(c, &w));
    w->call = *d;
    w->peer = m->peer;
    w->eager = m->peer < 0 && m->in_bytes <= CADRE_EAGER;
    cadre_status st = stage(w, m);
    if (st) {
        give_work(c, w);
        return st;
    }
    enqueue(c, w);
    c->stats.operations++;
    c->stats.bytes += d->count * (int64_t)cadre_dtype_size((cadre_dtype)d->dtype);
    bool moved;
    st = cadre_comm_advance(c, 0, &moved); /* posts it, and no more */
    if (st) return st;
    if (c->threaded) cadre_comm_ring(c, c->rank); /* the progress thread may have gone to sleep */
    *ret_work = w;
    return CADRE_OK;
}

static cadre_descriptor describe(cadre_kind_of_call kind, int64_t count, cadre_dtype dtype, int op,
                                 int root, const char *name) {
    cadre_descriptor d = {.count = count, .kind = kind, .dtype = dtype, .op = op, .root = root};
    size_t n = name ? strlen(name) : 0;
    memcpy(d.name, name ? name : "", n < CADRE_NAME ? n : CADRE_NAME - 1);
    return d;
}

/* Posts; with ret_work NULL also waits. */
static cadre_status run(cadre_comm *c, const cadre_descriptor *d, const call_memory *m,
                        cadre_work **ret_work) {
    cadre_work *w = NULL;
    int64_t count = d->count;
    CADRE_CHECK(count >= 0 && (uint64_t)d->dtype < CADRE_DTYPES, CADRE_EUSAGE,
                "%s '%s' of %lld elements of type %d", cadre_call_name(d->kind), d->name,
                (long long)count, d->dtype);
    cadre_comm_lock(c);
    cadre_status st = submit(c, d, m, &w);
    cadre_comm_unlock(c);
    if (st) return cadre_pass_at(__FILE__, __LINE__, __func__, st);
    if (ret_work) {
        *ret_work = w;
        return CADRE_OK;
    }
    return cadre_work_wait(&w, cadre_in_ms(c->world->opts.timeout_ms));
}

static cadre_status check_reduction(cadre_dtype dtype, cadre_reduction op, const char *name) {
    CADRE_CHECK(cadre_reducible(dtype), CADRE_EUSAGE,
                "'%s': reductions take f32, f64, bf16, i32 or i64, not %s", name ? name : "",
                cadre_dtype_name(dtype));
    CADRE_CHECK((int)op >= CADRE_SUM && op <= CADRE_MIN, CADRE_EUSAGE,
                "'%s': reduction %d is none of sum, max, min", name ? name : "", (int)op);
    return CADRE_OK;
}

cadre_status cadre_all_reduce(cadre_comm *comm, const void *in, void *out, int64_t count,
                              cadre_dtype dtype, cadre_reduction op, const char *name,
                              cadre_work **ret_work) {
    CADRE_TRY(check_reduction(dtype, op, name));
    cadre_descriptor d = describe(CADRE_CALL_ALL_REDUCE, count, dtype, op, -1, name);
    size_t bytes = (size_t)count * cadre_dtype_size(dtype);
    call_memory m = {in, out, bytes, bytes, true, true, -1};
    return run(comm, &d, &m, ret_work);
}

cadre_status cadre_reduce_scatter(cadre_comm *comm, const void *in, void *out, int64_t count,
                                  cadre_dtype dtype, cadre_reduction op, const char *name,
                                  cadre_work **ret_work) {
    CADRE_TRY(check_reduction(dtype, op, name));
    cadre_descriptor d = describe(CADRE_CALL_REDUCE_SCATTER, count, dtype, op, -1, name);
    size_t bytes = (size_t)count * cadre_dtype_size(dtype);
    call_memory m = {in, out, bytes * (size_t)comm->size, bytes, true, false, -1};
    return run(comm, &d, &m, ret_work);
}

cadre_status cadre_all_gather(cadre_comm *comm, const void *in, void *out, int64_t count,
                              cadre_dtype dtype, const char *name, cadre_work **ret_work) {
    cadre_descriptor d = describe(CADRE_CALL_ALL_GATHER, count, dtype, -1, -1, name);
    size_t bytes = (size_t)count * cadre_dtype_size(dtype);
    call_memory m = {in, out, bytes, bytes * (size_t)comm->size, true, false, -1};
    return run(comm, &d, &m, ret_work);
}

cadre_status cadre_broadcast(cadre_comm *comm, void *data, int64_t count, cadre_dtype dtype,
                             int root, const char *name, cadre_work **ret_work) {
    CADRE_CHECK(root >= 0 && root < comm->size, CADRE_EUSAGE, "broadcast '%s' from rank %d of %d",
                name ? name : "", root, comm->size);
    cadre_descriptor d = describe(CADRE_CALL_BROADCAST, count, dtype, -1, root, name);
    size_t bytes = (size_t)count * cadre_dtype_size(dtype);
    call_memory m = {data, data, bytes, bytes, comm->rank == root, false, -1};
    return run(comm, &d, &m, ret_work);
}

cadre_status cadre_all_to_all(cadre_comm *comm, const void *in, void *out, int64_t count,
                              cadre_dtype dtype, const char *name, cadre_work **ret_work) {
    cadre_descriptor d = describe(CADRE_CALL_ALL_TO_ALL, count, dtype, -1, -1, name);
    size_t bytes = (size_t)count * cadre_dtype_size(dtype) * (size_t)comm->size;
    CADRE_CHECK(in != out || count == 0, CADRE_EUSAGE, "all_to_all '%s' does not work in place",
                name ? name : "");
    call_memory m = {in, out, bytes, bytes, true, false, -1};
    return run(comm, &d, &m, ret_work);
}

cadre_status cadre_barrier(cadre_comm *comm, const char *name) {
    cadre_descriptor d = describe(CADRE_CALL_BARRIER, 0, CADRE_U8, -1, -1, name);
    call_memory m = {.peer = -1};
    return run(comm, &d, &m, NULL);
}

static cadre_status message(cadre_comm *c, cadre_kind_of_call kind, const void *in, void *out,
                            int64_t count, cadre_dtype dtype, int peer, const char *name,
                            cadre_work **ret_work) {
    CADRE_CHECK(peer >= 0 && peer < c->size && peer != c->rank, CADRE_EUSAGE,
                "%s '%s': rank %d of %d is no peer of rank %d", cadre_call_name(kind),
                name ? name : "", peer, c->size, c->rank);
    cadre_descriptor d = describe(kind, count, dtype, -1, -1, name);
    size_t bytes = (size_t)count * cadre_dtype_size(dtype);
    call_memory m = {in, out, bytes, bytes, kind == CADRE_CALL_SEND, false, peer};
    return run(c, &d, &m, ret_work);
}

cadre_status cadre_send(cadre_comm *comm, const void *data, int64_t count, cadre_dtype dtype,
                        int to, const char *name, cadre_work **ret_work) {
    return message(comm, CADRE_CALL_SEND, data, NULL, count, dtype, to, name, ret_work);
}

cadre_status cadre_recv(cadre_comm *comm, void *data, int64_t count, cadre_dtype dtype, int from,
                        const char *name, cadre_work **ret_work) {
    return message(comm, CADRE_CALL_RECV, NULL, data, count, dtype, from, name, ret_work);
}
