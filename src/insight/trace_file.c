/* SPDX-License-Identifier: Apache-2.0
 *
 * A Chrome trace of some steps, one file a rank: {"traceEvents": [...]} with complete events ("ph":
 * "X"), times in microseconds, pid = rank, tid = row (compute, comm, data). All ranks of a machine
 * share one clock, so their files lie side by side in one view.
 */
#include "insight/insight.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

enum { CAPACITY = 1 << 17 };

struct cadre_trace_file {
    cadre_trace *trace;
    bool attached, written;
};

static const char *const row_names[CADRE_TRACE_ROWS] = {"compute", "comm", "data"};

/* ---- which steps ---- */

static const char *read_number(const char *at, int64_t *ret) {
    int64_t value = 0;
    if (*at < '0' || *at > '9') return NULL;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (value > INT64_MAX / 16) return NULL;
        value = value * 10 + (*at - '0');
    }
    *ret = value;
    return at;
}

cadre_status cadre_trace_steps(const char *text, int64_t step, bool *ret_wanted,
                               int64_t *ret_last) {
    bool wanted = false;
    int64_t latest = 0;
    for (const char *at = text;;) {
        int64_t first = 0, last = 0;
        at = read_number(at, &first);
        last = first;
        if (at && *at == '-') at = read_number(at + 1, &last);
        CADRE_CHECK(at && (*at == ',' || !*at) && first >= 1 && first <= last, CADRE_EUSAGE,
                    "run.trace='%s' names no steps; accepted are 5, 10-12 or 3,10-12", text);
        wanted = wanted || (step >= first && step <= last);
        if (last > latest) latest = last;
        if (!*at++) break;
    }
    *ret_wanted = wanted;
    *ret_last = latest;
    return CADRE_OK;
}

/* ---- the document ---- */

static void put_text(cadre_text *to, const char *text) {
    cadre_text_add_bytes(to, "\"", 1);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            cadre_text_add(to, "\\%c", c);
        else if (c < 32 || c > 126)
            cadre_text_add(to, "\\u%04x", c);
        else
            cadre_text_add_bytes(to, text, 1);
    }
    cadre_text_add_bytes(to, "\"", 1);
}

/* Nanoseconds as microseconds, without a float on the way: the same in every locale. */
static void put_time(cadre_text *to, const char *key, int64_t ns) {
    if (ns < 0) ns = 0;
    cadre_text_add(to, ", \"%s\": %" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void put_event(cadre_text *to, const cadre_trace_event *e, int rank, int64_t origin_ns) {
    cadre_text_add(to, ",\n{\"name\": ");
    put_text(to, e->name);
    cadre_text_add(to, ", \"cat\": \"%s\", \"ph\": \"X\"", row_names[e->row]);
    put_time(to, "ts", e->begin_ns - origin_ns);
    put_time(to, "dur", e->end_ns - e->begin_ns);
    cadre_text_add(to, ", \"pid\": %d, \"tid\": %d", rank, (int)e->row);
    if (e->bytes) cadre_text_add(to, ", \"args\": {\"bytes\": %" PRId64 "}", e->bytes);
    cadre_text_add(to, "}");
}

void cadre_trace_json(const cadre_trace *trace, int rank, int64_t origin_ns, cadre_text *to) {
    int64_t dropped = 0;
    int count = cadre_trace_count(trace, &dropped);
    cadre_text_add(to,
                   "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"rank\": %d, \"dropped\": "
                   "%" PRId64 "},\n\"traceEvents\": [\n"
                   "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"args\": {\"name\": "
                   "\"rank %d\"}}",
                   rank, dropped, rank, rank);
    for (int row = 0; row < CADRE_TRACE_ROWS; row++)
        cadre_text_add(to,
                       ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, "
                       "\"args\": {\"name\": \"%s\"}}",
                       rank, row, row_names[row]);
    for (int i = 0; i < count; i++) {
        cadre_trace_event e;
        cadre_trace_event_at(trace, i, &e);
        put_event(to, &e, rank, origin_ns);
    }
    cadre_text_add(to, "\n]}\n");
}

/* ---- the observer, on every rank ---- */

static cadre_status write_file(cadre_trace_file *f, const char *run_folder, int rank) {
    char folder[CADRE_PATH], path[CADRE_PATH], name[32];
    cadre_text text = {0};
    snprintf(name, sizeof name, "rank-%03d.json", rank);
    cadre_join(folder, sizeof folder, run_folder, "trace");
    cadre_join(path, sizeof path, folder, name);
    cadre_trace_json(f->trace, rank, 0, &text);
    cadre_status st = text.status;
    if (!st) st = cadre_mkdirs(folder);
    if (!st) st = cadre_file_replace(path, text.at, text.length);
    cadre_text_free(&text);
    f->written = true;
    return st;
}

static void detach(cadre_trace_file *f) {
    if (f->attached) cadre_trace_attach(NULL);
    f->attached = false;
}

static cadre_status rank_trace(void *self, const cadre_run *run, int rank, int64_t step) {
    cadre_trace_file *f = self;
    const char *text = cadre_run_config(run)->run.trace;
    bool wanted = false;
    int64_t last = 0;
    if (!text || !text[0] || f->written) return CADRE_OK;
    CADRE_TRY(cadre_trace_steps(text, step, &wanted, &last));
    if (wanted && !f->trace) CADRE_TRY(cadre_trace_open(&f->trace, CAPACITY));
    if (wanted && !f->attached) cadre_trace_attach(f->trace);
    if (wanted) f->attached = true;
    if (wanted) return CADRE_OK;
    detach(f);
    bool over = step == 0 || step > last;
    return over && f->trace ? write_file(f, cadre_run_folder_of(run), rank) : CADRE_OK;
}

cadre_status cadre_trace_file_open(cadre_trace_file **ret_file, cadre_observer *ret_observer) {
    cadre_trace_file *f = NULL;
    CADRE_TRY(cadre_alloc(&f, CADRE_MEM_OTHER, sizeof *f));
    *ret_observer = (cadre_observer){.self = f, .rank_trace = rank_trace};
    *ret_file = f;
    return CADRE_OK;
}

void cadre_trace_file_close(cadre_trace_file **file) {
    if (!*file) return;
    detach(*file);
    cadre_trace_close(&(*file)->trace);
    cadre_free(file);
}
