/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting: make progress, spin shortly while every rank has a core, then sleep on the own doorbell.
 * While it sleeps a rank looks at its peers every LOOK_MS: has one ended, left or failed, is the
 * supervisor gone, do the ranks wait for each other in a ring?
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/threads.h"
#include "comm/engine.h"

enum { SPINS = 2000, LOOK_MS = 50, CYCLE_MS = 500, MOVE_NS = 20000000 };

static cadre_member *me(const cadre_comm *c) {
    return cadre_control_member(c->control, c->rank);
}

void cadre_comm_ring(cadre_comm *c, int member) {
    cadre_member *m = cadre_control_member(c->control, member);
    atomic_fetch_add(&m->doorbell, 1);
    syscall(SYS_futex, &m->doorbell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void cadre_comm_sleep(cadre_comm *c, uint32_t seen, int64_t ms) {
    struct timespec most = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    syscall(SYS_futex, &me(c)->doorbell, FUTEX_WAIT, seen, &most, NULL, 0);
}

/* ---- who is late ---- */

/* What `w` waits for in each late member: `*ret_counter` above the value returned. A work in
 * CADRE_WORK_RUNNING waits for nobody; the counter it waited for before answers so. */
static uint64_t awaited(const cadre_work *w, cadre_counter *ret_counter) {
    if (w->call.kind == CADRE_CALL_RECV) {
        *ret_counter = CADRE_COUNT_SENT;
        return w->sequence;
    }
    bool queued = w->state == CADRE_WORK_QUEUED;
    if (w->call.kind == CADRE_CALL_SEND) {
        *ret_counter = CADRE_COUNT_TAKEN;
        return queued ? w->sequence - CADRE_PAIR_RING : w->sequence;
    }
    *ret_counter =
        queued || w->state == CADRE_WORK_LEAVING ? CADRE_COUNT_FINISHED : CADRE_COUNT_POSTED;
    return queued ? w->sequence - cadre_comm_places(w) : w->sequence;
}

static uint64_t counter_of(const cadre_comm *c, cadre_counter counter, int whom, int waiter) {
    switch (counter) {
    case CADRE_COUNT_POSTED:
        return atomic_load(&cadre_control_member(c->control, whom)->posted);
    case CADRE_COUNT_FINISHED:
        return atomic_load(&cadre_control_member(c->control, whom)->finished);
    case CADRE_COUNT_SENT:
        return atomic_load(&cadre_control_channel(c->control, whom, waiter)->sent);
    default:
        return atomic_load(&cadre_control_channel(c->control, waiter, whom)->taken);
    }
}

static bool is_late(const cadre_work *w, int member) {
    cadre_counter counter;
    uint64_t value = awaited(w, &counter);
    bool concerned = w->peer < 0 ? member != w->comm->rank : member == w->peer;
    return concerned && counter_of(w->comm, counter, member, w->comm->rank) <= value;
}

int cadre_comm_late(const cadre_work *w, int *ret_members, int room) {
    int count = 0;
    for (int i = 0; i < w->comm->size; i++) {
        if (!is_late(w, i)) continue;
        if (count < room) ret_members[count] = i;
        count++;
    }
    return count;
}

/* "all_reduce 'bucket 3' of 1024 f32 (sum), operation 17, waits for ranks 3, 5". */
static void waiting_text(const cadre_work *w, char *ret_text, size_t room) {
    int late[8], count = cadre_comm_late(w, late, CADRE_COUNT(late));
    char call[160];
    int n = snprintf(ret_text, room, "%s (operation %llu) waits for rank%s",
                     cadre_call_text(call, sizeof call, &w->call),
                     (unsigned long long)w->sequence + 1, count == 1 ? "" : "s");
    for (int i = 0; i < count && i < CADRE_COUNT(late); i++)
        n += snprintf(ret_text + n, room - (size_t)n, "%s %d", i ? "," : "", late[i]);
    if (count > CADRE_COUNT(late))
        snprintf(ret_text + n, room - (size_t)n, " and %d more", count - CADRE_COUNT(late));
}

/* The oldest work that holds `w` up: collectives run in order. */
static const cadre_work *holder_of(const cadre_work *w) {
    if (w->peer >= 0) return w;
    for (const cadre_work *x = w->comm->first; x && x != w; x = x->next)
        if (x->peer < 0 && x->state != CADRE_WORK_DONE) return x;
    return w;
}

/* ---- looking at the others ---- */

static cadre_status look_at_failures(cadre_comm *c) {
    char text[1024];
    int failed = cadre_comm_first_failure(c, text, sizeof text);
    if (failed < 0 || failed == c->rank) return CADRE_OK;
    return CADRE_FAIL(CADRE_EPEER, "rank %d stopped: %s", failed, text);
}

bool cadre_comm_supervisor_gone(const cadre_comm *comm) {
    struct pollfd p = {.fd = comm->world->parent_fd, .events = POLLIN};
    return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

static bool ended(const cadre_comm *c, int member) {
    int fd = c->world->pidfd ? c->world->pidfd[c->world_rank[member]] : -1;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&p, 1, 0) > 0;
}

static cadre_status look_at_late(cadre_comm *c, const cadre_work *w) {
    int late[CADRE_RANKS_MAX];
    int count = cadre_comm_late(w, late, CADRE_COUNT(late));
    char text[320];
    for (int i = 0; i < count; i++) {
        bool left = atomic_load(&cadre_control_member(c->control, late[i])->left);
        if (!left && !ended(c, late[i])) continue;
        if (!is_late(w, late[i])) continue; /* it came just before it went */
        waiting_text(w, text, sizeof text);
        if (left) return CADRE_FAIL(CADRE_EPEER, "rank %d has left, but %s", late[i], text);
        return CADRE_FAIL(CADRE_EPEER, "rank %d (process %d) has ended, but %s", late[i],
                          c->world->pid[c->world_rank[late[i]]], text);
    }
    return CADRE_OK;
}

/* ---- rings of waits ---- */

/* Texts travel as whole words, so that a reader beside the writer is no race. */
static void publish_wait(cadre_comm *c, const cadre_work *w) {
    cadre_published_wait *mine = &me(c)->wait;
    int late = -1, before = atomic_load(&mine->whom);
    if (before >= 0 && is_late(w, before)) return;
    atomic_store(&mine->whom, -1);
    if (cadre_comm_late(w, &late, 1) < 1) return;
    char call[160];
    uint64_t words[CADRE_COUNT(mine->in)] = {0};
    cadre_call_text(call, sizeof call, &w->call);
    memcpy(words, call, strnlen(call, sizeof words - 1));
    for (int i = 0; i < CADRE_COUNT(words); i++)
        atomic_store_explicit(&mine->in[i], words[i], memory_order_relaxed);
    cadre_counter counter;
    atomic_store(&mine->value, awaited(w, &counter));
    atomic_store(&mine->counter, (int32_t)counter);
    atomic_fetch_add(&mine->number, 1);
    atomic_store(&mine->whom, late);
}

static void clear_wait(cadre_comm *c) {
    if (atomic_load(&me(c)->wait.whom) >= 0) atomic_store(&me(c)->wait.whom, -1);
}

/* Adds "rank 1 is in recv 'x' of 8 f32 and waits for rank 2". */
static size_t add_wait(char *text, size_t n, size_t room, int member, const cadre_published_wait *w,
                       int whom) {
    uint64_t words[CADRE_COUNT(w->in)];
    for (int i = 0; i < CADRE_COUNT(words); i++)
        words[i] = atomic_load_explicit(&w->in[i], memory_order_relaxed);
    if (n >= room) return n;
    return n + (size_t)snprintf(text + n, room - n, "%srank %d is in %.*s and waits for rank %d",
                                n ? "; " : "", member, (int)sizeof words - 1, (const char *)words,
                                whom);
}

/* Follows the published waits from me; the sum of their numbers, or 0 when they do not come back to
 * me or one of them has ended meanwhile. */
static uint64_t cycle_from_me(cadre_comm *c, char *ret_text, size_t room) {
    uint64_t numbers = 1;
    size_t n = 0;
    int at = c->rank;
    for (int steps = 0; steps < c->size; steps++) {
        cadre_published_wait *w = &cadre_control_member(c->control, at)->wait;
        int next = atomic_load(&w->whom);
        if (next < 0) return 0;
        uint64_t reached = counter_of(c, (cadre_counter)atomic_load(&w->counter), next, at);
        if (reached > atomic_load(&w->value)) return 0;
        numbers += atomic_load(&w->number);
        n = add_wait(ret_text, n, room, at, w, next);
        at = next;
        if (at == c->rank) return numbers;
    }
    return 0;
}

typedef struct patience {
    int64_t start_ns, looked_ns, cycle_ns;
    uint64_t cycle;                  /* seen in the last look, 0: none */
    uint32_t looks[CADRE_RANKS_MAX]; /* of every member when it was seen first */
    bool warned;
    int spins;
} patience;

/* Whether everybody in the ring has made sure since that it still waits: a rank that is stopped or
 * swapped out is slow, not stuck. */
static bool all_looked_again(cadre_comm *c, const patience *p) {
    int at = c->rank;
    for (int steps = 0; steps < c->size; steps++) {
        const cadre_published_wait *w = &cadre_control_member(c->control, at)->wait;
        if (atomic_load(&w->looks) - p->looks[at] < 2) return false;
        at = atomic_load(&w->whom);
        if (at < 0) return false;
        if (at == c->rank) return true;
    }
    return false;
}

static cadre_status look_for_cycle(cadre_comm *c, const cadre_work *waiting, patience *p) {
    char text[900];
    publish_wait(c, holder_of(waiting));
    atomic_fetch_add(&me(c)->wait.looks, 1);
    uint64_t seen = cycle_from_me(c, text, sizeof text);
    if (!seen || seen != p->cycle) {
        p->cycle = seen;
        for (int i = 0; i < c->size; i++)
            p->looks[i] = atomic_load(&cadre_control_member(c->control, i)->wait.looks);
        return CADRE_OK;
    }
    CADRE_CHECK(!all_looked_again(c, p), CADRE_EPEER, "the ranks wait for each other: %s", text);
    return CADRE_OK;
}

/* ---- one look ---- */

cadre_status cadre_comm_look(cadre_comm *c, const cadre_work *waiting) {
    const cadre_work *w = holder_of(waiting);
    CADRE_TRY(look_at_failures(c));
    CADRE_CHECK(!cadre_comm_supervisor_gone(c), CADRE_EPEER, "the supervisor is gone");
    return look_at_late(c, w);
}

/* ---- the wait ---- */

static cadre_status sleep_and_look(cadre_comm *c, const cadre_work *w, patience *p, uint32_t seen,
                                   cadre_deadline deadline) {
    int64_t now = cadre_now_ns();
    char text[320];
    if (now >= deadline) {
        waiting_text(holder_of(w), text, sizeof text);
        return CADRE_FAIL(CADRE_EPEER, "%s since %.1f s", text, (double)(now - p->start_ns) * 1e-9);
    }
    if (now - p->looked_ns >= LOOK_MS * (int64_t)1000000) {
        p->looked_ns = now;
        CADRE_TRY(cadre_comm_look(c, w));
    }
    if (now - p->start_ns >= CYCLE_MS * (int64_t)1000000 &&
        now - p->cycle_ns >= CYCLE_MS / 2 * (int64_t)1000000) {
        p->cycle_ns = now;
        CADRE_TRY(look_for_cycle(c, w, p));
    }
    if (!p->warned && now - p->start_ns >= c->world->opts.warn_after_ms * 1000000) {
        p->warned = true;
        waiting_text(holder_of(w), text, sizeof text);
        cadre_log(CADRE_LOG_WARN, "%s since %.1f s", text, (double)(now - p->start_ns) * 1e-9);
    }
    int64_t left_ms = (deadline - now) / 1000000 + 1;
    cadre_comm_unlock(c);
    cadre_comm_sleep(c, seen, left_ms < LOOK_MS ? left_ms : LOOK_MS);
    cadre_comm_lock(c);
    return CADRE_OK;
}

/* One turn without progress: spin, or announce that I sleep, look once more, and sleep. */
static cadre_status idle(cadre_comm *c, const cadre_work *w, patience *p, cadre_deadline deadline) {
    bool moved = false;
    if (c->spins && !c->threaded && p->spins++ < SPINS) {
        cadre_spin_pause();
        return CADRE_OK;
    }
    uint32_t seen = atomic_load(&me(c)->doorbell);
    atomic_fetch_add(&me(c)->sleeping, 1);
    cadre_status st = cadre_comm_advance(c, MOVE_NS, &moved);
    if (!st && !moved && w->state != CADRE_WORK_DONE) st = sleep_and_look(c, w, p, seen, deadline);
    atomic_fetch_sub(&me(c)->sleeping, 1);
    return st;
}

static cadre_status wait_locked(cadre_comm *c, cadre_work *w, cadre_deadline deadline) {
    int64_t start = cadre_now_ns(), busy = c->stats.busy_ns;
    patience p = {.start_ns = start, .looked_ns = start, .cycle_ns = start};
    cadre_status st = CADRE_OK;
    while (!st && w->state != CADRE_WORK_DONE) {
        bool moved = false;
        st = cadre_comm_advance(c, MOVE_NS, &moved);
        if (moved) {
            p.spins = 0;
            clear_wait(c); /* who moves data waits for nobody */
        }
        if (!st && !moved) st = idle(c, w, &p, deadline);
    }
    clear_wait(c);
    c->stats.wait_ns += cadre_now_ns() - start - (c->stats.busy_ns - busy);
    return st;
}

/* ---- the public face ---- */

/* A handle goes back to the spare ones when its work is done; after a failure it stays with the
 * communicator. */
static void let_go(cadre_comm *c, cadre_work *w) {
    if (w->state != CADRE_WORK_DONE) return;
    for (int i = 0; i < 2; i++) {
        cadre_heap_free(c->world, w->staged[i]);
        w->staged[i] = NULL;
    }
    w->next = c->spare;
    c->spare = w;
}

cadre_status cadre_work_test(cadre_work *work) {
    bool moved = false;
    cadre_comm *c = work->comm;
    cadre_comm_lock(c);
    cadre_status st =
        work->state == CADRE_WORK_DONE ? CADRE_OK : cadre_comm_advance(c, 1000000, &moved);
    if (!st && work->state != CADRE_WORK_DONE) {
        int64_t now = cadre_now_ns();
        if (now - c->last_look_ns >= LOOK_MS * (int64_t)1000000) {
            c->last_look_ns = now;
            st = cadre_comm_look(c, work);
            if (st) st = cadre_comm_break(c, st);
        }
        if (!st) st = CADRE_PENDING;
    }
    cadre_comm_unlock(c);
    return st;
}

cadre_status cadre_work_wait(cadre_work **work, cadre_deadline deadline) {
    cadre_work *w = *work;
    if (!w) return CADRE_OK;
    cadre_comm *c = w->comm;
    *work = NULL;
    cadre_comm_lock(c);
    cadre_status st = wait_locked(c, w, deadline);
    if (st) st = cadre_comm_break(c, st);
    let_go(c, w);
    cadre_comm_unlock(c);
    if (st) return cadre_pass_at(__FILE__, __LINE__, __func__, st);
    return CADRE_OK;
}
