/* SPDX-License-Identifier: Apache-2.0
 *
 * The standard set of sinks of a run, opened and closed together.
 */
#include "insight/insight.h"

#include "base/alloc.h"

enum { MOST = 5 };

struct cadre_sinks {
    cadre_console *console;
    cadre_metrics *metrics;
    cadre_tfevents *tfevents;
    cadre_trace_file *trace;
    cadre_observer observers[MOST];
    int count;
};

/* settings.yaml: what the run was resolved to, written as soon as it starts. */
static cadre_status write_settings(void *self, const cadre_run *run, const cadre_plan *plan) {
    char path[CADRE_PATH];
    cadre_text text = {0};
    (void)self;
    (void)plan;
    cadre_settings_write(cadre_run_settings_of(run), &text);
    cadre_status st = text.status;
    cadre_join(path, sizeof path, cadre_run_folder_of(run), "settings.yaml");
    if (!st) st = cadre_file_replace(path, text.at, text.length);
    cadre_text_free(&text);
    return st;
}

static cadre_status open_first_rank(cadre_sinks *s, const cadre_console_opts *console) {
    s->observers[s->count++] = (cadre_observer){.self = s, .start = write_settings};
    CADRE_TRY(cadre_metrics_open(&s->metrics, &s->observers[s->count]));
    s->count++;
    CADRE_TRY(cadre_tfevents_open(&s->tfevents, &s->observers[s->count]));
    s->count++;
    if (!console) return CADRE_OK;
    CADRE_TRY(cadre_console_open(&s->console, console, &s->observers[s->count]));
    s->count++;
    return CADRE_OK;
}

cadre_status cadre_sinks_open(cadre_sinks **ret_sinks, const cadre_sinks_opts *opts) {
    cadre_sinks *s = NULL;
    CADRE_TRY(cadre_alloc(&s, CADRE_MEM_OTHER, sizeof *s));
    cadre_status st = opts->rank == 0 ? open_first_rank(s, opts->console) : CADRE_OK;
    if (!st) st = cadre_trace_file_open(&s->trace, &s->observers[s->count]);
    if (!st) s->count++;
    if (st)
        cadre_sinks_close(&s);
    else
        *ret_sinks = s;
    return st;
}

const cadre_observer *cadre_sinks_observers(const cadre_sinks *s, int *ret_count) {
    *ret_count = s->count;
    return s->observers;
}

void cadre_sinks_close(cadre_sinks **sinks) {
    cadre_sinks *s = *sinks;
    if (!s) return;
    cadre_console_close(&s->console);
    cadre_metrics_close(&s->metrics);
    cadre_tfevents_close(&s->tfevents);
    cadre_trace_file_close(&s->trace);
    cadre_free(sinks);
}
