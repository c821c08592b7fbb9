/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.jsonl: one object a step, one an evaluation, one at the end; appended and flushed by rank
 * 0 (interface.md, section 4).
 *
 *   step: step time epoch samples tokens loss lr grad_norm step_ms data_ms comm_ms exposed_ms
 *         tokens_per_s, and "skipped": true where no update was made
 *   evaluation: step time valid_loss, and valid_bits_per_byte for text
 *   end: step time end reason peak_measured_bytes peak_predicted_bytes, and both by category:
 *        measured_bytes predicted_bytes
 *
 * A run that goes on first drops what lies past the step it goes on from, and the old end.
 */
#include "insight/insight.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "insight/document.h"

struct cadre_metrics {
    char path[CADRE_PATH];
    int fd;
    cadre_text line;
};

static cadre_status open_file(cadre_metrics *m) {
    m->fd = open(m->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    CADRE_CHECK(m->fd >= 0, CADRE_ERESOURCE, "cannot write %s: %s", m->path, strerror(errno));
    return CADRE_OK;
}

static void close_file(cadre_metrics *m) {
    if (m->fd >= 0) close(m->fd);
    m->fd = -1;
}

static cadre_status write_object(cadre_metrics *m, json_t *object) {
    cadre_text_clear(&m->line);
    CADRE_TRY(cadre_document_add(object, true, &m->line));
    return m->fd < 0 ? CADRE_OK : cadre_write_all(m->fd, m->line.at, m->line.length, m->path);
}

static cadre_status start(void *self, const cadre_run *run, const cadre_plan *plan) {
    cadre_metrics *m = self;
    (void)plan;
    cadre_join(m->path, sizeof m->path, cadre_run_folder_of(run), "metrics.jsonl");
    return open_file(m);
}

/* Whether a line belongs to the run as it was after `step`. */
static bool stays(const char *line, size_t bytes, int64_t step) {
    json_t *object = json_loadb(line, bytes, 0, NULL);
    const json_t *at = json_object_get(object, "step");
    bool keep =
        json_is_integer(at) && json_integer_value(at) <= step && !json_object_get(object, "end");
    json_decref(object);
    return keep;
}

static cadre_status drop_past(const char *path, int64_t step) {
    cadre_map map;
    cadre_text kept = {0};
    CADRE_TRY(cadre_map_open(&map, path));
    const char *at = (const char *)map.data, *end = at + map.bytes;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = (size_t)((stop ? stop : end) - at);
        if (stop && stays(at, bytes, step)) cadre_text_add_bytes(&kept, at, bytes + 1);
        at += bytes + 1;
    }
    cadre_status st = kept.status;
    if (!st && kept.length != map.bytes) st = cadre_file_replace(path, kept.at, kept.length);
    cadre_map_close(&map);
    cadre_text_free(&kept);
    return st;
}

static cadre_status resumed(void *self, const cadre_run *run, int64_t step) {
    cadre_metrics *m = self;
    (void)run;
    close_file(m);
    CADRE_TRY(drop_past(m->path, step));
    return open_file(m);
}

static cadre_status step(void *self, const cadre_step_report *r) {
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer(r->step));
    cadre_document_number(o, "time", r->unix_time);
    cadre_document_number(o, "epoch", r->epoch);
    json_object_set_new(o, "samples", json_integer(r->samples));
    json_object_set_new(o, "tokens", json_integer(r->tokens));
    cadre_document_number(o, "loss", r->loss);
    cadre_document_number(o, "lr", r->lr);
    cadre_document_number(o, "grad_norm", r->grad_norm);
    cadre_document_number(o, "step_ms", r->step_ms);
    cadre_document_number(o, "data_ms", r->data_ms);
    cadre_document_number(o, "comm_ms", r->comm_ms);
    cadre_document_number(o, "exposed_ms", r->exposed_ms);
    cadre_document_number(o, "tokens_per_s", r->tokens_per_s);
    if (r->skipped) json_object_set_new(o, "skipped", json_true());
    return write_object(self, o);
}

static cadre_status eval(void *self, const cadre_eval_report *r) {
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer(r->step));
    cadre_document_number(o, "time", r->unix_time);
    cadre_document_number(o, "valid_loss", r->valid_loss);
    if (!isnan(r->bits_per_byte)) cadre_document_number(o, "valid_bits_per_byte", r->bits_per_byte);
    return write_object(self, o);
}

static json_t *by_category(const int64_t bytes[CADRE_MEM_KINDS]) {
    json_t *o = json_object();
    for (int i = 0; i < CADRE_MEM_KINDS; i++)
        json_object_set_new(o, cadre_mem_name((cadre_mem)i), json_integer(bytes[i]));
    return o;
}

static cadre_status end(void *self, const cadre_end_report *r) {
    json_t *o = json_pack("{s:I, s:f, s:b, s:s, s:I, s:I}", "step", (json_int_t)r->step, "time",
                          cadre_unix_time(), "end", 1, "reason", cadre_end_name(r->reason),
                          "peak_measured_bytes", (json_int_t)r->peak_measured_bytes,
                          "peak_predicted_bytes", (json_int_t)r->peak_predicted_bytes);
    json_object_set_new(o, "measured_bytes", by_category(r->measured_bytes));
    json_object_set_new(o, "predicted_bytes", by_category(r->planned_bytes));
    return write_object(self, o);
}

cadre_status cadre_metrics_open(cadre_metrics **ret_metrics, cadre_observer *ret_observer) {
    cadre_metrics *m = NULL;
    CADRE_TRY(cadre_alloc(&m, CADRE_MEM_OTHER, sizeof *m));
    m->fd = -1;
    *ret_observer = (cadre_observer){
        .self = m, .start = start, .resumed = resumed, .step = step, .eval = eval, .end = end};
    *ret_metrics = m;
    return CADRE_OK;
}

void cadre_metrics_close(cadre_metrics **metrics) {
    if (!*metrics) return;
    close_file(*metrics);
    cadre_text_free(&(*metrics)->line);
    cadre_free(metrics);
}
