/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of a program that trains by itself: its arrays are copied into spans (one a data type),
 * travel in the same buckets as those of Cadre's own trainer, and come back divided.
 *
 *   order on every rank, a step: samples, buckets of f32, buckets of f64
 */
#include <cadre/parallel.h>

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "parallel/bucket.h"
#include "parallel/check.h"

enum { GROUPS = 2, ALIGN = 16, PROGRESS_NS = 100000 };

/* One of the caller's arrays. */
typedef struct array {
    char *name;
    void *values, *gradients;
    int64_t n;
    int group, item; /* which span, and its place there */
    bool claimed;    /* made ready in this step */
} array;

/* All arrays of one data type. */
typedef struct group {
    cadre_dtype dtype;
    int items;
    int64_t length;
    cadre_bucket_item *item;
    void *span;
    size_t bytes;
    cadre_buckets *buckets;
} group;

struct cadre_sync {
    cadre_comm *comm;
    int64_t bucket_bytes;
    bool overlap;
    bool started, stepping;
    array *at;
    int count;
    group group[GROUPS];
    pthread_mutex_t lock; /* of all that a step changes: cadre_sync_ready comes from any thread */
    bool lock_made;
    int64_t samples; /* of this rank, then of all */
    cadre_work *samples_work;
};

cadre_status cadre_sync_open(cadre_sync **ret_sync, cadre_comm *comm, const cadre_sync_opts *opts) {
    cadre_sync_opts o = CADRE_SYNC_OPTS;
    if (opts) memcpy(&o, opts, opts->size < sizeof o ? opts->size : sizeof o);
    CADRE_CHECK(comm, CADRE_EUSAGE, "cadre_sync_open needs a communicator");
    CADRE_CHECK(o.bucket_bytes >= 0, CADRE_EUSAGE,
                "bucket_bytes is %" PRId64 "; 0 (25 MiB) or more would be accepted",
                o.bucket_bytes);
    cadre_sync *s = NULL;
    CADRE_TRY(cadre_alloc(&s, CADRE_MEM_OTHER, sizeof *s));
    s->comm = comm;
    s->bucket_bytes = o.bucket_bytes ? o.bucket_bytes : (int64_t)25 << 20;
    s->overlap = !o.no_overlap;
    s->group[0].dtype = CADRE_F32;
    s->group[1].dtype = CADRE_F64;
    s->lock_made = pthread_mutex_init(&s->lock, NULL) == 0;
    if (!s->lock_made) {
        cadre_sync_close(&s);
        return CADRE_FAIL(CADRE_ERESOURCE, "cannot make a lock");
    }
    *ret_sync = s;
    return CADRE_OK;
}

cadre_status cadre_sync_add(cadre_sync *s, const char *name, void *values, void *gradients,
                            int64_t n, cadre_dtype dtype, int *ret_id) {
    CADRE_CHECK(!s->started, CADRE_EUSAGE,
                "array '%s' is added after cadre_sync_start; add all arrays before", name);
    CADRE_CHECK(name && name[0], CADRE_EUSAGE, "array %d has no name", s->count);
    CADRE_CHECK(dtype == CADRE_F32 || dtype == CADRE_F64, CADRE_EUSAGE,
                "array '%s' has type %s; f32 and f64 would be accepted", name,
                cadre_dtype_name(dtype));
    CADRE_CHECK(n >= 0 && (n == 0 || (values && gradients)), CADRE_EUSAGE,
                "array '%s' of %" PRId64 " elements needs a size and both its arrays", name, n);
    for (int i = 0; i < s->count; i++)
        CADRE_CHECK(strcmp(s->at[i].name, name) != 0, CADRE_EUSAGE, "array '%s' is added twice",
                    name);
    CADRE_TRY(cadre_realloc(&s->at, CADRE_MEM_OTHER, (size_t)(s->count + 1) * sizeof *s->at));
    array *a = &s->at[s->count];
    *a = (array){.values = values, .gradients = gradients, .n = n, .group = dtype == CADRE_F64};
    CADRE_TRY(cadre_strdup(&a->name, name));
    *ret_id = s->count++;
    return CADRE_OK;
}

