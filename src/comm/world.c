/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a world. Processes meet at rank 0's abstract socket:
 *
 *   rank r -> rank 0    {rank, size}, its heap's memfd
 *   rank 0 -> rank r    {size}, memfd of the control block, all heaps, a pidfd of every rank
 *
 * Nothing has a name in the file system, so nothing is left behind, however a rank ends. A pidfd
 * becomes readable when its process ends: that is how peers learn of it.
 */
#include "comm/world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <poll.h>
#include <unistd.h>

#include "base/alloc.h"

typedef struct cadre_shared_world {
    atomic_int users;
    int size;
    cadre_segment *segment;
    cadre_control *control;
    size_t control_bytes;
} cadre_shared_world;

/* ---- the control block's layout ---- */

static size_t members_at(void) {
    return (sizeof(cadre_control) + CADRE_LINE - 1) / CADRE_LINE * CADRE_LINE;
}

static size_t channels_at(int size) {
    return members_at() + (size_t)size * sizeof(cadre_member);
}

static size_t slots_at(int size) {
    return channels_at(size) + (size_t)size * (size_t)size * sizeof(cadre_channel);
}

size_t cadre_control_bytes(int size) {
    return slots_at(size) + (size_t)size * CADRE_SLOTS * CADRE_SLOT;
}

cadre_member *cadre_control_member(cadre_control *c, int i) {
    return (cadre_member *)((char *)c + members_at()) + i;
}

cadre_channel *cadre_control_channel(cadre_control *c, int from, int to) {
    return (cadre_channel *)((char *)c + channels_at(c->size)) + (size_t)from * (size_t)c->size +
           to;
}

void *cadre_control_slot(cadre_control *c, int member, uint64_t sequence) {
    return (char *)c + slots_at(c->size) +
           ((size_t)member * CADRE_SLOTS + sequence % CADRE_SLOTS) * CADRE_SLOT;
}

/* ---- memory ---- */

/* A heap is as large as the machine's memory, less where the address space of a process is limited
 * (ulimit -v; every rank maps all heaps); only what is touched is there. The limit must be the same
 * for all ranks. */
static size_t heap_bytes(int size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size_t)sysconf(_SC_PHYS_PAGES);
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        size_t share = (size_t)limit.rlim_cur / 4 / (size_t)size / page;
        if (share < pages) pages = share;
    }
    return pages * page;
}

static cadre_status make_memory(size_t bytes, const char *what, int *ret_fd) {
    int fd = memfd_create(what, MFD_CLOEXEC);
    CADRE_CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0, CADRE_ERESOURCE,
                "cannot make shared memory of %zu bytes: %s", bytes, strerror(errno));
    *ret_fd = fd;
    return CADRE_OK;
}

static cadre_status map_memory(int fd, size_t bytes, void **ret_base) {
    int flags = (fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_NORESERVE;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    CADRE_CHECK(base != MAP_FAILED, CADRE_ERESOURCE, "cannot map %zu bytes of shared memory: %s",
                bytes, strerror(errno));
    (void)madvise(base, bytes, MADV_DONTDUMP); /* a core file of the machine's size helps nobody */
    *ret_base = base;
    return CADRE_OK;
}

/* ---- the meeting ---- */

typedef struct hello {
    int32_t rank, size;
} hello;

static socklen_t address_of(const cadre_launch *launch, struct sockaddr_un *ret) {
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "cadre-%d-%s", (int)getuid(),
                     launch->job);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static cadre_status send_fds(int socket, hello *h, const int *fds, int count) {
    char space[CMSG_SPACE(sizeof(int) * (2 * CADRE_RANKS_MAX + 1))];
    memset(space, 0, sizeof space);
    struct iovec data = {h, sizeof *h};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = space,
                       .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)count);
    CADRE_CHECK(sendmsg(socket, &m, MSG_NOSIGNAL) == (ssize_t)sizeof *h, CADRE_EPEER,
                "a rank left while the world was opened: %s", strerror(errno));
    return CADRE_OK;
}

