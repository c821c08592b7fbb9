/* SPDX-License-Identifier: Apache-2.0
 *
 * A world: the ranks that were launched together, their heaps, and the block of shared memory
 * through which a communicator's members speak. Ranks are processes (memory from memfds, passed
 * over an abstract socket) or threads of one process.
 *
 *   heap      one a rank: memory that its peers map and read in place
 *   control   one a communicator: members' counters, descriptors of what they called, doorbells
 */
#ifndef CADRE_COMM_WORLD_H
#define CADRE_COMM_WORLD_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/launch.h"

enum {
    CADRE_LINE = 64,
    CADRE_NAME = 48,   /* of an operation, terminator included; longer names are cut */
    CADRE_RING = 64,   /* collectives posted and not finished by all, at most */
    CADRE_EAGER = 512, /* bytes that everyone reads from everyone's slot: one exchange suffices */
    CADRE_SLOT = 8192, /* memory of a call beside its descriptor, for data that are in no heap */
    CADRE_SLOTS = 4,   /* of them a rank: few, so that they stay in the nearest caches */
    CADRE_PAIR_RING = 8,
    CADRE_RANKS_MAX = 120 /* on a machine: descriptors that fit one message of a socket */
};

typedef enum cadre_kind_of_call {
    CADRE_CALL_ALL_REDUCE,
    CADRE_CALL_REDUCE_SCATTER,
    CADRE_CALL_ALL_GATHER,
    CADRE_CALL_BROADCAST,
    CADRE_CALL_ALL_TO_ALL,
    CADRE_CALL_BARRIER,
    CADRE_CALL_SEND,
    CADRE_CALL_RECV,
    CADRE_CALLS
} cadre_kind_of_call;

/* What a rank called; compared between ranks before data moves. `in` and `out` are places in the
 * caller's heap. */
typedef struct cadre_descriptor {
    int64_t count;
    int32_t kind, dtype, op, root;
    char name[CADRE_NAME];
    /* not compared */
    uint64_t in, out; /* offset + 1 in the heap of the caller; 0: its slot, or not that rank's */
} cadre_descriptor;

/* The counters of a member that others wait for. */
typedef enum cadre_counter {
    CADRE_COUNT_POSTED,
    CADRE_COUNT_FINISHED,
    CADRE_COUNT_SENT, /* from that member to the one that waits */
    CADRE_COUNT_TAKEN /* by that member, from the one that waits */
} cadre_counter;

/* What a member has waited in for long: until `counter` of member `whom` exceeds `value`. */
typedef struct cadre_published_wait {
    _Atomic int32_t whom;    /* -1: nobody */
    _Atomic uint32_t number; /* raised with every such wait */
    _Atomic uint32_t looks;  /* raised whenever its owner has looked again and still waits */
    _Atomic int32_t counter;
    _Atomic uint64_t value;
    _Atomic uint64_t in[12]; /* text: "recv 'x' of 8 f32" */
} cadre_published_wait;

/* A member of a communicator: written by its owner alone, except the doorbell. */
typedef struct cadre_member {
    _Alignas(CADRE_LINE) _Atomic uint64_t posted; /* collectives whose descriptor is in the ring */
    _Alignas(CADRE_LINE) _Atomic uint64_t finished; /* collectives whose part this rank has done */
    _Alignas(CADRE_LINE) _Atomic uint32_t doorbell; /* futex; raised by peers when it sleeps */
    _Atomic uint32_t sleeping;
    _Atomic int32_t left; /* 1: closed its communicator */
    cadre_published_wait wait;
    cadre_descriptor ring[CADRE_RING];
} cadre_member;

/* Messages from one member to another. */
typedef struct cadre_channel {
    _Alignas(CADRE_LINE) _Atomic uint64_t sent;  /* posted by the sender */
    _Alignas(CADRE_LINE) _Atomic uint64_t taken; /* copied out by the receiver */
    cadre_descriptor ring[CADRE_PAIR_RING];
} cadre_channel;

typedef struct cadre_control {
    int32_t size;
    _Atomic int32_t failed_state; /* 0 nobody, 1 being written, 2 there */
    int32_t failed_rank;
    char failed_text[1024];
    /* then: cadre_member[size], cadre_channel[size x size], slots [size][SLOTS][SLOT] */
} cadre_control;

size_t cadre_control_bytes(int size);
cadre_member *cadre_control_member(cadre_control *c, int i);
cadre_channel *cadre_control_channel(cadre_control *c, int from, int to);
void *cadre_control_slot(cadre_control *c, int member, uint64_t sequence);

/* A rank's heap as mapped here. */
typedef struct cadre_segment {
    char *base;
    size_t bytes;
} cadre_segment;

typedef struct cadre_free_block {
    size_t at, bytes;
} cadre_free_block;

typedef struct cadre_world {
    int rank, size, local_rank, local_size;
    bool threads;           /* ranks of one process */
    const char *transport;  /* "self", "shm" */
    cadre_segment *segment; /* [size] */
    int *pidfd;             /* [size]; -1: not known. NULL: threads */
    int *pid;
    int parent_fd;          /* -1: none */
    cadre_control *control; /* of the world's communicator */
    size_t control_bytes;
    struct cadre_shared_world *shared; /* threads: what all ranks hold together */
    pthread_mutex_t lock;              /* of the heap */
    cadre_free_block *blocks;          /* free memory of the own heap, by address */
    int block_count, block_room;
    int allocations; /* in the own heap now */
    size_t top;      /* heap used so far */
    int users;       /* communicators of this rank that are open */
    cadre_comm_opts opts;
} cadre_world;

cadre_status cadre_world_open(cadre_world **ret_world, const cadre_launch *launch,
                              const cadre_comm_opts *opts);
cadre_status cadre_world_open_threads(cadre_world **ret_worlds, int size,
                                      const cadre_comm_opts *opts);
void cadre_world_release(cadre_world **w); /* when the last communicator goes */

cadre_status cadre_heap_alloc(cadre_world *w, size_t bytes,
                              void **ret_pointer); /* zeroed, 64-byte aligned */
void cadre_heap_free(cadre_world *w, void *pointer);
bool cadre_heap_owns(const cadre_world *w, const void *pointer); /* this rank's heap */

#endif
