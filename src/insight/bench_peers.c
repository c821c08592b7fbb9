/* SPDX-License-Identifier: Apache-2.0
 *
 * Other programs that do the same sum: scripts in bench/peers, one a peer. A script is called as
 *
 *   sh SCRIPT RANKS SECONDS BYTES...
 *
 * and prints lines "row WHO BYTES MEDIAN MIN MAX REPEATS" (microseconds), or, when it cannot run
 * here, one line "missing WORDS", which says how to get it.
 */
#include "insight/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"

enum { SIZES_MOST = 32 };

static const char *const scripts[] = {"open_mpi.sh", "gloo.sh"};

static cadre_status read_line(cadre_bench *bench, const char *line, int ranks) {
    cadre_bench_row row = {.ranks = ranks};
    if (sscanf(line, "row %15s %" SCNd64 " %lf %lf %lf %d", row.who, &row.bytes, &row.median_us,
               &row.min_us, &row.max_us, &row.repeats) == 6)
        return cadre_bench_add(bench, &row);
    if (strncmp(line, "missing ", 8) == 0) cadre_text_add(&bench->said, "%s\n", line + 8);
    return bench->said.status;
}

static cadre_status read_output(cadre_bench *bench, const cadre_text *output, int ranks) {
    char line[1024];
    for (const char *at = output->at; at && *at;) {
        size_t n = strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", n < sizeof line ? (int)n : (int)sizeof line - 1, at);
        CADRE_TRY(read_line(bench, line, ranks));
        at += n + (at[n] != '\0');
    }
    return CADRE_OK;
}

/* Starts the script with its output in a pipe; the reading end, or -1. */
static int start_script(char *const *words, char *const *environment, pid_t *ret_pid) {
    posix_spawn_file_actions_t actions;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawn(ret_pid, "/bin/sh", &actions, NULL, words, environment);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (!failed) return ends[0];
    close(ends[0]);
    return -1;
}

static cadre_status run_script(cadre_bench *bench, char *const *words, char *const *environment,
                               int ranks) {
    char part[4096];
    cadre_text output = {0};
    pid_t pid = 0;
    int status = 0;
    int fd = start_script(words, environment, &pid);
    CADRE_CHECK(fd >= 0, CADRE_ERESOURCE, "cannot start %s: %s", words[1], strerror(errno));
    for (ssize_t n; (n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR);)
        if (n > 0) cadre_text_add_bytes(&output, part, (size_t)n);
    close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    cadre_status st = output.status ? output.status : read_output(bench, &output, ranks);
    if (status != 0)
        cadre_text_add(&bench->said, "%s did not end well (wait status %d)\n", words[1], status);
    cadre_text_free(&output);
    return st;
}

/* Beside the program: in the source tree it was built in, or where it was installed. */
static bool find_folder(char ret_folder[CADRE_PATH]) {
    static const char *const places[] = {"../../bench/peers", "../share/cadre/peers",
                                         "../bench/peers"};
    char program[CADRE_PATH], place[CADRE_PATH];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) return false;
    program[n] = '\0';
    *strrchr(program, '/') = '\0';
    for (int i = 0; i < CADRE_COUNT(places); i++) {
        cadre_join(place, sizeof place, program, places[i]);
        if (!cadre_path_is_folder(place)) continue;
        memcpy(ret_folder, place, CADRE_PATH);
        return true;
    }
    return false;
}

static cadre_status run_scripts(cadre_bench *bench, const int64_t *sizes, int count, double seconds,
                                int ranks, const char *folder, char *const *environment) {
    char path[CADRE_PATH], text[SIZES_MOST + 2][32];
    char *words[SIZES_MOST + 8];
    snprintf(text[0], sizeof text[0], "%d", ranks);
    snprintf(text[1], sizeof text[1], "%g", seconds > 0 ? seconds : 1);
    for (int i = 0; i < count; i++) snprintf(text[i + 2], sizeof text[0], "%" PRId64, sizes[i]);
    for (int i = 0; i < CADRE_COUNT(scripts); i++) {
        int n = 0;
        words[n++] = "sh";
        words[n++] = cadre_join(path, sizeof path, folder, scripts[i]);
        for (int k = 0; k < count + 2; k++) words[n++] = text[k];
        words[n] = NULL;
        CADRE_TRY(run_script(bench, words, environment, ranks));
    }
    return bench->said.status;
}

/* The calling rank may be bound to cores of its own; peers get those of the process that started
 * it. */
cadre_status cadre_bench_peers(cadre_bench *bench, const cadre_bench_allreduce_opts *opts,
                               int ranks, const char *folder, char *const *environment) {
    char found[CADRE_PATH];
    int64_t sizes[SIZES_MOST];
    int count = 0;
    cpu_set_t own, wide;
    CADRE_TRY(cadre_bench_sizes(opts->bytes, sizes, &count));
    if (!folder && !find_folder(found)) {
        cadre_text_add(&bench->said, "peers: their scripts (bench/peers) are not beside this "
                                     "program\n");
        return bench->said.status;
    }
    bool widened = sched_getaffinity(0, sizeof own, &own) == 0 &&
                   sched_getaffinity(getppid(), sizeof wide, &wide) == 0 &&
                   sched_setaffinity(0, sizeof wide, &wide) == 0;
    cadre_status st = run_scripts(bench, sizes, count, opts->seconds, ranks,
                                  folder ? folder : found, environment);
    if (widened) sched_setaffinity(0, sizeof own, &own);
    return st;
}
