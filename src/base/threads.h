/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's only pool of threads. Work is cut into contiguous ranges, one a thread; the caller takes
 * part as worker 0. Idle threads spin for a few microseconds, then sleep on a futex. Kernels must
 * give the same bits for any cut.
 */
#ifndef CADRE_BASE_THREADS_H
#define CADRE_BASE_THREADS_H

#include <cadre/base.h>

typedef struct cadre_pool cadre_pool;

/* Works on items [begin, end) as worker `worker` (0 .. threads - 1). */
typedef void cadre_range_fn(void *arg, int64_t begin, int64_t end, int worker);

/* `threads` >= 1 counts the caller. `cpus`: logical processor of each worker >= 1, NULL: not pinned
 * (worker 0 is the caller, whose affinity the pool never touches). Each pool thread runs `start`
 * once (NULL: nothing), for libraries that keep settings a thread (OpenMP). */
cadre_status cadre_pool_open(cadre_pool **ret_pool, int threads, const int *cpus,
                             void (*start)(int worker));
int cadre_pool_threads(const cadre_pool *p); /* 1 for NULL */
/* Runs `fn` over [0, n), cut at multiples of `grain` (>= 1); returns when all is done. NULL pool or
 * n <= grain: inline. */
void cadre_pool_for(cadre_pool *p, int64_t n, int64_t grain, cadre_range_fn *fn, void *arg);
void cadre_pool_close(cadre_pool **p);

/* Between two looks in a loop that spins: tells the processor that this is waiting. */
static inline void cadre_spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
