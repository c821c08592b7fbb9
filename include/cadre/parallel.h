/* SPDX-License-Identifier: Apache-2.0
 *
 * Cadre, parallel: gradients of a program that trains by itself, averaged over all samples of all
 * ranks. The same buckets as Cadre's own trainer: arrays travel as soon as a bucket of them is
 * ready, in one fixed order.
 *
 *   cadre_sync_open, cadre_sync_add (each array), cadre_sync_start
 *   every step: cadre_sync_begin, cadre_sync_ready (each array, any order), cadre_sync_wait
 */
#ifndef CADRE_PARALLEL_H
#define CADRE_PARALLEL_H

#include <cadre/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_sync cadre_sync;

typedef struct cadre_sync_opts {
    size_t size;
    int64_t bucket_bytes; /* default 25 MiB */
    int32_t no_overlap;   /* 1: everything travels in cadre_sync_wait */
} cadre_sync_opts;

#ifdef __cplusplus
#define CADRE_SYNC_OPTS cadre_sync_opts_default()
static inline cadre_sync_opts cadre_sync_opts_default(void) {
    cadre_sync_opts o = cadre_sync_opts();
    o.size = sizeof o;
    return o;
}
#else
#define CADRE_SYNC_OPTS ((cadre_sync_opts){.size = sizeof(cadre_sync_opts)})
#endif

/* Collective over `comm`. `opts` may be NULL. */
CADRE_API cadre_status cadre_sync_open(cadre_sync **ret_sync, cadre_comm *comm,
                                       const cadre_sync_opts *opts);

/* Local, before start. `values` and `gradients` are the caller's arrays of n elements (f32 or f64),
 * borrowed until close; `ret_id` is for cadre_sync_ready. Order, names, sizes and types must agree
 * on all ranks: checked in start. */
CADRE_API cadre_status cadre_sync_add(cadre_sync *s, const char *name, void *values,
                                      void *gradients, int64_t n, cadre_dtype dtype, int *ret_id);

/* Collective. Compares what the ranks added (a difference is CADRE_EPEER naming the array), then
 * puts rank 0's values everywhere. */
CADRE_API cadre_status cadre_sync_start(cadre_sync *s);

/* Collective. A step: this rank's gradients will be sums over `samples` samples (0 allowed: its
 * gradients then count as they are, normally zeros). */
CADRE_API cadre_status cadre_sync_begin(cadre_sync *s, int64_t samples);

/* Local, from any thread. The gradient of array `id` is final: it may travel now and must not be
 * touched until wait. */
CADRE_API cadre_status cadre_sync_ready(cadre_sync *s, int id);

/* Collective. Waits for all; every gradient is then (sum over ranks) / (samples of all ranks), the
 * same bits on every rank. An array never made ready is CADRE_EUSAGE naming it (CADRE_EPEER on the
 * other ranks). No samples anywhere is CADRE_EUSAGE. */
CADRE_API cadre_status cadre_sync_wait(cadre_sync *s, cadre_deadline deadline);

/* Collective. Compares the bits of all values over the ranks; the first array that differs is named
 * (CADRE_EINTERNAL). */
CADRE_API cadre_status cadre_sync_check(cadre_sync *s);

CADRE_API void cadre_sync_close(cadre_sync **s);

#ifdef __cplusplus
}
#endif
#endif
