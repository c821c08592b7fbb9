/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, closing and splitting communicators, memory, and what may be asked of them.
 */
#include "comm/engine.h"

#include <string.h>

#include "base/alloc.h"
#include "base/cpus.h"
#include "comm/transport.h"

void cadre_comm_lock(cadre_comm *c) {
    if (c->threaded) pthread_mutex_lock(&c->lock);
}

void cadre_comm_unlock(cadre_comm *c) {
    if (c->threaded) pthread_mutex_unlock(&c->lock);
}

cadre_status cadre_comm_break(cadre_comm *c, cadre_status status) {
    if (c->broken) return cadre_error_restore(&c->error);
    cadre_error_save(&c->error);
    c->broken = true;
    return status;
}

/* ---- the progress thread: one more caller of advance ---- */

static void *drive(void *arg) {
    cadre_comm *c = arg;
    cadre_member *me = cadre_control_member(c->control, c->rank);
    for (;;) {
        bool moved = false;
        pthread_mutex_lock(&c->lock);
        bool stop = c->stop, busy = !stop && !c->broken && c->in_flight > 0;
        if (busy)
            atomic_fetch_add(&me->sleeping, 1); /* peers ring for what comes after this look */
        uint32_t seen = atomic_load(&me->doorbell);
        if (busy) (void)cadre_comm_advance(c, 1000000, &moved);
        pthread_mutex_unlock(&c->lock);
        if (stop) return NULL;
        if (!moved) cadre_comm_sleep(c, seen, 50); /* a call of our own rings too */
        if (busy) atomic_fetch_sub(&me->sleeping, 1);
    }
}

static cadre_status start_thread(cadre_comm *c) {
    c->threaded = true;
    int error = pthread_create(&c->thread, NULL, drive, c);
    if (!error) return CADRE_OK;
    c->threaded = false;
    return CADRE_FAIL(CADRE_ERESOURCE, "cannot start a progress thread: error %d", error);
}

static void stop_thread(cadre_comm *c) {
    if (!c->threaded) return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_mutex_unlock(&c->lock);
    cadre_comm_ring(c, c->rank);
    pthread_join(c->thread, NULL);
    c->threaded = false;
}

/* ---- open and close ---- */

static cadre_status make_comm(cadre_comm **ret, cadre_world *w, cadre_control *control, int rank,
                              int size, const int *world_rank) {
    cadre_comm *c = NULL;
    CADRE_TRY(cadre_alloc(&c, CADRE_MEM_OTHER, sizeof *c));
    c->world = w;
    c->control = control;
    c->rank = rank;
    c->size = size;
    c->spins = w->local_size <= cadre_cpus_count();
    c->last_look_ns = cadre_now_ns();
    pthread_mutex_init(&c->lock, NULL);
    cadre_status st =
        cadre_alloc_array(&c->world_rank, CADRE_MEM_OTHER, size, sizeof *c->world_rank);
    if (!st) st = cadre_alloc_array(&c->sent, CADRE_MEM_OTHER, size, sizeof *c->sent);
    if (!st) st = cadre_alloc_array(&c->wanted, CADRE_MEM_OTHER, size, sizeof *c->wanted);
    if (!st)
        st = cadre_alloc_array(&c->records, CADRE_MEM_OTHER, CADRE_RECORDS, sizeof *c->records);
    for (int i = 0; !st && i < size; i++) c->world_rank[i] = world_rank ? world_rank[i] : i;
    w->users++;
    if (!st && w->opts.progress_thread) st = start_thread(c);
    if (st) {
        w->users--; /* the caller still has the world */
        c->world = NULL;
        cadre_comm_close(&c);
        return st;
    }
    *ret = c;
    return CADRE_OK;
}

static cadre_comm_opts with_defaults(const cadre_comm_opts *opts) {
    cadre_comm_opts o = CADRE_COMM_OPTS;
    if (opts) memcpy(&o, opts, opts->size && opts->size < sizeof o ? opts->size : sizeof o);
    if (!o.transport) o.transport = "auto";
    if (o.timeout_ms <= 0) o.timeout_ms = 5 * 60 * 1000;
    if (o.warn_after_ms <= 0) o.warn_after_ms = 30 * 1000;
    return o;
}

static cadre_status first_comm(cadre_comm **ret, cadre_world *w) {
    cadre_status st = make_comm(ret, w, w->control, w->rank, w->size, NULL);
    if (st) cadre_world_release(&w);
    return st;
}

cadre_status cadre_comm_open(cadre_comm **ret_world, const cadre_comm_opts *opts) {
    cadre_comm_opts o = with_defaults(opts);
    cadre_launch launch;
    cadre_world *w = NULL;
    CADRE_TRY(cadre_launch_read(&launch));
    CADRE_TRY(cadre_transport_open(&w, &launch, &o));
    return first_comm(ret_world, w);
}

cadre_status cadre_comm_open_threads(cadre_comm **ret_comms, int size,
                                     const cadre_comm_opts *opts) {
    cadre_comm_opts o = with_defaults(opts);
    cadre_world *worlds[CADRE_RANKS_MAX] = {NULL};
    CADRE_CHECK(size >= 1 && size <= CADRE_RANKS_MAX, CADRE_EUSAGE,
                "%d ranks as threads; it takes 1 to %d", size, CADRE_RANKS_MAX);
    CADRE_TRY(cadre_world_open_threads(worlds, size, &o));
    cadre_status st = CADRE_OK;
    int made = 0;
    for (; !st && made < size; made += !st) st = first_comm(&ret_comms[made], worlds[made]);
    if (!st) return CADRE_OK;
    cadre_error error;
    cadre_error_save(&error);
    for (int i = made + 1; i < size; i++) cadre_world_release(&worlds[i]);
    while (made > 0) cadre_comm_close(&ret_comms[--made]);
    return cadre_error_restore(&error);
}

