/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor's loop: it sleeps until a rank ends, says something or a signal comes.
 *
 * A pipe whose other end only the supervisor holds tells the ranks when it dies; a second one
 * carries their last words. Signals are let in only while it sleeps, so none is missed.
 */
#include "train/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "comm/launch.h"
#include "train/relay.h"
#include "train/report.h"

enum { VARIABLES = 16 }; /* launch variables of one rank, at most */

typedef struct local_rank {
    pid_t pid;
    int pidfd;
    cadre_relay out, err; /* cadre run */
    cadre_rank_fate *fate;
} local_rank;

typedef struct supervision {
    const cadre_supervise_opts *opts;
    int alive[2];   /* ranks read; the supervisor never writes */
    int reports[2]; /* ranks write */
    local_rank *ranks;
    cadre_rank_fate *fates;
    struct pollfd *polled;
    int live, learned;   /* ranks that run; counts what was learned, in order */
    int64_t deadline_ns; /* SIGKILL for all that are left; INT64_MAX: none */
    int interrupts;
    int passed;       /* the last signal passed on as it is */
    int stopped_by;   /* signal that ended all of them at once; 0: none */
    sigset_t outside; /* signal mask while sleeping */
    char job[64];
} supervision;

/* ---- starting ---- */

static void free_strings(char **strings, int count) {
    for (int i = 0; i < count; i++) free(strings[i]);
}

/* The parent's environment without an older launch, plus this rank's variables. */
static cadre_status environment_of(const supervision *s, int rank, char *own[VARIABLES],
                                   int *ret_own, char ***ret_all) {
    cadre_launch launch = {.by = "cadre",
                           .rank = rank,
                           .size = s->opts->ranks,
                           .local_rank = rank,
                           .local_size = s->opts->ranks,
                           .parent_fd = s->alive[0]};
    snprintf(launch.job, sizeof launch.job, "%s", s->job);
    int n = cadre_launch_environment(&launch, own, VARIABLES - 1), count = 0, at = 0;
    if (s->opts->own && asprintf(&own[n], CADRE_REPORT_FD "=%d", s->reports[1]) > 0) n++;
    *ret_own = n;
    while (s->opts->environment[count]) count++;
    CADRE_TRY(cadre_alloc_array(ret_all, CADRE_MEM_OTHER, count + n + 1, sizeof **ret_all));
    for (int i = 0; i < count; i++) {
        const char *variable = s->opts->environment[i];
        bool replaced = false;
        for (int k = 0; k < n && !replaced; k++)
            replaced = strncmp(variable, own[k], strcspn(own[k], "=") + 1) == 0;
        if (!replaced) (*ret_all)[at++] = s->opts->environment[i];
    }
    for (int k = 0; k < n; k++) (*ret_all)[at++] = own[k];
    return CADRE_OK;
}

/* Where a rank's output goes. `ends` are the rank's ends of pipes to close after the start. */
static cadre_status set_output(supervision *s, int rank, posix_spawn_file_actions_t *actions,
                               int ends[2]) {
    local_rank *l = &s->ranks[rank];
    bool train = s->opts->log_folder != NULL;
    if (train || rank > 0) posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (train && rank > 0) {
        char path[CADRE_PATH];
        snprintf(path, sizeof path, "%s/rank-%03d.log", s->opts->log_folder, rank);
        posix_spawn_file_actions_addopen(actions, 1, path, O_WRONLY | O_CREAT | O_APPEND, 0666);
        posix_spawn_file_actions_adddup2(actions, 1, 2);
    } else if (!train && (rank > 0 || !isatty(1))) {
        CADRE_TRY(cadre_relay_open(&l->out, rank, 1, &ends[0]));
        CADRE_TRY(cadre_relay_open(&l->err, rank, 2, &ends[1]));
        posix_spawn_file_actions_adddup2(actions, ends[0], 1);
        posix_spawn_file_actions_adddup2(actions, ends[1], 2);
    }
    /* The same number on both sides: the duplicate is open across exec. */
    posix_spawn_file_actions_adddup2(actions, s->alive[0], s->alive[0]);
    if (s->opts->own) posix_spawn_file_actions_adddup2(actions, s->reports[1], s->reports[1]);
    return CADRE_OK;
}

/* A rank of `cadre train` starts with its signals held back until its handlers are there;
 * somebody's program starts with the mask we were started with. */