/* ---- start ---- */

/* Tells the peers that this rank stops, unless the failure came from them. */
static cadre_status announce(cadre_sync *s, cadre_status st) {
    if (st < 0 && st != CADRE_EPEER) {
        cadre_error error;
        cadre_error_save(&error);
        cadre_comm_abort(s->comm, &error);
    }
    return st;
}

/* Room for `count` hashes of this rank and of every rank. */
static cadre_status take_hashes(const cadre_sync *s, int count, int64_t **ret_hashes) {
    int64_t rows = 1 + cadre_comm_size(s->comm);
    return cadre_alloc_array(ret_hashes, CADRE_MEM_OTHER, rows * count, sizeof(int64_t));
}

/* Collective: did all ranks add as many arrays? */
static cadre_status compare_counts(const cadre_sync *s) {
    int64_t *count = NULL;
    int at, rank;
    CADRE_TRY(take_hashes(s, 1, &count));
    count[0] = s->count;
    cadre_status st = cadre_compare_hashes(s->comm, count, 1, "count of arrays", &at, &rank);
    cadre_free(&count);
    CADRE_TRY(st);
    CADRE_CHECK(rank < 0, CADRE_EPEER,
                "rank %d added another number of arrays than most ranks (here: %d); all ranks have "
                "to add the same arrays in the same order",
                rank, s->count);
    return CADRE_OK;
}

/* Collective: did all ranks add the same arrays? The same answer on every rank. */
static cadre_status compare_arrays(cadre_sync *s) {
    int64_t *hash = NULL;
    int at, rank;
    CADRE_TRY(compare_counts(s));
    CADRE_TRY(take_hashes(s, s->count, &hash));
    for (int i = 0; i < s->count; i++) {
        const array *a = &s->at[i];
        const int64_t shape[2] = {a->n, a->group};
        hash[i] = (int64_t)cadre_hash(shape, sizeof shape, cadre_hash_text(a->name));
    }
    cadre_status st = cadre_compare_hashes(s->comm, hash, s->count, "arrays", &at, &rank);
    cadre_free(&hash);
    CADRE_TRY(st);
    CADRE_CHECK(rank < 0, CADRE_EPEER,
                "array %d differs on rank %d (here: '%s', %" PRId64
                " elements, %s); order, names, sizes and types have to agree on all ranks",
                at, rank, s->at[at].name, s->at[at].n,
                cadre_dtype_name(s->group[s->at[at].group].dtype));
    return CADRE_OK;
}

/* Places all arrays of a type in a span, in the order they were added. */
static cadre_status open_group(cadre_sync *s, int g) {
    group *to = &s->group[g];
    CADRE_TRY(cadre_alloc_array(&to->item, CADRE_MEM_OTHER, s->count, sizeof *to->item));
    for (int i = 0; i < s->count; i++) {
        array *a = &s->at[i];
        if (a->group != g) continue;
        a->item = to->items++;
        to->item[a->item] = (cadre_bucket_item){to->length, a->n, i, true};
        to->length += (a->n + ALIGN - 1) / ALIGN * ALIGN;
    }
    size_t bytes = (size_t)to->length * cadre_dtype_size(to->dtype);
    CADRE_TRY(cadre_comm_alloc(s->comm, bytes, &to->span));
    to->bytes = bytes;
    cadre_mem_note(CADRE_MEM_GRADIENTS, (int64_t)bytes);
    int64_t first = s->bucket_bytes < 1 << 20 ? s->bucket_bytes : 1 << 20;
    return cadre_buckets_open(&to->buckets, s->comm, to->item, to->items, to->length, to->dtype,
                              to->dtype, to->span, s->bucket_bytes, first, s->overlap);
}

