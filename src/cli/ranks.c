/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks as processes of this program: the side that starts and watches them, and what every rank
 * does around its work.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "cli/cli.h"
#include "train/report.h"
#include "train/supervisor.h"

enum {
    GRACE_MS = 4000, /* after the first failure; all are gone within five seconds */
    ALONE_MS = 3000  /* a rank whose supervisor is gone */
};

/* ---- the supervisor's side ---- */

static volatile int signal_seen; /* negative: the terminal sent it to the ranks as well */

static bool say_so; /* a run is being stopped and saved */

static void note_signal(int number, siginfo_t *info, void *context) {
    static const char said[] = "\nstopping after this step; Ctrl-C again ends at once, unsaved\n";
    (void)context;
    if (number == SIGINT && say_so) {
        ssize_t n = write(STDERR_FILENO, said, sizeof said - 1);
        (void)n;
        say_so = false;
    }
    signal_seen = info->si_code == SI_KERNEL ? -number : number;
}

static void handle_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = note_signal;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    const int numbers[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
    for (int i = 0; i < CADRE_COUNT(numbers); i++) (void)sigaction(numbers[i], &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

static int report(const cli_call *call, cadre_supervise_result *r) {
    if (r->first_failed >= 0 && r->report.length) {
        fprintf(stderr, "cadre: %s\n", r->report.at);
        if (r->others_failed && call->verbose)
            fprintf(stderr, "cadre: %d other ranks failed after it\n", r->others_failed);
    }
    cadre_text_free(&r->report);
    return r->exit_code;
}

static cadre_status joined_environment(const cli_call *call, char *const *more, char ***ret_all) {
    int count = 0, extra = 0;
    while (call->env->all[count]) count++;
    while (more && more[extra]) extra++;
    CADRE_TRY(cadre_alloc_array(ret_all, CADRE_MEM_OTHER, count + extra + 1, sizeof **ret_all));
    for (int i = 0; i < count; i++) (*ret_all)[i] = call->env->all[i];
    for (int i = 0; i < extra; i++) (*ret_all)[count + i] = more[i];
    return CADRE_OK;
}

int cli_supervise(const cli_call *call, int ranks, const char *folder, char *const *more) {
    char logs[CADRE_PATH], **all = NULL;
    cadre_supervise_result result;
    cadre_join(logs, sizeof logs, folder ? folder : "", "logs");
    cadre_status st = folder ? cadre_mkdirs(logs) : CADRE_OK;
    if (!st) st = joined_environment(call, more, &all);
    if (st) return cli_fail(call, st);
    bool own = call->rest == NULL;
    const cadre_supervise_opts opts = {
        .program = own ? "/proc/self/exe" : call->rest[0],
        .arguments = own ? call->argv : call->rest,
        .environment = all,
        .ranks = ranks,
        .own = own,
        .log_folder = folder ? logs : NULL,
        .signals = &signal_seen,
        .grace_ms = GRACE_MS,
    };
    say_so = own && folder && !call->quiet;
    handle_signals();
    st = cadre_supervise(&opts, &result);
    cadre_free(&all);
    return st ? cli_fail(call, st) : report(call, &result);
}

/* ---- a rank's side ---- */

cadre_status cli_am_rank(cadre_launch *ret_launch, bool *ret_yes) {
    CADRE_TRY(cadre_launch_read(ret_launch));
    *ret_yes = strcmp(ret_launch->by, "nobody") != 0;
    return CADRE_OK;
}

int cli_rank_end(const cli_call *call, const cadre_launch *launch, cadre_comm *world,
                 cadre_status status, int code) {
    cadre_rank_end end;
    memset(&end, 0, sizeof end);
    end.rank = launch->rank;
    end.status = status;
    end.code = status ? cadre_exit_code(status) : code;
    end.cause = -1;
    if (status) {
        char said[CADRE_ERROR_TEXT];
        int first = world ? cadre_comm_first_failure(world, said, sizeof said) : -1;
        if (first != launch->rank) end.cause = first;
        snprintf(end.text, sizeof end.text, "%s", cadre_error_text());
        cadre_log(CADRE_LOG_ERROR, "%s", end.text);
        /* Unwatched ranks speak for themselves; who repeats a peer's failure keeps quiet. */
        if (call->env->report_fd < 0 && end.cause < 0) cli_fail(call, status);
        if (call->env->report_fd >= 0 && call->verbose) cadre_error_print(stderr);
    }
    cadre_rank_report(call->env->report_fd, &end);
    return end.code;
}

static void *wait_for_supervisor(void *arg) {
    struct pollfd at = {.fd = *(int *)arg, .events = POLLIN};
    while (poll(&at, 1, -1) < 0 && errno == EINTR) continue;
    cadre_log(CADRE_LOG_ERROR, "the supervisor is gone; this rank ends");
    cadre_sleep_ms(ALONE_MS); /* the loop ends by itself at its next operation */
    _exit(cadre_exit_code(CADRE_EPEER));
}

void cli_watch_supervisor(const cadre_launch *launch) {
    static int fd;
    pthread_t thread;
    pthread_attr_t attributes;
    if (launch->parent_fd < 0) return;
    fd = launch->parent_fd;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    sigset_t all, before; /* signals belong to the main thread */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_create(&thread, &attributes, wait_for_supervisor, &fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

void cli_take_signals(void) {
    sigset_t ours;
    sigemptyset(&ours);
    const int numbers[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};
    for (int i = 0; i < CADRE_COUNT(numbers); i++) sigaddset(&ours, numbers[i]);
    (void)sigprocmask(SIG_UNBLOCK, &ours, NULL);
}

cadre_comm_opts cli_comm_opts(const cadre_comm_cfg *cfg) {
    static const char *const transports[] = {"auto", "self", "shm", "mpi"};
    cadre_comm_opts opts = CADRE_COMM_OPTS;
    opts.transport = transports[cfg->transport];
    opts.timeout_ms = cfg->timeout;
    opts.warn_after_ms = cfg->warn_after;
    opts.progress_thread = cfg->progress_thread;
    return opts;
}

cadre_status cli_open_world(const cli_call *call, cadre_comm **ret_world) {
    cadre_settings *set = NULL;
    cadre_comm_cfg comm;
    CADRE_TRY(cli_open_settings(call, NULL, &set));
    cadre_status st = cadre_settings_fill(set, &cadre_comm_settings, &comm);
    cadre_settings_close(&set);
    CADRE_TRY(st);
    const cadre_comm_opts opts = cli_comm_opts(&comm);
    return cadre_comm_open(ret_world, &opts);
}
