/* SPDX-License-Identifier: Apache-2.0
 *
 * What the console is made of: the facts of a run it needs, and the pieces that tests look at by
 * themselves.
 */
#ifndef CADRE_INSIGHT_CONSOLE_H
#define CADRE_INSIGHT_CONSOLE_H

#include "insight/insight.h"

typedef struct cadre_console_facts {
    int mode; /* run.console: 0 auto, 1 bar, 2 lines, 3 quiet */
    int64_t steps, log_every;
    int64_t eval_every;        /* 0: at the end alone; -1: there is nothing to evaluate on */
    const char *folder, *name; /* the run folder, run.name */
    bool other_resume;         /* checkpoint.resume is not auto */
    double epochs;             /* train.epochs; 0: train.steps counts */
} cadre_console_facts;

/* Instead of the observer's `start`, which takes them from a run. Borrowed until close. */
void cadre_console_begin(cadre_console *c, const cadre_console_facts *facts);

/* One step line without its end; `valid` NaN: not known yet. */
void cadre_step_line(const cadre_step_report *r, double valid, cadre_text *to);

/* ---- bar.c: the last line of the terminal ---- */

typedef struct cadre_bar {
    FILE *to; /* NULL: no bar */
    bool colour, shown;
    int columns;      /* 0: ask each time */
    int64_t drawn_ns; /* when it was last drawn */
} cadre_bar;

/* Draws `done` of `of` and `words`, cut to the width; at most ten times a second unless `now`. */
void cadre_bar_draw(cadre_bar *b, int64_t done, int64_t of, const char *words, bool now);
void cadre_bar_erase(cadre_bar *b);

#endif