static cadre_status start(cadre_sync *s) {
    CADRE_TRY(compare_arrays(s));
    for (int g = 0; g < GROUPS; g++) CADRE_TRY(open_group(s, g));
    for (int i = 0; i < s->count; i++) {
        const array *a = &s->at[i];
        CADRE_TRY(
            cadre_broadcast(s->comm, a->values, a->n, s->group[a->group].dtype, 0, a->name, NULL));
    }
    return CADRE_OK;
}

cadre_status cadre_sync_start(cadre_sync *s) {
    CADRE_CHECK(!s->started, CADRE_EUSAGE, "cadre_sync_start was called before");
    s->started = true;
    CADRE_TRY(announce(s, start(s)));
    return CADRE_OK;
}

/* ---- a step ---- */

cadre_status cadre_sync_begin(cadre_sync *s, int64_t samples) {
    CADRE_CHECK(s->started && s->group[1].buckets, CADRE_EUSAGE,
                "cadre_sync_begin comes after cadre_sync_start");
    CADRE_CHECK(!s->stepping, CADRE_EUSAGE,
                "cadre_sync_begin: the step before has not been waited for (cadre_sync_wait)");
    if (samples < 0)
        return announce(s, CADRE_FAIL(CADRE_EUSAGE,
                                      "a step over %" PRId64 " samples; 0 or more are accepted",
                                      samples));
    pthread_mutex_lock(&s->lock);
    cadre_work_drop(&s->samples_work);
    for (int i = 0; i < s->count; i++) s->at[i].claimed = false;
    for (int g = 0; g < GROUPS; g++)
        cadre_buckets_begin(s->group[g].buckets, g > 0); /* f32 goes first */
    s->samples = samples;
    cadre_status st = cadre_all_reduce(s->comm, &s->samples, &s->samples, 1, CADRE_I64, CADRE_SUM,
                                       "samples", &s->samples_work);
    s->stepping = st == CADRE_OK;
    /* A program without f32 arrays has nothing that goes first. */
    if (!st && cadre_buckets_all_started(s->group[0].buckets))
        st = cadre_buckets_release(s->group[1].buckets);
    pthread_mutex_unlock(&s->lock);
    CADRE_TRY(announce(s, st));
    return CADRE_OK;
}

/* Under the lock: the array is in its span; what is full may start. */
static cadre_status travel(cadre_sync *s, const array *a) {
    cadre_buckets *first = s->group[0].buckets, *second = s->group[1].buckets;
    CADRE_TRY(cadre_buckets_ready(s->group[a->group].buckets, a->item));
    if (cadre_buckets_all_started(first)) CADRE_TRY(cadre_buckets_release(second));
    if (!cadre_buckets_in_flight(first) && !cadre_buckets_in_flight(second)) return CADRE_OK;
    return cadre_comm_progress(s->comm, PROGRESS_NS);
}

cadre_status cadre_sync_ready(cadre_sync *s, int id) {
    CADRE_CHECK(id >= 0 && id < s->count, CADRE_EUSAGE,
                "cadre_sync_ready: array %d of %d that were added", id, s->count);
    array *a = &s->at[id];
    pthread_mutex_lock(&s->lock);
    bool stepping = s->stepping, again = a->claimed;
    a->claimed = a->claimed || stepping;
    pthread_mutex_unlock(&s->lock);
    CADRE_CHECK(stepping, CADRE_EUSAGE, "cadre_sync_ready('%s') comes after cadre_sync_begin",
                a->name);
    CADRE_CHECK(!again, CADRE_EUSAGE, "array '%s' was made ready twice in one step", a->name);
    const group *g = &s->group[a->group];
    size_t size = cadre_dtype_size(g->dtype);
    if (a->n > 0)
        memcpy((char *)g->span + (size_t)g->item[a->item].offset * size, a->gradients,
               (size_t)a->n * size);
    pthread_mutex_lock(&s->lock);
    cadre_status st = travel(s, a);
    pthread_mutex_unlock(&s->lock);
    CADRE_TRY(st);
    return CADRE_OK;
}