static cadre_status receive_fds(int socket, hello *ret_hello, int *ret_fds, int count) {
    char space[CMSG_SPACE(sizeof(int) * (2 * CADRE_RANKS_MAX + 1))];
    struct iovec data = {ret_hello, sizeof *ret_hello};
    struct msghdr m = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    ssize_t n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n == (ssize_t)sizeof *ret_hello ? CMSG_FIRSTHDR(&m) : NULL;
    CADRE_CHECK(c && c->cmsg_type == SCM_RIGHTS &&
                    c->cmsg_len == CMSG_LEN(sizeof(int) * (size_t)count),
                CADRE_EPEER, "a rank left while the world was opened");
    memcpy(ret_fds, CMSG_DATA(c), sizeof(int) * (size_t)count);
    return CADRE_OK;
}

static int pidfd_of(int pid) {
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static cadre_status late(const bool *here, int size, int64_t since_ns) {
    char names[256] = "";
    for (int i = 0; i < size; i++)
        if (!here[i] && strlen(names) + 12 < sizeof names)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%d",
                     names[0] ? ", " : "", i);
    return CADRE_FAIL(CADRE_EPEER, "ranks %s of %d have not joined after %.1f s", names, size,
                      (double)(cadre_now_ns() - since_ns) * 1e-9);
}

static bool parent_gone(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&p, 1, 0) > 0;
}

/* Rank 0: one socket a peer, `fds` = [control, heaps..., pidfds...] filled in. */
static cadre_status gather_ranks(const cadre_launch *l, int listener, int *sockets, int *fds,
                                 int *pids, cadre_deadline deadline) {
    int64_t since = cadre_now_ns();
    bool here[CADRE_RANKS_MAX] = {true};
    for (int joined = 1; joined < l->size;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        if (poll(&p, 1, 100) <= 0) {
            CADRE_CHECK(!parent_gone(l->parent_fd), CADRE_EPEER, "the supervisor is gone");
            if (cadre_past(deadline)) return late(here, l->size, since);
            continue;
        }
        int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC), heap = -1;
        hello h;
        struct ucred who;
        socklen_t length = sizeof who;
        if (s < 0) continue;
        if (getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 || who.uid != getuid() ||
            receive_fds(s, &h, &heap, 1)) {
            close(s); /* not one of us */
            continue;
        }
        if (h.size != l->size || h.rank < 1 || h.rank >= l->size || here[h.rank]) {
            close(s);
            close(heap);
            return CADRE_FAIL(CADRE_EPEER, "rank %d of %d came to a world of %d ranks%s", h.rank,
                              h.size, l->size, h.size == l->size ? " where it is already" : "");
        }
        here[h.rank] = true;
        sockets[h.rank] = s;
        fds[1 + h.rank] = heap;
        pids[h.rank] = who.pid;
        fds[1 + l->size + h.rank] = pidfd_of(who.pid);
        joined++;
    }
    return CADRE_OK;
}

static cadre_status meet_as_first(const cadre_launch *l, int *fds, int *pids,
                                  cadre_deadline deadline) {
    int sockets[CADRE_RANKS_MAX];
    struct sockaddr_un address;
    socklen_t length = address_of(l, &address);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    for (int i = 0; i < l->size; i++) sockets[i] = -1;
    cadre_status st = CADRE_OK;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 ||
        listen(listener, l->size) != 0)
        st = CADRE_FAIL(CADRE_EPEER, "cannot open the meeting place of job %s: %s", l->job,
                        strerror(errno));
    pids[0] = getpid();
    fds[1 + l->size] = pidfd_of(getpid());
    if (!st) st = gather_ranks(l, listener, sockets, fds, pids, deadline);
    hello h = {0, l->size};
    for (int i = 1; !st && i < l->size; i++) st = send_fds(sockets[i], &h, fds, 2 * l->size + 1);
    for (int i = 1; !st && i < l->size; i++)
        if (send(sockets[i], pids, sizeof *pids * (size_t)l->size, MSG_NOSIGNAL) < 0)
            st = CADRE_FAIL(CADRE_EPEER, "rank %d left while the world was opened", i);
    for (int i = 0; i < l->size; i++)
        if (sockets[i] >= 0) close(sockets[i]);
    if (listener >= 0) close(listener);
    return st;
}

