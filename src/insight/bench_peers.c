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
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "insight/document.h"

enum { SIZES_MOST = 32 };

static const char *const scripts[] = {"open_mpi.sh", "gloo.sh"};

static cadre_status read_line(cadre_bench *bench, const char *line) {
    char who[16];
    int64_t bytes;
    cadre_bench_stats us;
    if (sscanf(line, "row %15s %" SCNd64 " %lf %lf %lf %d", who, &bytes, &us.median, &us.min,
               &us.max, &us.repeats) == 6)
        return cadre_bench_add(bench, cadre_bench_allreduce_row(who, bench->ranks, bytes, &us));
    if (strncmp(line, "missing ", 8) == 0) cadre_text_add(&bench->said, "%s\n", line + 8);
    return bench->said.status;
}

static cadre_status read_output(cadre_bench *bench, const cadre_text *output) {
    char line[1024];
    for (const char *at = output->at; at && *at;) {
        size_t n = strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", n < sizeof line ? (int)n : (int)sizeof line - 1, at);
        CADRE_TRY(read_line(bench, line));
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

static cadre_status run_script(cadre_bench *bench, char *const *words, char *const *environment) {
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
    cadre_status st = output.status ? output.status : read_output(bench, &output);
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

/* The sizes that rows are there of. */
static cadre_status sizes_of(const cadre_bench *bench, int64_t *ret_sizes, int *ret_count) {
    int count = 0;
    for (size_t i = 0; i < json_array_size(bench->rows); i++) {
        const json_t *row = json_array_get(bench->rows, i);
        if (strcmp(cadre_bench_word(row, "who"), "cadre") != 0) continue;
        CADRE_CHECK(count < SIZES_MOST, CADRE_EINTERNAL, "more than %d sizes", (int)SIZES_MOST);
        ret_sizes[count++] = (int64_t)cadre_bench_number(row, "bytes");
    }
    *ret_count = count;
    return CADRE_OK;
}

static cadre_status run_scripts(cadre_bench *bench, const int64_t *sizes, int count,
                                const cadre_bench_opts *opts, const char *folder) {
    char path[CADRE_PATH], text[SIZES_MOST + 2][32];
    char *words[SIZES_MOST + 8];
    snprintf(text[0], sizeof text[0], "%d", bench->ranks);
    snprintf(text[1], sizeof text[1], "%g", opts->seconds > 0 ? opts->seconds : 1);
    for (int i = 0; i < count; i++) snprintf(text[i + 2], sizeof text[0], "%" PRId64, sizes[i]);
    for (int i = 0; i < CADRE_COUNT(scripts); i++) {
        int n = 0;
        words[n++] = "sh";
        words[n++] = cadre_join(path, sizeof path, folder, scripts[i]);
        for (int k = 0; k < count + 2; k++) words[n++] = text[k];
        words[n] = NULL;
        CADRE_TRY(run_script(bench, words, opts->environment));
    }
    return bench->said.status;
}

/* ---- all rows together ---- */

static int by_size(const void *a, const void *b) {
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    double xb = cadre_bench_number(x, "bytes"), yb = cadre_bench_number(y, "bytes");
    double xt = cadre_bench_number(x, "us.median"), yt = cadre_bench_number(y, "us.median");
    return xb != yb ? (xb > yb) - (xb < yb) : (xt > yt) - (xt < yt);
}

/* Limit time / time; null where the limit of a size was not measured. */
static void compare(json_t *rows) {
    for (size_t i = 0; i < json_array_size(rows); i++)
        for (size_t k = 0; k < json_array_size(rows); k++) {
            json_t *row = json_array_get(rows, i), *limit = json_array_get(rows, k);
            if (strcmp(cadre_bench_word(limit, "who"), "limit") != 0 ||
                cadre_bench_number(limit, "bytes") != cadre_bench_number(row, "bytes"))
                continue;
            cadre_document_number(row, "of_limit",
                                  cadre_bench_number(limit, "us.median") /
                                      cadre_bench_number(row, "us.median"));
        }
}

/* Sizes rising, and of one size the fastest first. */
static cadre_status order(cadre_bench *bench) {
    size_t n = json_array_size(bench->rows);
    json_t **at = NULL, *sorted = json_array();
    cadre_status st = cadre_alloc_array(&at, CADRE_MEM_OTHER, (int64_t)n, sizeof(json_t *));
    if (!st && !sorted) st = CADRE_FAIL(CADRE_ERESOURCE, "no memory for the rows of a bench");
    for (size_t i = 0; !st && i < n; i++) at[i] = json_array_get(bench->rows, i);
    if (!st) qsort(at, n, sizeof(json_t *), by_size);
    for (size_t i = 0; !st && i < n; i++) json_array_append(sorted, at[i]);
    cadre_free(&at);
    json_decref(st ? sorted : bench->rows);
    if (!st) bench->rows = sorted;
    return st;
}

static cadre_status run_all(cadre_bench *bench, const cadre_bench_opts *opts) {
    char found[CADRE_PATH];
    int64_t sizes[SIZES_MOST];
    int count = 0;
    if (!opts->peers && !find_folder(found)) {
        cadre_text_add(&bench->said, "peers: their scripts (bench/peers) are not beside this "
                                     "program\n");
        return bench->said.status;
    }
    CADRE_TRY(sizes_of(bench, sizes, &count));
    return run_scripts(bench, sizes, count, opts, opts->peers ? opts->peers : found);
}

cadre_status cadre_bench_peers(cadre_bench *bench, const cadre_bench_opts *opts) {
    CADRE_TRY(run_all(bench, opts));
    compare(bench->rows);
    return order(bench);
}
