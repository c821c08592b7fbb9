/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine of a communicator: calls become works, works are posted in order, and one function
 * makes progress on all of them.
 *
 *   call -> submit (descriptor into my ring; waits for nobody) -> advance: every peer has
 * posted? compare; my part, piece by piece; publish "finished"; every peer finished? done
 */
#ifndef CADRE_COMM_ENGINE_H
#define CADRE_COMM_ENGINE_H

#include "comm/world.h"

enum { CADRE_RECORDS = 2048 };

typedef enum cadre_work_state {
    CADRE_WORK_QUEUED,  /* waits for a place in the ring */
    CADRE_WORK_POSTED,  /* waits for the peers' calls */
    CADRE_WORK_RUNNING, /* my part, from `cursor` on */
    CADRE_WORK_LEAVING, /* my part is done; peers may still use my memory */
    CADRE_WORK_DONE
} cadre_work_state;

struct cadre_work {
    cadre_comm *comm;
    struct cadre_work *next; /* in the order of the calls */
    cadre_descriptor call;
    cadre_work_state state;
    uint64_t sequence; /* of the communicator, or of the pair */
    int peer;          /* send, recv; else -1 */
    const void *in; /* where this rank's data lies for its own reading: the caller's, or a copy in
                       the heap */
    void *out;      /* the same for writing */
    void *user_out; /* the caller's, when `out` is a copy; else NULL */
    size_t user_bytes;      /* to copy back */
    void *staged[2];        /* copies in the heap, to free */
    int64_t cursor;         /* elements of my part done */
    bool eager;             /* everyone reads all slots: nobody uses my memory afterwards */
    bool slot_in, slot_out; /* my slot stands for the caller's `in`, `out` */
    size_t in_bytes;
    struct cadre_record *record;
    uint64_t record_number;
};

/* A line of the flight recorder. */
typedef struct cadre_record {
    uint64_t number; /* 1-based, of all operations of this communicator */
    cadre_descriptor call;
    uint64_t sequence;
    int peer;
    int64_t posted_ns, done_ns;
    cadre_status status; /* CADRE_PENDING until done */
} cadre_record;

struct cadre_comm {
    cadre_world *world;
    cadre_control *control;
    int rank, size;
    int *world_rank;          /* [size] */
    uint64_t called;          /* collectives called: the next one's sequence */
    uint64_t *sent, *wanted;  /* [size]: messages called, per peer */
    cadre_work *first, *last; /* works not done, in order of call */
    cadre_work *spare;        /* handles to use again */
    int in_flight;
    uint64_t peers_finished; /* collectives that every peer had finished when this round began */
    bool broken;             /* `error` is sticky */
    cadre_error error;
    bool spins;
    int64_t last_look_ns; /* at peers' lives */
    cadre_comm_stats stats;
    cadre_record *records; /* [CADRE_RECORDS] */
    uint64_t recorded;
    /* the progress thread */
    bool threaded, stop;
    pthread_t thread;
    pthread_mutex_t lock;
};

/* comm.c */
void cadre_comm_lock(cadre_comm *c);
void cadre_comm_unlock(cadre_comm *c);
/* Breaks the communicator: the thread's error becomes sticky. Returns `status`. */
cadre_status cadre_comm_break(cadre_comm *c, cadre_status status);

/* advance.c: one round over all works; `budget_ns` bounds the moving of data. `*ret_moved`:
 * something happened. */
cadre_status cadre_comm_advance(cadre_comm *c, int64_t budget_ns, bool *ret_moved);
/* Posting waits until every member has finished the collective this many before: its place in the
 * ring (or its slot) is then no longer read. */
uint64_t cadre_comm_places(const cadre_work *w);
/* Publishes a counter and wakes the members that sleep. */
void cadre_comm_publish(cadre_comm *c, _Atomic uint64_t *counter, uint64_t value);
void cadre_comm_ring(cadre_comm *c, int member);

/* parts.c: my part of a collective whose descriptors agree. Works at most about `budget` elements
 * more; true when finished. */
bool cadre_comm_part(cadre_work *w, int64_t budget);
/* Where member m's input lies for me. */
const void *cadre_comm_input(const cadre_work *w, int member);
bool cadre_call_reads_peers(const cadre_work *w); /* peers use my memory until they have finished */

/* check.c: descriptors compared; a difference is CADRE_EPEER with the same sentence on every rank.
 */
cadre_status cadre_comm_compare(cadre_comm *c, const cadre_work *w);
cadre_status cadre_comm_compare_pair(cadre_comm *c, const cadre_work *w);
/* "all_reduce 'bucket 3' of 1024 f32 (sum)". */
char *cadre_call_text(char *ret_text, size_t room, const cadre_descriptor *d);
const char *cadre_call_name(int kind);

/* wait.c */
/* Sleeps until something may have changed, at most `ms`; `seen` is the doorbell's value before the
 * last look. */
void cadre_comm_sleep(cadre_comm *c, uint32_t seen, int64_t ms);
/* Peers that ended, left, failed; the supervisor; cycles of waits. */
cadre_status cadre_comm_look(cadre_comm *c, const cadre_work *waiting);
/* Members whose call or finish `w` waits for; returns how many, the first ones into `ret_members`.
 */
int cadre_comm_late(const cadre_work *w, int *ret_members, int room);

/* recorder.c */
void cadre_record_start(cadre_work *w);
void cadre_record_end(cadre_work *w, cadre_status status);

#endif