static cadre_status meet_as_other(const cadre_launch *l, int *fds, int *pids,
                                  cadre_deadline deadline) {
    struct sockaddr_un address;
    socklen_t length = address_of(l, &address);
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CADRE_CHECK(s >= 0, CADRE_ERESOURCE, "cannot open a socket: %s", strerror(errno));
    int64_t since = cadre_now_ns();
    cadre_status st = CADRE_OK;
    while (!st && connect(s, (struct sockaddr *)&address, length) != 0) {
        if (parent_gone(l->parent_fd)) st = CADRE_FAIL(CADRE_EPEER, "the supervisor is gone");
        if (!st && cadre_past(deadline))
            st = CADRE_FAIL(CADRE_EPEER, "rank 0 of %d has not opened the world after %.1f s",
                            l->size, (double)(cadre_now_ns() - since) * 1e-9);
        cadre_sleep_ms(1);
    }
    hello h = {l->rank, l->size};
    if (!st) st = send_fds(s, &h, &fds[1 + l->rank], 1);
    for (struct pollfd p = {.fd = s, .events = POLLIN}; !st && poll(&p, 1, 100) <= 0;) {
        if (parent_gone(l->parent_fd)) st = CADRE_FAIL(CADRE_EPEER, "the supervisor is gone");
        if (!st && cadre_past(deadline))
            st = CADRE_FAIL(CADRE_EPEER, "the world of %d ranks is not complete after %.1f s",
                            l->size, (double)(cadre_now_ns() - since) * 1e-9);
    }
    int got[2 * CADRE_RANKS_MAX + 1];
    if (!st) st = receive_fds(s, &h, got, 2 * l->size + 1);
    if (!st && recv(s, pids, sizeof *pids * (size_t)l->size, 0) !=
                   (ssize_t)(sizeof *pids * (size_t)l->size))
        st = CADRE_FAIL(CADRE_EPEER, "rank 0 left while the world was opened");
    close(s);
    if (st) return st;
    close(fds[1 + l->rank]);
    memcpy(fds, got, sizeof *got * (size_t)(2 * l->size + 1));
    return CADRE_OK;
}

/* ---- worlds ---- */

static cadre_status make_world(cadre_world **ret, int rank, int size, const cadre_comm_opts *opts) {
    cadre_world *w = NULL;
    CADRE_TRY(cadre_alloc(&w, CADRE_MEM_OTHER, sizeof *w));
    w->rank = w->local_rank = rank;
    w->size = w->local_size = size;
    w->parent_fd = -1;
    w->opts = *opts;
    pthread_mutex_init(&w->lock, NULL);
    *ret = w;
    return CADRE_OK;
}

static cadre_status map_all(cadre_world *w, const int *fds, size_t heap) {
    void *base = NULL;
    CADRE_TRY(map_memory(fds[0], w->control_bytes, &base));
    w->control = base;
    for (int i = 0; i < w->size; i++) {
        CADRE_TRY(map_memory(fds[1 + i], heap, &base));
        w->segment[i] = (cadre_segment){base, heap};
        w->pidfd[i] = fds[1 + w->size + i];
    }
    return CADRE_OK;
}

static void init_control(cadre_control *c, int size) {
    c->size = size;
    for (int i = 0; i < size; i++) cadre_control_member(c, i)->wait.whom = -1;
}

static cadre_status meet(cadre_world *w, const cadre_launch *l, int *fds, size_t heap) {
    cadre_deadline deadline = cadre_in_ms(w->opts.timeout_ms);
    CADRE_TRY(make_memory(heap, "cadre-heap", &fds[1 + l->rank]));
    if (l->rank == 0) {
        CADRE_TRY(make_memory(w->control_bytes, "cadre-control", &fds[0]));
        void *base = NULL;
        CADRE_TRY(map_memory(fds[0], w->control_bytes, &base));
        init_control(base, l->size);
        munmap(base, w->control_bytes);
        CADRE_TRY(meet_as_first(l, fds, w->pid, deadline));
    } else {
        CADRE_TRY(meet_as_other(l, fds, w->pid, deadline));
    }
    return map_all(w, fds, heap);
}

