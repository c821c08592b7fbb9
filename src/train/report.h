/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank tells its supervisor at its end, and the one report about a run that failed.
 */
#ifndef CADRE_TRAIN_REPORT_H
#define CADRE_TRAIN_REPORT_H

#include "base/status.h"
#include "base/text.h"

/* The environment variable with the descriptor for cadre_rank_report. */
#define CADRE_REPORT_FD "CADRE_REPORT_FD"

/* One message, written at once (it fits a pipe's atomic size). */
typedef struct cadre_rank_end {
    int32_t rank;
    int32_t status; /* of the failure; CADRE_OK: it ended as agreed */
    int32_t code;   /* exit code that will follow */
    int32_t cause;  /* rank whose failure this one repeats; -1: its own */
    char text[CADRE_ERROR_TEXT];
} cadre_rank_end;

/* On a rank: sends the message. A supervisor that is gone is not an error. */
void cadre_rank_report(int fd, const cadre_rank_end *end);

/* How one rank ended, as the supervisor saw it. */
typedef struct cadre_rank_fate {
    bool started, ended, told, killed; /* told: it sent `end`; killed: by the supervisor itself */
    int order;                         /* in which the supervisor learned of it */
    int code, signal;
    cadre_rank_end end;
} cadre_rank_fate;

/* The rank whose failure was the first cause, or -1 when none failed. */
int cadre_first_cause(const cadre_rank_fate *fates, int ranks);
/* The report about it, without the program's name in front; `log_folder` may be NULL. */
void cadre_failure_text(const cadre_rank_fate *fates, int ranks, int first, const char *log_folder,
                        cadre_text *to);

#endif
