/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress: one round over the works in flight, in the order of their calls. Collectives run one
 * after the other; the next ones are posted already, so that peers do not wait. Messages between
 * two ranks run beside them.
 */
#include <string.h>

#include "base/trace.h"
#include "comm/engine.h"

enum { CHUNK = 65536 }; /* elements between two looks at the clock */

static cadre_member *me(const cadre_comm *c) {
    return cadre_control_member(c->control, c->rank);
}

void cadre_comm_publish(cadre_comm *c, _Atomic uint64_t *counter, uint64_t value) {
    atomic_store(counter, value); /* sequentially consistent: before the look at who sleeps */
    for (int i = 0; i < c->size; i++)
        if (i != c->rank && atomic_load(&cadre_control_member(c->control, i)->sleeping))
            cadre_comm_ring(c, i);
}

static bool all_posted(const cadre_work *w) {
    for (int i = 0; i < w->comm->size; i++)
        if (atomic_load_explicit(&cadre_control_member(w->comm->control, i)->posted,
                                 memory_order_acquire) <= w->sequence)
            return false;
    return true;
}

static void look_at_finished(cadre_comm *c) {
    c->peers_finished = UINT64_MAX;
    for (int i = 0; i < c->size; i++) {
        uint64_t count = atomic_load_explicit(&cadre_control_member(c->control, i)->finished,
                                              memory_order_acquire);
        if (i != c->rank && count < c->peers_finished) c->peers_finished = count;
    }
}

/* Whether every member has finished `count` collectives; the same answer through a whole round, so
 * that a work whose slot holds results is done before a later one takes the slot. */
static bool all_finished(const cadre_comm *c, uint64_t count) {
    return c->peers_finished >= count &&
           atomic_load_explicit(&me(c)->finished, memory_order_relaxed) >= count;
}

uint64_t cadre_comm_places(const cadre_work *w) {
    return w->slot_in || w->slot_out ? CADRE_SLOTS : CADRE_RING;
}

/* Into the ring, when the entry that lay there is no longer read. */
static bool post(cadre_work *w) {
    cadre_comm *c = w->comm;
    uint64_t places = cadre_comm_places(w);
    if (w->sequence >= places && !all_finished(c, w->sequence - places + 1)) return false;
    if (w->slot_in && w->in_bytes)
        memcpy(cadre_control_slot(c->control, c->rank, w->sequence), w->in, w->in_bytes);
    me(c)->ring[w->sequence % CADRE_RING] = w->call;
    w->state = CADRE_WORK_POSTED;
    cadre_comm_publish(c, &me(c)->posted, w->sequence + 1);
    return true;
}

/* Moves data until done or the budget is spent; true when my part is finished. */
static bool move(cadre_work *w, int64_t end_ns) {
    cadre_comm *c = w->comm;
    int64_t start = cadre_now_ns(), now = start;
    cadre_trace_span span = cadre_trace_enter(CADRE_TRACE_COMM, w->call.name);
    bool finished = false;
    do {
        finished = cadre_comm_part(w, CHUNK);
        now = cadre_now_ns();
    } while (!finished && now < end_ns);
    cadre_trace_leave(
        span, finished ? w->call.count * (int64_t)cadre_dtype_size((cadre_dtype)w->call.dtype) : 0);
    c->stats.busy_ns += now - start;
    return finished;
}

static cadre_status advance_collective(cadre_work *w, bool may_run, int64_t end_ns,
                                       bool *ret_moved) {
    cadre_comm *c = w->comm;
    if (w->state == CADRE_WORK_QUEUED) *ret_moved |= post(w);
    if (w->state == CADRE_WORK_POSTED && may_run && all_posted(w)) {
        CADRE_TRY(cadre_comm_compare(c, w));
        w->state = CADRE_WORK_RUNNING;
    }
    if (w->state == CADRE_WORK_RUNNING && end_ns > 0) {
        *ret_moved = true;
        if (move(w, end_ns)) {
            w->state = CADRE_WORK_LEAVING;
            cadre_comm_publish(c, &me(c)->finished, w->sequence + 1);
        }
    }
    if (w->state == CADRE_WORK_LEAVING &&
        (!cadre_call_reads_peers(w) || all_finished(c, w->sequence + 1))) {
        if (w->user_out) memcpy(w->user_out, w->out, w->user_bytes);
        w->state = CADRE_WORK_DONE;
        *ret_moved = true;
    }
    return CADRE_OK;
}

