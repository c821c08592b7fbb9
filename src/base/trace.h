/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace events: emitting only; insight draws them. A trace is a bounded ring of finished spans. It
 * is attached to a thread (thread-local), so ranks as threads keep their own; several threads of a
 * rank may share one. Detached: one thread-local load a span.
 */
#ifndef CADRE_BASE_TRACE_H
#define CADRE_BASE_TRACE_H

#include <cadre/base.h>

typedef enum cadre_trace_row {
    CADRE_TRACE_COMPUTE,
    CADRE_TRACE_COMM,
    CADRE_TRACE_DATA,
    CADRE_TRACE_ROWS
} cadre_trace_row;

typedef struct cadre_trace_event {
    cadre_trace_row row;
    char name[48];
    int64_t begin_ns, end_ns; /* monotonic */
    int64_t bytes;            /* 0: not said */
} cadre_trace_event;

typedef struct cadre_trace cadre_trace;
typedef struct cadre_trace_span {
    cadre_trace_row row;
    const char *name;
    int64_t begin_ns; /* 0: no trace attached */
} cadre_trace_span;

cadre_status cadre_trace_open(cadre_trace **ret_trace, int capacity);
void cadre_trace_attach(cadre_trace *trace); /* to the calling thread; NULL detaches */
cadre_trace *cadre_trace_attached(void);
cadre_trace_span cadre_trace_enter(cadre_trace_row row,
                                   const char *name); /* `name` must live until leave */
void cadre_trace_leave(cadre_trace_span span, int64_t bytes);
/* Events in order of their end; `*dropped` counts those the ring has lost. Returns how many there
 * are. */
int cadre_trace_count(const cadre_trace *t, int64_t *ret_dropped);
void cadre_trace_event_at(const cadre_trace *t, int i, cadre_trace_event *ret_event);
void cadre_trace_clear(cadre_trace *t);
void cadre_trace_close(cadre_trace **trace);

#endif
