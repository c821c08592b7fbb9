/* SPDX-License-Identifier: Apache-2.0
 *
 * Insight: what a run says about itself, and the tools that look at a machine or at the tables. A
 * sink is an object that fills a cadre_observer (train/run.h); the run calls it. Sinks write only
 * into the run folder and to the streams they are given; they read no environment.
 *
 *   cadre_sinks_open -> cadre_sinks_observers -> cadre_run_train -> cadre_sinks_close
 *
 * Text and JSON of plan, settings, man page and completion are appended to a cadre_text that the
 * caller prints and frees. Benches: insight/bench.h.
 */
#ifndef CADRE_INSIGHT_INSIGHT_H
#define CADRE_INSIGHT_INSIGHT_H

#include "base/text.h"
#include "base/trace.h"
#include "train/run.h"

/* ---- console: the plan, step lines on `out`, the bar and remarks on `err`, the end ---- */

/* What the program knows about its terminal (cli reads it, once) and how it was called. */
typedef struct cadre_console_opts {
    FILE *out, *err; /* borrowed */
    bool out_is_terminal, err_is_terminal;
    const char *term; /* TERM; NULL: unset. "dumb": no bar, no colour */
    bool no_color;    /* NO_COLOR is set and not empty */
    int columns;      /* 0: ask the terminal behind `err` before each refresh */
    bool quiet;       /* -q: errors alone (they are the caller's) */
    const char
        *program; /* for the commands at the end: "cadre", "build/release/cadre"; NULL: "cadre" */
    const char *arguments; /* what followed it, quoted for a shell: "train run.yaml --ranks 2";
                              NULL: the command to go on is not shown */
} cadre_console_opts;

typedef struct cadre_console cadre_console;
/* run.console and run.log_every are read from the run when it starts. */
cadre_status cadre_console_open(cadre_console **ret_console, const cadre_console_opts *opts,
                                cadre_observer *ret_observer);
void cadre_console_close(cadre_console **console); /* erases the bar */

/* ---- files in the run folder (opened when the run starts, in cadre_run_folder_of) ---- */

typedef struct cadre_metrics cadre_metrics; /* metrics.jsonl */
cadre_status cadre_metrics_open(cadre_metrics **ret_metrics, cadre_observer *ret_observer);
void cadre_metrics_close(cadre_metrics **metrics);

typedef struct cadre_tfevents cadre_tfevents; /* events.out.tfevents.*, when run.tensorboard */
cadre_status cadre_tfevents_open(cadre_tfevents **ret_events, cadre_observer *ret_observer);
void cadre_tfevents_close(cadre_tfevents **events);

typedef struct cadre_trace_file
    cadre_trace_file; /* trace/rank-NNN.json for the steps of run.trace */
cadre_status cadre_trace_file_open(cadre_trace_file **ret_file, cadre_observer *ret_observer);
void cadre_trace_file_close(cadre_trace_file **file);
/* "5", "10-12", "3,10-12" -> whether `step` is meant and which is the last; another text is
 * CADRE_EUSAGE. */
cadre_status cadre_trace_steps(const char *text, int64_t step, bool *ret_wanted, int64_t *ret_last);
/* The Chrome trace document of one rank; times in microseconds since `origin_ns`. */
void cadre_trace_json(const cadre_trace *trace, int rank, int64_t origin_ns, cadre_text *to);

/* ---- the standard set: settings.yaml, metrics, TensorBoard, trace, and a console when asked ----
 */

typedef struct cadre_sinks_opts {
    int rank;                          /* ranks above 0 get the trace alone */
    const cadre_console_opts *console; /* NULL: none (a library prints nothing) */
} cadre_sinks_opts;
typedef struct cadre_sinks cadre_sinks;
/* Every rank opens its own and passes the observers to cadre_run_train. */
cadre_status cadre_sinks_open(cadre_sinks **ret_sinks, const cadre_sinks_opts *opts);
const cadre_observer *cadre_sinks_observers(const cadre_sinks *s, int *ret_count);
void cadre_sinks_close(cadre_sinks **sinks);

/* ---- the plan, before step 0 and for `cadre plan` ---- */

/* `set` is resolved; `folder` NULL: no run folder (plan). */
cadre_status cadre_plan_text(const cadre_plan *plan, const cadre_settings *set, const char *folder,
                             cadre_text *to);
cadre_status cadre_plan_json(const cadre_plan *plan, const cadre_settings *set, cadre_text *to);

/* ---- the tables ---- */

/* `cadre settings [PREFIX] [--json]`: "optim", "optim.", "optim.lr"; NULL or "": all. No row of
 * that prefix: CADRE_EUSAGE with the nearest. */
cadre_status cadre_settings_text(const cadre_settings *set, const char *prefix, bool json,
                                 cadre_text *to);

typedef struct cadre_verb_help {
    const char *name;  /* "train"; "checkpoint" */
    const char *usage; /* "train [RUN.yaml] [--ranks N] [--section.key=value ...]" */
    const char *help;  /* one sentence without its full stop */
} cadre_verb_help;
cadre_status cadre_man_page(const cadre_verb_help *verbs, int count, const cadre_settings *set,
                            cadre_text *to);
/* For bash; options of a verb are the words of its usage that begin with "--". */
cadre_status cadre_completion(const cadre_verb_help *verbs, int count, const cadre_settings *set,
                              cadre_text *to);

#endif