static void set_signals(const supervision *s, posix_spawnattr_t *attributes) {
    sigset_t mask = s->outside, defaults;
    sigemptyset(&defaults);
    const int ours[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGPIPE};
    for (int i = 0; i < CADRE_COUNT(ours); i++) {
        sigaddset(&defaults, ours[i]);
        if (s->opts->own && ours[i] != SIGPIPE) sigaddset(&mask, ours[i]);
    }
    posix_spawnattr_setsigmask(attributes, &mask);
    posix_spawnattr_setsigdefault(attributes, &defaults);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static cadre_status start_rank(supervision *s, int rank) {
    local_rank *l = &s->ranks[rank];
    char *own[VARIABLES] = {NULL}, **all = NULL;
    int own_count = 0, ends[2] = {-1, -1}, failure = 0;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    set_signals(s, &attributes);
    cadre_status st = environment_of(s, rank, own, &own_count, &all);
    if (!st) st = set_output(s, rank, &actions, ends);
    if (!st) {
        failure =
            posix_spawnp(&l->pid, s->opts->program, &actions, &attributes, s->opts->arguments, all);
        if (failure)
            st = CADRE_FAIL(failure == ENOENT || failure == EACCES ? CADRE_EUSAGE : CADRE_ERESOURCE,
                            "cannot start %s: %s", s->opts->program, strerror(failure));
    }
    if (!st) {
        s->live++;
        l->fate->started = true;
        l->pidfd = (int)syscall(SYS_pidfd_open, l->pid, 0);
        if (l->pidfd >= 0) (void)fcntl(l->pidfd, F_SETFD, FD_CLOEXEC);
    }
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0) close(ends[i]);
    cadre_free(&all);
    free_strings(own, own_count);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return st;
}

/* ---- watching ---- */

static void send_all(supervision *s, int signal) {
    for (int r = 0; r < s->opts->ranks; r++) {
        cadre_rank_fate *f = s->ranks[r].fate;
        if (!f->started || f->ended) continue;
        if (signal == SIGKILL) f->killed = true;
        (void)kill(s->ranks[r].pid, signal);
    }
}

static void set_deadline(supervision *s) {
    int64_t at = cadre_now_ns() + s->opts->grace_ms * 1000000;
    if (at < s->deadline_ns) s->deadline_ns = at;
}

static void read_reports(supervision *s) {
    cadre_rank_end end;
    while (read(s->reports[0], &end, sizeof end) == (ssize_t)sizeof end) {
        if (end.rank < 0 || end.rank >= s->opts->ranks) continue;
        cadre_rank_fate *f = &s->fates[end.rank];
        if (f->told) continue;
        f->told = true;
        f->end = end;
        f->end.text[sizeof f->end.text - 1] = '\0';
        f->order = s->learned++;
        if (end.status < 0) set_deadline(s);
    }
}

static void reap(supervision *s) {
    for (int r = 0; r < s->opts->ranks; r++) {
        local_rank *l = &s->ranks[r];
        int how = 0;
        if (!l->fate->started || l->fate->ended || waitpid(l->pid, &how, WNOHANG) != l->pid)
            continue;
        read_reports(s); /* its last words came before its end */
        l->fate->ended = true;
        if (!l->fate->told) l->fate->order = s->learned++;
        l->fate->code = WIFEXITED(how) ? WEXITSTATUS(how) : 0;
        if (WIFSIGNALED(how)) l->fate->signal = WTERMSIG(how);
        if (l->fate->signal && l->fate->signal == s->passed) { /* as it was asked to */
            l->fate->code = 128 + l->fate->signal;
            l->fate->killed = true;
            l->fate->signal = 0;
        }
        s->live--;
        if (l->pidfd >= 0) close(l->pidfd);
        l->pidfd = -1;
        if (l->fate->signal || (!l->fate->told && l->fate->code)) set_deadline(s);
    }
}

/* A negative number: the terminal has sent the signal to the ranks as well. */
static void pass_signal(supervision *s) {
    int signal = *s->opts->signals;
    if (signal == 0) return;
    *s->opts->signals = 0;
    bool they_know = signal < 0, train = s->opts->own && s->opts->log_folder;
    if (they_know) signal = -signal;
    if (s->opts->own && !train) { /* nothing to save: end at once */
        s->stopped_by = signal;
        send_all(s, SIGKILL);
    } else if (signal != SIGINT) {
        s->passed = signal == SIGHUP ? SIGTERM : signal;
        send_all(s, s->passed);
    } else if (++s->interrupts >= 2) {
        s->stopped_by = signal;
        send_all(s, SIGKILL);
    } else if (train) {
        send_all(s, SIGUSR2); /* "stop after this step" */
    } else if (!they_know) {
        s->passed = SIGINT;
        send_all(s, SIGINT);
    } else {
        s->passed = SIGINT;
    }
}

static int fill_polled(supervision *s) {
    int n = 0;
    if (s->reports[0] >= 0) s->polled[n++] = (struct pollfd){.fd = s->reports[0], .events = POLLIN};
    for (int r = 0; r < s->opts->ranks; r++) {
        const int fds[] = {s->ranks[r].pidfd, s->ranks[r].out.from, s->ranks[r].err.from};
        for (int i = 0; i < CADRE_COUNT(fds); i++)
            if (fds[i] >= 0) s->polled[n++] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    }
    return n;
}

static void sleep_until_something(supervision *s) {
    int64_t ns = 1000000000, now = cadre_now_ns();
    for (int r = 0; r < s->opts->ranks; r++) /* a kernel without pidfd: look often */
        if (s->ranks[r].fate->started && !s->ranks[r].fate->ended && s->ranks[r].pidfd < 0)
            ns = 20000000;
    if (s->deadline_ns - now < ns) ns = s->deadline_ns > now ? s->deadline_ns - now : 0;
    const struct timespec limit = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    (void)ppoll(s->polled, (nfds_t)fill_polled(s), &limit, &s->outside);
}

