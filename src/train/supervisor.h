/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor: starts the ranks of this machine (posix_spawn), watches them, passes signals on,
 * reports the first failure and leaves no process behind. It computes nothing itself.
 */
#ifndef CADRE_TRAIN_SUPERVISOR_H
#define CADRE_TRAIN_SUPERVISOR_H

#include "base/file.h"
#include "base/text.h"

typedef struct cadre_supervise_opts {
    const char *program;      /* path of the executable */
    char *const *arguments;   /* argv of each rank, NULL-terminated */
    char *const *environment; /* the parent's; the launch variables are added */
    int ranks;
    bool
        own; /* the ranks are this program: they hold signals back until they can take them and tell
                how they end (train/report.h); with logs, SIGUSR2 means "stop after this step" */
    const char *log_folder; /* ranks' output goes to LOG/rank-NNN.log, rank 0's to the terminal too;
                               NULL: to the terminal, lines of ranks
                               >= 1 with "[1] " in front (cadre run) */
    volatile int
        *signals;     /* set by the caller's handlers: the last signal not yet passed on; 0 none */
    int64_t grace_ms; /* after the first failure or a second signal: this long until SIGKILL */
} cadre_supervise_opts;

typedef struct cadre_supervise_result {
    int first_failed;  /* rank, -1: none */
    int exit_code;     /* of the whole: the ranks' common code, or 4 when a rank died by a signal */
    int signal;        /* that ended the first failed rank; 0 */
    int others_failed; /* secondary failures, counted and not printed */
    cadre_text report; /* the one report: root cause first, rank, signal by name, last operation,
                          last log lines */
} cadre_supervise_result;

cadre_status cadre_supervise(const cadre_supervise_opts *opts, cadre_supervise_result *ret_result);

#endif
