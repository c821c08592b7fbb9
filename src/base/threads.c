/* SPDX-License-Identifier: Apache-2.0
 *
 * One job at a time: the caller writes it, raises the round, works on its own range and waits for
 * the others. Workers wait for the round to change: a short spin while there is a core for each,
 * then a futex.
 */
#include "base/threads.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/status.h"

/* A sleeping thread is back some 50 us after its wake: spinning as long costs at most twice the
 * best. */
enum { SPIN_NS = 50000, LOOKS = 32, LINE = 64 };

typedef struct worker {
    cadre_pool *pool;
    pthread_t thread;
    int index, cpu; /* cpu < 0: not pinned */
} worker;

struct cadre_pool {
    int threads, started;
    bool spin;
    void (*start)(int worker);
    worker *workers; /* [threads], the first is the caller */
    /* the job; written before `round` is raised */
    cadre_range_fn *fn;
    void *arg;
    int64_t n, step;
    bool stop;
    _Alignas(LINE) atomic_uint round;    /* raised for every job: workers wait on it */
    _Alignas(LINE) atomic_uint left;     /* workers still at it: the caller waits for 0 */
    _Alignas(LINE) atomic_uint sleepers; /* workers in a futex wait */
    _Alignas(LINE) atomic_uint caller_sleeps;
};

static void futex_wait(atomic_uint *word, unsigned seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int n) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void run_range(cadre_pool *p, int index) {
    int64_t begin = p->step * index, end = begin + p->step < p->n ? begin + p->step : p->n;
    if (begin < end) p->fn(p->arg, begin, end, index);
}

/* Until the word is (`equal`) or is no longer (`!equal`) `value`, for a short while; whether it
 * came to that. */
static bool spin(const cadre_pool *p, atomic_uint *word, unsigned value, bool equal) {
    if (!p->spin) return false;
    int64_t end = 0;
    do {
        for (int i = 0; i < LOOKS; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) == value) == equal) return true;
            cadre_spin_pause();
        }
        int64_t now = cadre_now_ns();
        if (!end) end = now + SPIN_NS;
        if (now >= end) return false;
    } while (true);
}

/* Returns the new round. */
static unsigned next_round(cadre_pool *p, unsigned seen) {
    if (spin(p, &p->round, seen, false)) return atomic_load(&p->round);
    atomic_fetch_add(&p->sleepers, 1);
    unsigned now;
    while ((now = atomic_load(&p->round)) == seen) futex_wait(&p->round, seen);
    atomic_fetch_sub(&p->sleepers, 1);
    return now;
}

static void *work(void *arg) {
    worker *w = arg;
    cadre_pool *p = w->pool;
    if (w->cpu >= 0) (void)cadre_cpus_bind_self(&w->cpu, 1);
    if (p->start) p->start(w->index);
    for (unsigned seen = 0;;) {
        seen = next_round(p, seen);
        if (p->stop) return NULL;
        run_range(p, w->index);
        if (atomic_fetch_sub(&p->left, 1) == 1 && atomic_load(&p->caller_sleeps))
            futex_wake(&p->left, 1);
    }
}

static void wait_for_workers(cadre_pool *p) {
    if (spin(p, &p->left, 0, true)) return;
    atomic_store(&p->caller_sleeps, 1);
    unsigned left;
    while ((left = atomic_load(&p->left)) != 0) futex_wait(&p->left, left);
    atomic_store(&p->caller_sleeps, 0);
}

static void raise_round(cadre_pool *p) {
    atomic_fetch_add(&p->round, 1);
    if (atomic_load(&p->sleepers)) futex_wake(&p->round, p->threads);
}

cadre_status cadre_pool_open(cadre_pool **ret_pool, int threads, const int *cpus,
                             void (*start)(int worker)) {
    CADRE_CHECK(threads >= 1, CADRE_EUSAGE, "a pool of %d threads; it takes at least 1", threads);
    cadre_pool *p = NULL;
    CADRE_TRY(cadre_alloc(&p, CADRE_MEM_OTHER, sizeof *p));
    p->threads = threads;
    p->start = start;
    p->spin = threads <= cadre_cpus_count();
    cadre_status st = cadre_alloc_array(&p->workers, CADRE_MEM_OTHER, threads, sizeof *p->workers);
    sigset_t all, before; /* signals belong to the caller's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; !st && i < threads; i++) {
        p->workers[i] = (worker){.pool = p, .index = i, .cpu = cpus ? cpus[i] : -1};
        int error = pthread_create(&p->workers[i].thread, NULL, work, &p->workers[i]);
        if (error)
            st = CADRE_FAIL(CADRE_ERESOURCE, "cannot start thread %d of %d: error %d", i + 1,
                            threads, error);
        else
            p->started = i;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (st) {
        cadre_pool_close(&p);
        return st;
    }
    if (start) start(0);
    *ret_pool = p;
    return CADRE_OK;
}

int cadre_pool_threads(const cadre_pool *p) {
    return p ? p->threads : 1;
}

void cadre_pool_for(cadre_pool *p, int64_t n, int64_t grain, cadre_range_fn *fn, void *arg) {
    if (n <= 0) return;
    if (!p || p->threads == 1 || n <= grain) {
        fn(arg, 0, n, 0);
        return;
    }
    int64_t grains = (n + grain - 1) / grain;
    p->fn = fn;
    p->arg = arg;
    p->n = n;
    p->step = (grains + p->threads - 1) / p->threads * grain;
    atomic_store_explicit(&p->left, (unsigned)(p->threads - 1), memory_order_relaxed);
    raise_round(p);
    run_range(p, 0);
    wait_for_workers(p);
}

void cadre_pool_close(cadre_pool **pool) {
    cadre_pool *p = *pool;
    if (!p) return;
    p->stop = true;
    raise_round(p);
    for (int i = 1; i <= p->started; i++) pthread_join(p->workers[i].thread, NULL);
    cadre_free(&p->workers);
    cadre_free(pool);
}