void cadre_comm_close(cadre_comm **comm) {
    cadre_comm *c = *comm;
    if (!c) return;
    stop_thread(c);
    if (c->world) {
        atomic_store(&cadre_control_member(c->control, c->rank)->left, 1);
        for (int i = 0; i < c->size; i++)
            if (i != c->rank) cadre_comm_ring(c, i);
    }
    for (cadre_work *w = c->first; w;
         w = c->first) { /* only after a failure: nobody will finish them */
        c->first = w->next;
        for (int i = 0; i < 2 && c->world; i++) cadre_heap_free(c->world, w->staged[i]);
        cadre_free(&w);
    }
    for (cadre_work *w = c->spare; w; w = c->spare) {
        c->spare = w->next;
        cadre_free(&w);
    }
    cadre_world_release(&c->world);
    pthread_mutex_destroy(&c->lock);
    cadre_free(&c->world_rank);
    cadre_free(&c->sent);
    cadre_free(&c->wanted);
    cadre_free(&c->records);
    cadre_free(comm);
}

/* ---- split ---- */

typedef struct bid {
    int64_t color, key;
} bid;

/* The group's first member makes the control block in its heap; the others learn its place. The
 * block lives as long as that heap. */
cadre_status cadre_comm_split(cadre_comm *comm, int color, int key, cadre_comm **ret_comm) {
    bid mine = {color, key}, bids[CADRE_RANKS_MAX];
    int members[CADRE_RANKS_MAX], size = 0, rank = -1;
    CADRE_TRY(cadre_all_gather(comm, &mine, bids, 2, CADRE_I64, "split", NULL));
    for (int i = 0; color >= 0 && i < comm->size; i++) {
        if (bids[i].color != color) continue;
        int at = size++;
        for (; at > 0 && bids[members[at - 1]].key > bids[i].key; at--)
            members[at] = members[at - 1];
        members[at] = i;
    }
    for (int i = 0; i < size; i++)
        if (members[i] == comm->rank) rank = i;
    void *block = NULL;
    cadre_status st =
        rank == 0 ? cadre_heap_alloc(comm->world, cadre_control_bytes(size), &block) : CADRE_OK;
    if (!st && rank == 0) {
        cadre_control *c = block;
        c->size = size;
        for (int i = 0; i < size; i++) cadre_control_member(c, i)->wait.whom = -1;
    }
    cadre_segment *own = &comm->world->segment[comm->world->rank];
    int64_t place = rank == 0 && !st ? (int64_t)((char *)block - own->base) : -1,
            places[CADRE_RANKS_MAX];
    cadre_error error;
    if (st) cadre_error_save(&error);
    CADRE_TRY(cadre_all_gather(comm, &place, places, 1, CADRE_I64, "split", NULL));
    if (st) return cadre_error_restore(&error);
    if (color < 0) {
        *ret_comm = NULL;
        return CADRE_OK;
    }
    CADRE_CHECK(places[members[0]] >= 0, CADRE_EPEER,
                "rank %d could not make the smaller communicator", members[0]);
    int world_rank[CADRE_RANKS_MAX];
    for (int i = 0; i < size; i++) world_rank[i] = comm->world_rank[members[i]];
    cadre_control *control =
        (cadre_control *)(comm->world->segment[world_rank[0]].base + places[members[0]]);
    return make_comm(ret_comm, comm->world, control, rank, size, world_rank);
}

/* ---- memory and questions ---- */

cadre_status cadre_comm_alloc(cadre_comm *comm, size_t bytes, void **ret_pointer) {
    return cadre_heap_alloc(comm->world, bytes, ret_pointer);
}

void cadre_comm_free(cadre_comm *comm, void *pointer) {
    cadre_heap_free(comm->world, pointer);
}

int cadre_comm_rank(const cadre_comm *comm) {
    return comm->rank;
}

int cadre_comm_size(const cadre_comm *comm) {
    return comm->size;
}

int cadre_comm_local_rank(const cadre_comm *comm) {
    return comm->world->local_rank;
}

int cadre_comm_local_size(const cadre_comm *comm) {
    return comm->world->local_size;
}

const char *cadre_comm_transport(const cadre_comm *comm) {
    return comm->world->transport;
}

bool cadre_comm_owns(const cadre_comm *comm, const void *pointer) {
    return cadre_heap_owns(comm->world, pointer);
}

int64_t cadre_comm_timeout_ms(const cadre_comm *comm) {
    return comm->world->opts.timeout_ms;
}

void cadre_comm_statistics(const cadre_comm *comm, cadre_comm_stats *ret_stats) {
    cadre_comm *c = (cadre_comm *)comm; /* the lock is no part of what is const */
    cadre_comm_lock(c);
    *ret_stats = comm->stats;
    cadre_comm_unlock(c);
}

/* ---- failures that ranks announce ---- */

void cadre_comm_abort(cadre_comm *comm, const cadre_error *error) {
    cadre_control *c = comm->control;
    int nobody = 0;
    if (!atomic_compare_exchange_strong(&c->failed_state, &nobody, 1)) return;
    c->failed_rank = comm->rank;
    memcpy(c->failed_text, error->text, sizeof c->failed_text);
    atomic_store(&c->failed_state, 2);
    for (int i = 0; i < comm->size; i++)
        if (i != comm->rank) cadre_comm_ring(comm, i);
}

int cadre_comm_first_failure(const cadre_comm *comm, char *ret_text, size_t room) {
    if (atomic_load(&comm->control->failed_state) != 2) return -1;
    snprintf(ret_text, room, "%s", comm->control->failed_text);
    return comm->control->failed_rank;
}
