/* SPDX-License-Identifier: Apache-2.0
 *
 * Cadre, comm: ranks that talk to each other. Reductions sum along one fixed tree over the ranks,
 * so their bits do not depend on timing: T(a, b) = T(a, m) + T(m, b), m - a the largest power of
 * two below b - a.
 *
 * Before data moves, all ranks compare what they called (kind, count, type, reduction, root, name).
 * A difference is an error on every rank that names both calls; never a hang, never a wrong sum.
 */
#ifndef CADRE_COMM_H
#define CADRE_COMM_H

#include <cadre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_comm cadre_comm;
typedef struct cadre_work cadre_work;

typedef enum cadre_reduction { CADRE_SUM = 0, CADRE_MAX = 1, CADRE_MIN = 2 } cadre_reduction;

/* Plumbing. Start from CADRE_COMM_OPTS; zero or NULL means the default. */
typedef struct cadre_comm_opts {
    size_t size;
    const char *transport;   /* "auto" (default), "self", "shm" */
    int64_t timeout_ms;      /* a wait without a deadline of its own; default 5 minutes */
    int64_t warn_after_ms;   /* say who waits for whom after this long; default 30 s */
    int32_t progress_thread; /* 1: a thread of its own drives operations; default 0: post, test and
                                wait do */
} cadre_comm_opts;

#ifdef __cplusplus
#define CADRE_COMM_OPTS cadre_comm_opts_default()
static inline cadre_comm_opts cadre_comm_opts_default(void) {
    cadre_comm_opts o = cadre_comm_opts();
    o.size = sizeof o;
    return o;
}
#else
#define CADRE_COMM_OPTS ((cadre_comm_opts){.size = sizeof(cadre_comm_opts)})
#endif

/* Collective over the world that the launcher made (`cadre run --ranks N -- PROGRAM`); one rank
 * when nobody launched us. Reads the environment, once. `opts` may be NULL. A half-set environment
 * is CADRE_EUSAGE. */
CADRE_API cadre_status cadre_comm_open(cadre_comm **ret_world, const cadre_comm_opts *opts);

/* Local. */
CADRE_API int cadre_comm_rank(const cadre_comm *comm);
CADRE_API int cadre_comm_size(const cadre_comm *comm);

/* Collective over `comm`: a smaller communicator of the ranks that give the same `color` (>= 0),
 * ordered by (key, rank). A negative color gives NULL. */
CADRE_API cadre_status cadre_comm_split(cadre_comm *comm, int color, int key,
                                        cadre_comm **ret_comm);

/* Local: announces that this rank leaves. Work in flight must be done. Peers that still call get
 * CADRE_EPEER. */
CADRE_API void cadre_comm_close(cadre_comm **comm);

/* Local. Memory that peers can read in place (zeroed, 64-byte aligned); valid in every communicator
 * of this world. Other memory works everywhere too, through a copy. */
CADRE_API cadre_status cadre_comm_alloc(cadre_comm *comm, size_t bytes, void **ret_pointer);
CADRE_API void cadre_comm_free(cadre_comm *comm, void *pointer);

/* ---- collectives ----
 *
 * All are collective over `comm`; count, dtype, reduction, root and name must agree on every rank.
 * `name` says what it is for ("bucket 3"); it is part of the fingerprint and of messages, and is
 * copied. With `ret_work` NULL the call blocks until done or the communicator's timeout; otherwise
 * it returns at once and the buffers are busy until the work is done. `in` and `out` may be the
 * same address, and must not overlap otherwise. dtypes: f32 f64 bf16 i32 i64 (reductions), any
 * (movement). bf16 sums are taken in f32 and rounded once. CADRE_MAX and CADRE_MIN compare; which
 * operand a comparison with NaN keeps is not said. */

/* out[0..count) = reduction over ranks of in[0..count). */
CADRE_API cadre_status cadre_all_reduce(cadre_comm *comm, const void *in, void *out, int64_t count,
                                        cadre_dtype dtype, cadre_reduction op, const char *name,
                                        cadre_work **ret_work);
/* in: size x count elements; out[0..count) = reduction of the ranks' in[rank x count ..). In place:
 * out = in + rank x count. */
CADRE_API cadre_status cadre_reduce_scatter(cadre_comm *comm, const void *in, void *out,
                                            int64_t count, cadre_dtype dtype, cadre_reduction op,
                                            const char *name, cadre_work **ret_work);
/* out: size x count elements, rank r's in[0..count) at r x count. In place: in = out + rank x
 * count. */
CADRE_API cadre_status cadre_all_gather(cadre_comm *comm, const void *in, void *out, int64_t count,
                                        cadre_dtype dtype, const char *name, cadre_work **ret_work);
/* data of `root` to everyone. */
CADRE_API cadre_status cadre_broadcast(cadre_comm *comm, void *data, int64_t count,
                                       cadre_dtype dtype, int root, const char *name,
                                       cadre_work **ret_work);
/* in, out: size x count elements; out[s x count ..) = rank s's in[rank x count ..). Not in place.
 */
CADRE_API cadre_status cadre_all_to_all(cadre_comm *comm, const void *in, void *out, int64_t count,
                                        cadre_dtype dtype, const char *name, cadre_work **ret_work);
/* Returns when every rank has come. */
CADRE_API cadre_status cadre_barrier(cadre_comm *comm, const char *name);

/* Between two ranks, in order per pair; both sides name the same count, dtype and name. */
CADRE_API cadre_status cadre_send(cadre_comm *comm, const void *data, int64_t count,
                                  cadre_dtype dtype, int to, const char *name,
                                  cadre_work **ret_work);
CADRE_API cadre_status cadre_recv(cadre_comm *comm, void *data, int64_t count, cadre_dtype dtype,
                                  int from, const char *name, cadre_work **ret_work);

/* ---- work in flight ---- */

/* Local. CADRE_PENDING, CADRE_OK, or the failure. Makes progress on all work of the communicator.
 */
CADRE_API cadre_status cadre_work_test(cadre_work *work);
/* Local, may block. Waits and closes the handle (leaves NULL) whatever the result; past the
 * deadline CADRE_EPEER with a sentence that names the late ranks. NULL work is CADRE_OK. */
CADRE_API cadre_status cadre_work_wait(cadre_work **work, cadre_deadline deadline);

#ifdef __cplusplus
}
#endif
#endif