cadre_status cadre_world_open(cadre_world **ret_world, const cadre_launch *launch,
                              const cadre_comm_opts *opts) {
    CADRE_CHECK(launch->size <= CADRE_RANKS_MAX, CADRE_EUSAGE,
                "%d ranks on one machine; shm takes at most %d", launch->size, CADRE_RANKS_MAX);
    cadre_world *w = NULL;
    int fds[2 * CADRE_RANKS_MAX + 1];
    for (int i = 0; i < CADRE_COUNT(fds); i++) fds[i] = -1;
    CADRE_TRY(make_world(&w, launch->rank, launch->size, opts));
    w->transport = "shm";
    w->local_rank = launch->local_rank;
    w->local_size = launch->local_size;
    w->parent_fd = launch->parent_fd;
    w->control_bytes = cadre_control_bytes(launch->size);
    cadre_status st = cadre_alloc_array(&w->segment, CADRE_MEM_OTHER, w->size, sizeof *w->segment);
    if (!st) st = cadre_alloc_array(&w->pidfd, CADRE_MEM_OTHER, w->size, sizeof *w->pidfd);
    if (!st) st = cadre_alloc_array(&w->pid, CADRE_MEM_OTHER, w->size, sizeof *w->pid);
    if (w->pidfd) memset(w->pidfd, -1, (size_t)w->size * sizeof *w->pidfd);
    if (!st) st = meet(w, launch, fds, heap_bytes(w->size));
    for (int i = 0; i < 1 + w->size; i++) /* the mappings hold the memory */
        if (fds[i] >= 0) close(fds[i]);
    if (st) {
        cadre_world_release(&w);
        return st;
    }
    *ret_world = w;
    return CADRE_OK;
}

static void drop_shared(cadre_shared_world *s) {
    for (int i = 0; s->segment && i < s->size; i++)
        if (s->segment[i].base) munmap(s->segment[i].base, s->segment[i].bytes);
    if (s->control) munmap(s->control, s->control_bytes);
    cadre_free(&s->segment);
    cadre_free(&s);
}

static cadre_status make_shared(cadre_shared_world **ret, int size) {
    cadre_shared_world *s = NULL;
    void *base = NULL;
    CADRE_TRY(cadre_alloc(&s, CADRE_MEM_OTHER, sizeof *s));
    s->size = size;
    s->control_bytes = cadre_control_bytes(size);
    atomic_store(&s->users, size);
    cadre_status st = cadre_alloc_array(&s->segment, CADRE_MEM_OTHER, size, sizeof *s->segment);
    if (!st) st = map_memory(-1, s->control_bytes, &base);
    if (!st) {
        s->control = base;
        init_control(s->control, size);
    }
    for (int i = 0; !st && i < size; i++) {
        st = map_memory(-1, heap_bytes(size), &base);
        if (!st) s->segment[i] = (cadre_segment){base, heap_bytes(size)};
    }
    if (st) {
        drop_shared(s);
        return st;
    }
    *ret = s;
    return CADRE_OK;
}

cadre_status cadre_world_open_threads(cadre_world **ret_worlds, int size,
                                      const cadre_comm_opts *opts) {
    cadre_shared_world *s = NULL;
    CADRE_TRY(make_shared(&s, size));
    cadre_status st = CADRE_OK;
    int made = 0;
    for (; !st && made < size; made += !st) {
        st = make_world(&ret_worlds[made], made, size, opts);
        if (st) break;
        cadre_world *w = ret_worlds[made];
        w->threads = true;
        w->transport = size == 1 ? "self" : "shm";
        w->shared = s;
        w->segment = s->segment;
        w->control = s->control;
        w->control_bytes = s->control_bytes;
    }
    if (!st) return CADRE_OK;
    atomic_store(&s->users, made);
    if (made == 0) drop_shared(s);
    while (made > 0) cadre_world_release(&ret_worlds[--made]);
    return st;
}

void cadre_world_release(cadre_world **world) {
    cadre_world *w = *world;
    if (!w || --w->users > 0) return;
    if (w->shared) {
        if (atomic_fetch_sub(&w->shared->users, 1) == 1) drop_shared(w->shared);
    } else {
        for (int i = 0; w->segment && i < w->size; i++)
            if (w->segment[i].base) munmap(w->segment[i].base, w->segment[i].bytes);
        for (int i = 0; w->pidfd && i < w->size; i++)
            if (w->pidfd[i] >= 0) close(w->pidfd[i]);
        if (w->control) munmap(w->control, w->control_bytes);
        cadre_free(&w->segment);
        cadre_free(&w->pidfd);
        cadre_free(&w->pid);
    }
    cadre_free(&w->blocks);
    pthread_mutex_destroy(&w->lock);
    cadre_free(world);
}