static void advance_send(cadre_work *w, bool *ret_moved) {
    cadre_comm *c = w->comm;
    cadre_channel *to = cadre_control_channel(c->control, c->rank, w->peer);
    uint64_t taken = atomic_load_explicit(&to->taken, memory_order_acquire);
    bool next = atomic_load_explicit(&to->sent, memory_order_relaxed) == w->sequence; /* in order */
    if (w->state == CADRE_WORK_QUEUED && next && taken + CADRE_PAIR_RING > w->sequence) {
        to->ring[w->sequence % CADRE_PAIR_RING] = w->call;
        w->state = CADRE_WORK_LEAVING;
        cadre_comm_publish(c, &to->sent, w->sequence + 1);
        *ret_moved = true;
    }
    if (w->state == CADRE_WORK_LEAVING && taken > w->sequence) {
        w->state = CADRE_WORK_DONE;
        *ret_moved = true;
    }
}

static cadre_status advance_recv(cadre_work *w, int64_t end_ns, bool *ret_moved) {
    cadre_comm *c = w->comm;
    cadre_channel *from = cadre_control_channel(c->control, w->peer, c->rank);
    if (w->state == CADRE_WORK_QUEUED) {
        w->state = CADRE_WORK_POSTED;
        *ret_moved = true;
    }
    if (w->state != CADRE_WORK_POSTED || end_ns <= 0) return CADRE_OK;
    if (atomic_load_explicit(&from->sent, memory_order_acquire) <= w->sequence) return CADRE_OK;
    if (atomic_load(&from->taken) != w->sequence) return CADRE_OK; /* in order */
    cadre_status st = cadre_comm_compare_pair(c, w);
    if (st) { /* the sender only waits: it learns the sentence from here */
        cadre_error error;
        cadre_error_save(&error);
        cadre_comm_abort(c, &error);
        return st;
    }
    const cadre_descriptor *d = &from->ring[w->sequence % CADRE_PAIR_RING];
    int64_t start = cadre_now_ns();
    cadre_trace_span span = cadre_trace_enter(CADRE_TRACE_COMM, w->call.name);
    size_t bytes = (size_t)w->call.count * cadre_dtype_size((cadre_dtype)w->call.dtype);
    if (bytes) memcpy(w->out, c->world->segment[c->world_rank[w->peer]].base + d->in - 1, bytes);
    cadre_trace_leave(span, (int64_t)bytes);
    c->stats.busy_ns += cadre_now_ns() - start;
    w->state = CADRE_WORK_DONE;
    cadre_comm_publish(c, &from->taken, w->sequence + 1);
    *ret_moved = true;
    return CADRE_OK;
}

/* Takes works that are done out of the list; handles that the caller keeps stay valid. */
static void retire(cadre_comm *c) {
    cadre_work **link = &c->first, *before = NULL;
    while (*link) {
        cadre_work *w = *link;
        if (w->state != CADRE_WORK_DONE) {
            before = w;
            link = &w->next;
            continue;
        }
        *link = w->next;
        if (c->last == w) c->last = before;
        c->in_flight--;
        cadre_record_end(w, CADRE_OK);
    }
}

cadre_status cadre_comm_advance(cadre_comm *c, int64_t budget_ns, bool *ret_moved) {
    *ret_moved = false;
    if (c->broken) return cadre_error_restore(&c->error);
    int64_t end_ns = budget_ns > 0 ? cadre_now_ns() + budget_ns : 0;
    bool may_run = true, may_post = true;
    look_at_finished(c);
    cadre_status st = CADRE_OK;
    for (cadre_work *w = c->first; w && !st; w = w->next) {
        if (w->call.kind == CADRE_CALL_SEND) {
            advance_send(w, ret_moved);
            continue;
        }
        if (w->call.kind == CADRE_CALL_RECV) {
            st = advance_recv(w, end_ns, ret_moved);
            continue;
        }
        if (w->state == CADRE_WORK_QUEUED && !may_post) continue;
        st = advance_collective(w, may_run, end_ns, ret_moved);
        may_post = may_post && w->state != CADRE_WORK_QUEUED;
        may_run = may_run && w->state > CADRE_WORK_RUNNING;
    }
    retire(c); /* also before a failure: what was done in this round belongs to its waiter */
    return st ? cadre_comm_break(c, st) : CADRE_OK;
}

cadre_status cadre_comm_progress(cadre_comm *comm, int64_t budget_ns) {
    bool moved;
    cadre_status st = CADRE_OK;
    cadre_comm_lock(comm);
    if (comm->in_flight || comm->broken) st = cadre_comm_advance(comm, budget_ns, &moved);
    cadre_comm_unlock(comm);
    return st;
}