/* The mean into the caller's array. One division an element, so every rank rounds alike. */
static void give_back(const cadre_sync *s, const array *a) {
    const group *g = &s->group[a->group];
    double total = (double)s->samples;
    int64_t offset = g->item[a->item].offset;
    if (g->dtype == CADRE_F64) {
        const double *from = (const double *)g->span + offset;
        double *to = a->gradients;
        for (int64_t i = 0; i < a->n; i++) to[i] = from[i] / total;
    } else {
        const float *from = (const float *)g->span + offset;
        float *to = a->gradients;
        for (int64_t i = 0; i < a->n; i++) to[i] = (float)(from[i] / total);
    }
}

/* Under the lock. */
static cadre_status finish(cadre_sync *s, cadre_deadline deadline) {
    int missing;
    for (int i = 0; i < s->count; i++)
        CADRE_CHECK(cadre_buckets_is_ready(s->group[s->at[i].group].buckets, s->at[i].item),
                    CADRE_EUSAGE,
                    "array '%s' was never made ready in this step (cadre_sync_ready); every array "
                    "has to be, on every rank",
                    s->at[i].name);
    CADRE_TRY(cadre_work_wait(&s->samples_work, deadline));
    for (int g = 0; g < GROUPS; g++)
        CADRE_TRY(cadre_buckets_wait(s->group[g].buckets, deadline, &missing));
    return CADRE_OK;
}

cadre_status cadre_sync_wait(cadre_sync *s, cadre_deadline deadline) {
    CADRE_CHECK(s->stepping, CADRE_EUSAGE, "cadre_sync_wait comes after cadre_sync_begin");
    pthread_mutex_lock(&s->lock);
    cadre_status st = announce(s, finish(s, deadline));
    s->stepping = false;
    pthread_mutex_unlock(&s->lock);
    CADRE_TRY(st);
    CADRE_CHECK(s->samples > 0, CADRE_EUSAGE,
                "no rank had a sample in this step: there is no mean; gradients are as they were");
    for (int i = 0; i < s->count; i++) give_back(s, &s->at[i]);
    return CADRE_OK;
}

cadre_status cadre_sync_check(cadre_sync *s) {
    int64_t *hash = NULL;
    int at, rank;
    CADRE_CHECK(s->started, CADRE_EUSAGE, "cadre_sync_check comes after cadre_sync_start");
    CADRE_TRY(take_hashes(s, s->count, &hash));
    for (int i = 0; i < s->count; i++) {
        const array *a = &s->at[i];
        size_t bytes = (size_t)a->n * cadre_dtype_size(s->group[a->group].dtype);
        hash[i] = (int64_t)cadre_hash(a->n ? a->values : "", bytes, 0);
    }
    cadre_status st = cadre_compare_hashes(s->comm, hash, s->count, "array hashes", &at, &rank);
    cadre_free(&hash);
    CADRE_TRY(st);
    CADRE_CHECK(rank < 0, CADRE_EINTERNAL,
                "the values of array '%s' on rank %d differ from the other ranks'; all ranks "
                "should hold the same bits",
                s->at[at].name, rank);
    return CADRE_OK;
}

void cadre_sync_close(cadre_sync **sync) {
    cadre_sync *s = *sync;
    if (!s) return;
    cadre_work_drop(&s->samples_work);
    for (int g = 0; g < GROUPS; g++) {
        cadre_buckets_close(&s->group[g].buckets);
        if (s->group[g].span) cadre_comm_free(s->comm, s->group[g].span);
        cadre_mem_note(CADRE_MEM_GRADIENTS, -(int64_t)s->group[g].bytes);
        cadre_free(&s->group[g].item);
    }
    for (int i = 0; i < s->count; i++) cadre_free(&s->at[i].name);
    cadre_free(&s->at);
    if (s->lock_made) pthread_mutex_destroy(&s->lock);
    cadre_free(sync);
}
