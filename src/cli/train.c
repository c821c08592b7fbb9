/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre train: checks the settings, chooses the run folder, starts the ranks and watches them; and,
 * started by a launcher, one rank of the run.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "cli/cli.h"
#include "train/resolve.h"

/* ---- what to train ---- */

static bool has_suffix(const char *path, const char *suffix) {
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && strcmp(path + n - m, suffix) == 0;
}

static cadre_status open_settings(const cli_call *call, cadre_settings **ret_set) {
    const char *file = call->word_count ? call->words[0] : NULL;
    if (file && !has_suffix(file, ".yaml") && !has_suffix(file, ".yml"))
        return CADRE_FAIL(CADRE_EUSAGE,
                          "%s is not a run file (RUN.yaml); did you mean `--data.train=%s`?", file,
                          file);
    CADRE_TRY(cli_open_settings(call, file, ret_set));
    const char *data = cadre_settings_get(*ret_set, "data.train");
    if (data && *data) return CADRE_OK;
    cadre_settings_close(ret_set);
    return CADRE_FAIL(CADRE_EUSAGE, "nothing to train on; try `cadre train --data.train=FILE`");
}

/* ---- a rank ---- */

static volatile int stop_signal;
static bool second_interrupt_ends;

static void note_stop(int number) {
    if (number == SIGINT && stop_signal == SIGINT && second_interrupt_ends) _exit(130);
    stop_signal = number == SIGUSR2 ? SIGINT : number;
}

/* Under the supervisor Ctrl-C is its affair: it passes on SIGUSR2. */
static void handle_signals(bool supervised) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = note_stop;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    const int numbers[] = {SIGTERM, SIGUSR1, SIGUSR2};
    for (int i = 0; i < CADRE_COUNT(numbers); i++) (void)sigaction(numbers[i], &action, NULL);
    second_interrupt_ends = !supervised;
    if (!supervised) (void)sigaction(SIGINT, &action, NULL);
    if (supervised) (void)signal(SIGINT, SIG_IGN);
    if (supervised) (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    cli_take_signals();
}

/* A rank's log: every line with its time. Warnings of rank 0 reach the terminal too. */
typedef struct rank_log {
    int fd;
    bool terminal;
} rank_log;

static void log_line(void *self, cadre_log_level level, const char *line) {
    static const char *const names[] = {"debug", "info", "warning", "error"};
    rank_log *log = self;
    struct timespec now;
    struct tm parts;
    char stamp[64];
    cadre_text text = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
    cadre_text_add(&text, "%s.%03ldZ %s: %s\n", stamp, now.tv_nsec / 1000000, names[level], line);
    if (log->fd >= 0 && text.at) {
        ssize_t n = write(log->fd, text.at, text.length);
        (void)n;
    }
    if (log->terminal && level == CADRE_LOG_WARN) fprintf(stderr, "cadre: %s\n", line);
    cadre_text_free(&text);
}

