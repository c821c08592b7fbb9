/* SPDX-License-Identifier: Apache-2.0
 *
 * Work over the pool with the first failure kept, and scratch a thread.
 */
#include "tensor/ops/cpu/pooled.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/ops/cpu/dnnl.h"
#include "base/alloc.h"

typedef struct job {
    void *self;
    cadre_work_fn *fn;
    bool timed;
    _Atomic int64_t product_ns; /* of all threads, when timed */
    atomic_flag failed;
    cadre_status status;
    cadre_error error;
} job;

static void run(void *arg, int64_t begin, int64_t end, int worker) {
    job *j = arg;
    int64_t product_ns = 0;
    (void)worker;
    cadre_product_timer = j->timed ? &product_ns : NULL;
    cadre_status st = j->fn(j->self, begin, end);
    cadre_product_timer = NULL;
    atomic_fetch_add(&j->product_ns, product_ns);
    if (!st || atomic_flag_test_and_set(&j->failed)) return;
    cadre_error_save(&j->error);
    j->status = st;
}

cadre_status cadre_pooled_work(cadre_queue *q, void *self, int64_t n, int64_t grain,
                               cadre_work_fn *fn) {
    bool alone = cadre_pool_threads(q->pool) == 1 || n <= grain;
    if (n <= 0 || (alone && !q->watch)) return n > 0 ? fn(self, 0, n) : CADRE_OK;
    job j = {.self = self, .fn = fn, .timed = q->watch != NULL, .failed = ATOMIC_FLAG_INIT};
    cadre_pool_for(q->pool, n, grain, run, &j);
    if (q->watch) q->watch->product_ns += j.product_ns / (alone ? 1 : cadre_pool_threads(q->pool));
    return j.status ? cadre_error_restore(&j.error) : CADRE_OK;
}

typedef struct on_call {
    cadre_call *call;
    cadre_pooled_fn *fn;
} on_call;

static cadre_status run_on_call(void *self, int64_t begin, int64_t end) {
    const on_call *w = self;
    return w->fn(w->call, begin, end);
}

cadre_status cadre_pooled(cadre_queue *q, cadre_call *c, int64_t n, int64_t grain,
                          cadre_pooled_fn *fn) {
    on_call w = {c, fn};
    return cadre_pooled_work(q, &w, n, grain, run_on_call);
}

typedef struct scratch {
    void *memory;
    size_t bytes;
} scratch;

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local scratch *mine;

static void drop(void *s) {
    cadre_mem_note(CADRE_MEM_WORKSPACE, -(int64_t)((scratch *)s)->bytes);
    free(((scratch *)s)->memory);
    free(s);
}

static void make_key(void) {
    pthread_key_create(&key, drop);
}

cadre_status cadre_scratch(size_t bytes, void *ret_pointer) {
    if (!mine) {
        pthread_once(&once, make_key);
        mine = calloc(1, sizeof *mine);
        CADRE_CHECK(mine, CADRE_ERESOURCE, "no memory for a kernel's scratch");
        pthread_setspecific(key, mine);
    }
    if (mine->bytes < bytes) {
        size_t rounded = (bytes + 4095) / 4096 * 4096;
        free(mine->memory);
        cadre_mem_note(CADRE_MEM_WORKSPACE, -(int64_t)mine->bytes);
        mine->bytes = 0;
        mine->memory = aligned_alloc(64, rounded);
        CADRE_CHECK(mine->memory, CADRE_ERESOURCE, "no memory for a kernel's scratch of %zu bytes",
                    bytes);
        mine->bytes = rounded;
        cadre_mem_note(CADRE_MEM_WORKSPACE, (int64_t)rounded);
    }
    memcpy(ret_pointer, &mine->memory, sizeof mine->memory);
    return CADRE_OK;
}
