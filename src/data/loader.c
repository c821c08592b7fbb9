/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread fills a ring of micro-batches; the consumer holds one slot while the thread fills the
 * others. Both sides sleep on a condition variable when they have to wait.
 */
#include "data/loader.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/trace.h"

struct cadre_loader {
    const cadre_run_of_tokens *tokens;
    cadre_sampler sampler;
    cadre_batching batching;
    cadre_micro_batch *ring;
    int slots;

    /* the thread's own */
    int64_t position, micro; /* of the micro-batch it fills next */

    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* over all that follows */
    pthread_cond_t filled, freed;
    int64_t made, taken; /* micro-batches; slot = number % slots */
    bool held, stop;
    int64_t wait_ns;
    cadre_trace *trace; /* the consumer's, as of its last call */
};

cadre_status cadre_micro_batch_open(cadre_micro_batch *ret_batch, int64_t rows, int64_t context) {
    cadre_micro_batch b = {.rows = rows, .context = context};
    CADRE_CHECK(rows >= 1 && context >= 1 && rows <= INT64_MAX / context, CADRE_EUSAGE,
                "a micro-batch of %" PRId64 " x %" PRId64 " tokens", rows, context);
    cadre_status st =
        cadre_alloc_array(&b.inputs, CADRE_MEM_LOADER, rows * context, sizeof(int32_t));
    if (!st) st = cadre_alloc_array(&b.labels, CADRE_MEM_LOADER, rows * context, sizeof(int32_t));
    if (!st) st = cadre_alloc_array(&b.samples, CADRE_MEM_LOADER, rows, sizeof(int64_t));
    if (st) {
        cadre_micro_batch_close(&b);
        return st;
    }
    *ret_batch = b;
    return CADRE_OK;
}

void cadre_micro_batch_close(cadre_micro_batch *batch) {
    cadre_free(&batch->samples);
    cadre_free(&batch->labels);
    cadre_free(&batch->inputs);
    *batch = (cadre_micro_batch){0};
}

/* Tokens [from, from + n) as int32. */
static void copy_tokens(int32_t *to, const cadre_run_of_tokens *tokens, int64_t from, int64_t n) {
    if (tokens->wide) {
        memcpy(to, (const int32_t *)tokens->data + from, (size_t)n * sizeof *to);
        return;
    }
    const uint16_t *narrow = (const uint16_t *)tokens->data + from;
    for (int64_t i = 0; i < n; i++) to[i] = narrow[i];
}

static void fill_row(cadre_micro_batch *b, int64_t row, const cadre_run_of_tokens *tokens,
                     int64_t start, int64_t count) {
    int32_t *inputs = b->inputs + row * b->context, *labels = b->labels + row * b->context;
    copy_tokens(inputs, tokens, start, count);
    copy_tokens(labels, tokens, start + 1, count);
    for (int64_t i = count; i < b->context; i++) {
        inputs[i] = 0;
        labels[i] = -1;
    }
    b->valid += count;
}

static void fill_batch(const cadre_loader *l, cadre_micro_batch *b) {
    int64_t first = cadre_batching_first(&l->batching, l->position, l->micro);
    b->valid = 0;
    for (int64_t r = 0; r < b->rows; r++) {
        int64_t sample = first + r;
        b->samples[r] = sample;
        bool counts = sample < l->batching.end;
        fill_row(b, r, l->tokens, counts ? cadre_sampler_start(&l->sampler, sample) : 0,
                 counts ? b->context : 0);
    }
}

static void advance(cadre_loader *l) {
    if (++l->micro < l->batching.accumulation) return;
    l->micro = 0;
    l->position += l->batching.batch;
}

