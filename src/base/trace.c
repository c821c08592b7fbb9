/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"

struct cadre_trace {
    pthread_mutex_t lock;
    int capacity;
    int64_t finished; /* spans since the last clear; the ring holds the newest */
    cadre_trace_event *ring;
};

static _Thread_local cadre_trace *attached;

cadre_status cadre_trace_open(cadre_trace **ret_trace, int capacity) {
    CADRE_CHECK(capacity > 0, CADRE_EUSAGE, "a trace of %d events; it takes at least 1", capacity);
    cadre_trace *t = NULL;
    CADRE_TRY(cadre_alloc(&t, CADRE_MEM_OTHER, sizeof *t));
    cadre_status st = cadre_alloc_array(&t->ring, CADRE_MEM_OTHER, capacity, sizeof *t->ring);
    if (st) {
        cadre_free(&t);
        return st;
    }
    t->capacity = capacity;
    pthread_mutex_init(&t->lock, NULL);
    *ret_trace = t;
    return CADRE_OK;
}

void cadre_trace_attach(cadre_trace *trace) {
    attached = trace;
}

cadre_trace *cadre_trace_attached(void) {
    return attached;
}

cadre_trace_span cadre_trace_enter(cadre_trace_row row, const char *name) {
    return (cadre_trace_span){.row = row, .name = name, .begin_ns = attached ? cadre_now_ns() : 0};
}

void cadre_trace_leave(cadre_trace_span span, int64_t bytes) {
    cadre_trace *t = attached;
    if (!t || !span.begin_ns) return;
    cadre_trace_event event = {
        .row = span.row, .begin_ns = span.begin_ns, .end_ns = cadre_now_ns(), .bytes = bytes};
    snprintf(event.name, sizeof event.name, "%s", span.name);
    pthread_mutex_lock(&t->lock);
    t->ring[t->finished++ % t->capacity] = event;
    pthread_mutex_unlock(&t->lock);
}

static int held(const cadre_trace *t) {
    return t->finished < t->capacity ? (int)t->finished : t->capacity;
}

int cadre_trace_count(const cadre_trace *trace, int64_t *ret_dropped) {
    cadre_trace *t = (cadre_trace *)trace; /* the lock is no part of what is const */
    pthread_mutex_lock(&t->lock);
    int count = held(t);
    if (ret_dropped) *ret_dropped = t->finished - count;
    pthread_mutex_unlock(&t->lock);
    return count;
}

void cadre_trace_event_at(const cadre_trace *trace, int i, cadre_trace_event *ret_event) {
    cadre_trace *t = (cadre_trace *)trace;
    pthread_mutex_lock(&t->lock);
    *ret_event = t->ring[(t->finished - held(t) + i) % t->capacity];
    pthread_mutex_unlock(&t->lock);
}

void cadre_trace_clear(cadre_trace *t) {
    pthread_mutex_lock(&t->lock);
    t->finished = 0;
    pthread_mutex_unlock(&t->lock);
}

void cadre_trace_close(cadre_trace **trace) {
    if (!*trace) return;
    pthread_mutex_destroy(&(*trace)->lock);
    cadre_free(&(*trace)->ring);
    cadre_free(trace);
}