/* Standard output of rank 0 goes to its log too. */
static ssize_t write_both(void *cookie, const char *at, size_t bytes) {
    const rank_log *log = cookie;
    size_t done = 0;
    if (log->fd >= 0) {
        ssize_t n = write(log->fd, at, bytes);
        (void)n;
    }
    while (done < bytes) {
        ssize_t n = write(STDOUT_FILENO, at + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break; /* nobody reads any more: the run goes on */
        done += (size_t)n;
    }
    return (ssize_t)bytes;
}

static FILE *open_output(rank_log *log) {
    const cookie_io_functions_t functions = {.write = write_both};
    FILE *out = fopencookie(log, "w", functions);
    if (out) setvbuf(out, NULL, _IOLBF, 4096);
    return out;
}

static void open_log(const cli_call *call, const cadre_launch *launch, rank_log *log) {
    char path[CADRE_PATH];
    log->fd = -1;
    log->terminal = launch->rank == 0 && !call->quiet;
    if (call->env->run_folder) {
        snprintf(path, sizeof path, "%s/logs/rank-%03d.log", call->env->run_folder, launch->rank);
        log->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    }
    cadre_log_to(log_line, log);
    cadre_log(CADRE_LOG_INFO, "rank %d of %d, process %d, started by %s", launch->rank,
              launch->size, (int)getpid(), launch->by);
}

static int code_of(const cadre_end_report *end, const cadre_settings *set) {
    int64_t code = 75;
    const char *text = cadre_settings_get(set, "run.exit_on_signal");
    if (text) (void)cadre_parse_i64(text, &code);
    if (end->reason == CADRE_END_SIGTERM || end->reason == CADRE_END_SIGUSR1) return (int)code;
    return end->reason == CADRE_END_SIGINT ? 130 : 0;
}

static cadre_status train(const cli_call *call, const cadre_launch *launch, cadre_comm *world,
                          cadre_settings *set, FILE *out, cadre_end_report *ret_end) {
    cadre_text arguments = {0};
    cadre_sinks *sinks = NULL;
    cli_arguments(call, &arguments);
    const cadre_console_opts console = {
        .out = out,
        .err = stderr,
        .out_is_terminal = isatty(STDOUT_FILENO),
        .err_is_terminal = isatty(STDERR_FILENO),
        .term = call->env->term,
        .no_color = call->env->no_color,
        .quiet = call->quiet,
        .program = call->argv[0],
        .arguments = arguments.at,
    };
    const cadre_sinks_opts opts = {.rank = launch->rank,
                                   .console = launch->rank == 0 ? &console : NULL};
    cadre_status st = arguments.status;
    if (!st) st = cadre_sinks_open(&sinks, &opts);
    if (!st) {
        cadre_run_opts run = {.folder = call->env->run_folder,
                              .resume = call->env->run_resume,
                              .stop_signal = &stop_signal};
        run.observers = cadre_sinks_observers(sinks, &run.observer_count);
        st = cadre_run_train(world, set, &run, ret_end);
    }
    cadre_sinks_close(&sinks);
    cadre_text_free(&arguments);
    return st;
}

static int rank_main(const cli_call *call, const cadre_launch *launch) {
    cadre_comm *world = NULL;
    cadre_settings *set = NULL;
    cadre_comm_cfg comm;
    cadre_end_report end = {0};
    rank_log log;
    FILE *out = NULL;
    handle_signals(strcmp(launch->by, "cadre") == 0);
    open_log(call, launch, &log);
    cli_watch_supervisor(launch);
    cadre_status st = open_settings(call, &set);
    if (!st) st = cadre_settings_fill(set, &cadre_comm_settings, &comm);
    if (!st && !(out = open_output(&log)))
        st = CADRE_FAIL(CADRE_ERESOURCE, "no stream for standard output");
    if (!st) {
        const cadre_comm_opts opts = cli_comm_opts(&comm);
        st = cadre_comm_open(&world, &opts);
    }
    if (!st) st = train(call, launch, world, set, out, &end);
    int code = st ? 0 : code_of(&end, set);
    if (!st && end.reason == CADRE_END_FINISHED_BEFORE && launch->rank == 0)
        cli_remark(call,
                   "finished: step %" PRId64 " is done already; --train.steps=N with a larger "
                   "N goes on, --run.name=NEW starts anew",
                   end.step);
    code = cli_rank_end(call, launch, world, st, code);
    cadre_comm_close(&world);
    cadre_settings_close(&set);
    if (out) fclose(out);
    cadre_log_to(NULL, NULL);
    if (log.fd >= 0) close(log.fd);
    return code;
}

/* ---- the supervisor ---- */

/* A folder that this call made and no run started in (bad data, say) would only be in the way. */
static void drop_unused(const cadre_run_place *place, int code) {
    char path[CADRE_PATH];
    if (code == 0 || place->resume) return;
    cadre_join(path, sizeof path, place->folder, "settings.yaml");
    if (!cadre_path_is_file(path)) (void)cadre_remove_tree(place->folder);
}

/* One run at a time writes to a folder. The lock ends with this process, however it ends. */
static cadre_status lock_folder(const char *folder, int *ret_fd) {
    CADRE_TRY(cadre_mkdirs(folder));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CADRE_CHECK(fd >= 0, CADRE_ERESOURCE, "cannot open %s: %s", folder, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(fd);
        return CADRE_FAIL(CADRE_EUSAGE,
                          "another run is writing to %s; wait for it or take --run.name=NEW",
                          folder);
    }
    *ret_fd = fd;
    return CADRE_OK;
}

static int start(const cli_call *call, int ranks, const cadre_run_place *place) {
    cadre_text folder = {0};
    char *more[3] = {NULL, "CADRE_RUN_RESUME=1", NULL};
    cadre_text_add(&folder, "CADRE_RUN_FOLDER=%s", place->folder);
    if (folder.status) return cli_fail(call, folder.status);
    more[0] = folder.at;
    if (!place->resume) more[1] = NULL;
    bool made = !cadre_path_is_folder(place->folder);
    int lock = -1, code;
    cadre_status st = lock_folder(place->folder, &lock);
    if (!st && place->said[0]) cli_remark(call, "%s", place->said);
    code = st ? cli_fail(call, st) : cli_supervise(call, ranks, place->folder, more);
    if (made && !st) drop_unused(place, code);
    if (lock >= 0) close(lock);
    cadre_text_free(&folder);
    return code;
}

static cadre_status prepare(const cli_call *call, int *ret_ranks, cadre_run_place *ret_place) {
    cadre_settings *set = NULL;
    cadre_facts facts = {0};
    CADRE_TRY(open_settings(call, &set));
    cadre_status st = cadre_settings_ranks(set, ret_ranks);
    facts.world = facts.local_size = *ret_ranks;
    if (!st) st = cadre_settings_resolve(set, &facts);
    const char *trace = cadre_settings_get(set, "run.trace");
    bool wanted;
    int64_t last;
    if (!st && trace) st = cadre_trace_steps(trace, 1, &wanted, &last);
    if (!st) st = cadre_run_folder(set, ret_place);
    cadre_settings_close(&set);
    return st;
}

int cli_train(const cli_call *call) {
    cadre_launch launch;
    cadre_run_place place;
    bool am_rank = false;
    int ranks = 1;
    cadre_status st = cli_am_rank(&launch, &am_rank);
    if (!st && am_rank) return rank_main(call, &launch);
    if (!st) st = prepare(call, &ranks, &place);
    if (st) return cli_fail(call, st);
    if (place.said[0] && place.finished) {
        if (!call->quiet) printf("%s\n", place.said);
        return 0;
    }
    return start(call, ranks, &place);
}