static void *run(void *arg) {
    cadre_loader *l = arg;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        /* `taken` counts what was handed out; the last of these is still in use. */
        while (!l->stop && l->made - l->taken + l->held >= l->slots)
            pthread_cond_wait(&l->freed, &l->lock);
        if (l->stop) break;
        cadre_micro_batch *b = &l->ring[l->made % l->slots];
        cadre_trace_attach(l->trace);
        pthread_mutex_unlock(&l->lock);
        cadre_trace_span span = cadre_trace_enter(CADRE_TRACE_DATA, "fill micro-batch");
        fill_batch(l, b);
        advance(l);
        cadre_trace_leave(span, 2 * b->rows * b->context * (int64_t)sizeof(int32_t));
        pthread_mutex_lock(&l->lock);
        l->made++;
        pthread_cond_signal(&l->filled);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Signals are the program's and go to its own threads. */
static cadre_status start(cadre_loader *l) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&l->thread, NULL, run, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CADRE_CHECK(!error, CADRE_ERESOURCE, "the loader's thread cannot be started: %s",
                strerror(error));
    l->started = true;
    return CADRE_OK;
}

cadre_status cadre_loader_open(cadre_loader **ret_loader, const cadre_run_of_tokens *tokens,
                               const cadre_sampler *sampler, const cadre_batching *batching,
                               int64_t position, int ahead) {
    CADRE_CHECK(ahead >= 1 && position >= 0, CADRE_EUSAGE,
                "a loader at sample %" PRId64 ", %d micro-batches ahead; it takes at least 0 and 1",
                position, ahead);
    CADRE_CHECK(sampler->tokens == tokens->count, CADRE_EINTERNAL,
                "a sampler for %" PRId64 " tokens over a run of %" PRId64, sampler->tokens,
                tokens->count);
    cadre_loader *l = NULL;
    CADRE_TRY(cadre_alloc(&l, CADRE_MEM_LOADER, sizeof *l));
    l->tokens = tokens;
    l->sampler = *sampler;
    l->batching = *batching;
    l->position = position;
    l->trace = cadre_trace_attached();
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->filled, NULL);
    pthread_cond_init(&l->freed, NULL);
    cadre_status st = cadre_alloc_array(&l->ring, CADRE_MEM_LOADER, ahead + 1, sizeof *l->ring);
    for (; !st && l->slots <= ahead; l->slots += !st)
        st = cadre_micro_batch_open(&l->ring[l->slots], batching->micro_batch, sampler->context);
    if (!st) st = start(l);
    if (st) {
        cadre_loader_close(&l);
        return st;
    }
    *ret_loader = l;
    return CADRE_OK;
}

cadre_status cadre_loader_next(cadre_loader *l, const cadre_micro_batch **ret_batch) {
    pthread_mutex_lock(&l->lock);
    l->held = false; /* what the call before handed out */
    l->trace = cadre_trace_attached();
    pthread_cond_signal(&l->freed);
    if (l->made == l->taken) {
        int64_t from = cadre_now_ns();
        while (l->made == l->taken) pthread_cond_wait(&l->filled, &l->lock);
        l->wait_ns += cadre_now_ns() - from;
    }
    *ret_batch = &l->ring[l->taken++ % l->slots];
    l->held = true;
    pthread_mutex_unlock(&l->lock);
    return CADRE_OK;
}

int64_t cadre_loader_wait_ns(cadre_loader *l) {
    pthread_mutex_lock(&l->lock);
    int64_t ns = l->wait_ns;
    pthread_mutex_unlock(&l->lock);
    return ns;
}

void cadre_loader_close(cadre_loader **loader) {
    cadre_loader *l = *loader;
    if (!l) return;
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_signal(&l->freed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    for (int i = 0; i < l->slots; i++) cadre_micro_batch_close(&l->ring[i]);
    cadre_free(&l->ring);
    pthread_cond_destroy(&l->freed);
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->lock);
    cadre_free(loader);
}

/* ---- evaluation ---- */

int64_t cadre_eval_windows(int64_t tokens, int64_t context) {
    return tokens < 2 ? 0 : (tokens - 1 + context - 1) / context;
}

void cadre_eval_fill(const cadre_run_of_tokens *tokens, int64_t context, int64_t first,
                     int64_t rows, cadre_micro_batch *into) {
    into->rows = rows;
    into->context = context;
    into->valid = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t start = (first + r) * context, left = tokens->count - 1 - start;
        into->samples[r] = first + r;
        if (left > context) left = context;
        fill_row(into, r, tokens, left > 0 ? start : 0, left > 0 ? left : 0);
    }
}