static void pump(supervision *s, bool last) {
    for (int r = 0; r < s->opts->ranks; r++) {
        if (s->ranks[r].out.from >= 0) cadre_relay_pump(&s->ranks[r].out, last);
        if (s->ranks[r].err.from >= 0) cadre_relay_pump(&s->ranks[r].err, last);
    }
}

static void watch(supervision *s) {
    while (s->live > 0) {
        sleep_until_something(s);
        pass_signal(s);
        read_reports(s);
        pump(s, false);
        reap(s);
        if (s->live > 0 && cadre_past(s->deadline_ns)) {
            send_all(s, SIGKILL);
            s->deadline_ns = INT64_MAX;
        }
    }
    pump(s, true);
}

/* ---- the whole ---- */

static void conclude(const supervision *s, cadre_supervise_result *ret) {
    int ranks = s->opts->ranks, first = cadre_first_cause(s->fates, ranks);
    ret->first_failed = first;
    if (s->stopped_by) {
        ret->first_failed = -1;
        ret->exit_code = 128 + s->stopped_by; /* 130 for SIGINT */
        return;
    }
    if (first < 0) {
        for (int r = 0; r < ranks; r++)
            if (s->fates[r].code > ret->exit_code) ret->exit_code = s->fates[r].code;
        return;
    }
    const cadre_rank_fate *f = &s->fates[first];
    ret->signal = f->signal;
    ret->exit_code = f->signal ? cadre_exit_code(CADRE_EPEER) : f->code;
    for (int r = 0; r < ranks; r++)
        if (r != first && (s->fates[r].signal || s->fates[r].code)) ret->others_failed++;
    cadre_failure_text(s->fates, ranks, first, s->opts->log_folder, &ret->report);
}

static cadre_status open_supervision(supervision *s, const cadre_supervise_opts *opts) {
    int64_t ranks = opts->ranks;
    s->opts = opts;
    s->deadline_ns = INT64_MAX;
    s->alive[0] = s->alive[1] = s->reports[0] = s->reports[1] = -1;
    snprintf(s->job, sizeof s->job, "cadre-%d-%llx", (int)getpid(),
             (unsigned long long)cadre_now_ns());
    CADRE_TRY(cadre_alloc_array(&s->ranks, CADRE_MEM_OTHER, ranks, sizeof *s->ranks));
    for (int r = 0; r < opts->ranks; r++)
        s->ranks[r].pidfd = s->ranks[r].out.from = s->ranks[r].err.from = -1;
    CADRE_TRY(cadre_alloc_array(&s->fates, CADRE_MEM_OTHER, ranks, sizeof *s->fates));
    CADRE_TRY(cadre_alloc_array(&s->polled, CADRE_MEM_OTHER, 3 * ranks + 1, sizeof *s->polled));
    for (int r = 0; r < opts->ranks; r++) s->ranks[r].fate = &s->fates[r];
    CADRE_CHECK(pipe2(s->alive, O_CLOEXEC) == 0, CADRE_ERESOURCE, "no pipe for the ranks: %s",
                strerror(errno));
    CADRE_CHECK(pipe2(s->reports, O_CLOEXEC) == 0, CADRE_ERESOURCE, "no pipe for the ranks: %s",
                strerror(errno));
    (void)fcntl(s->reports[0], F_SETFL, O_NONBLOCK);
    return CADRE_OK;
}

static void close_supervision(supervision *s) {
    for (int i = 0; i < 2; i++) {
        if (s->reports[i] >= 0) close(s->reports[i]);
        if (s->alive[i] >= 0) close(s->alive[i]);
    }
    for (int r = 0; s->ranks && r < s->opts->ranks; r++) {
        cadre_relay_close(&s->ranks[r].out);
        cadre_relay_close(&s->ranks[r].err);
        if (s->ranks[r].pidfd >= 0) close(s->ranks[r].pidfd);
    }
    cadre_free(&s->polled);
    cadre_free(&s->fates);
    cadre_free(&s->ranks);
}

cadre_status cadre_supervise(const cadre_supervise_opts *opts, cadre_supervise_result *ret_result) {
    supervision s;
    sigset_t held;
    memset(&s, 0, sizeof s);
    memset(ret_result, 0, sizeof *ret_result);
    ret_result->first_failed = -1;
    cadre_status st = open_supervision(&s, opts);
    sigemptyset(&held);
    const int handled[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
    for (int i = 0; i < CADRE_COUNT(handled); i++) sigaddset(&held, handled[i]);
    (void)sigprocmask(SIG_BLOCK, &held, &s.outside);
    for (int r = 0; !st && r < opts->ranks; r++) st = start_rank(&s, r);
    cadre_error why;
    if (st) {
        cadre_error_save(&why);
        send_all(&s, SIGKILL);
    }
    watch(&s);
    if (st) cadre_error_restore(&why);
    (void)sigprocmask(SIG_SETMASK, &s.outside, NULL);
    if (!st) conclude(&s, ret_result);
    if (!st) st = ret_result->report.status;
    close_supervision(&s);
    return st;
}
