/* SPDX-License-Identifier: Apache-2.0
 *
 * bench checkpoint: saving and loading the state of a model in training, beside the same bytes
 * written and read plainly, in turn.
 *
 *   save   weights and optimizer state: checksums, fsync, renames; all ranks take part
 *   write  each rank its share of the bytes into a file of its own, then fsync
 *   load   every rank reads everything; rank 0 checks every sum
 *   read   every rank reads the files of the others too, into one buffer
 *
 * Before each reading the files' pages are dropped from memory. All is done in the folder of
 * the options; without one, in a folder of its own in the current one, which is removed at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "insight/bench_model.h"

enum { PART = 8 << 20 };

typedef enum series { SAVE, WRITE, LOAD, READ, SERIES } series;
static const char *const series_names[SERIES] = {"save", "write", "load", "read"};

typedef struct job {
    cadre_bench_model model;
    int rank, size;
    char folder[CADRE_PATH];
    int64_t bytes; /* of a checkpoint */
    char *buffer;  /* PART bytes */
    int64_t repeats;
    double *ns[SERIES];
} job;

/* ---- the folder ---- */

static cadre_status make_folder(job *j, const char *given) {
    if (given) {
        snprintf(j->folder, sizeof j->folder, "%s", given);
        return CADRE_OK;
    }
    if (j->rank == 0) {
        snprintf(j->folder, sizeof j->folder, "cadre-bench-XXXXXX");
        CADRE_CHECK(mkdtemp(j->folder), CADRE_ERESOURCE,
                    "cannot make a folder in the current one: %s", strerror(errno));
    }
    return cadre_broadcast(j->model.world, j->folder, sizeof j->folder, CADRE_U8, 0, "bench folder",
                           NULL);
}

/* Bytes in the files of a folder; `drop`: their pages leave memory. */
static cadre_status look_at_folder(const char *folder, bool drop, int64_t *ret_bytes) {
    char **names = NULL, path[CADRE_PATH];
    int count = 0;
    CADRE_TRY(cadre_list_folder(folder, &names, &count));
    *ret_bytes = 0;
    for (int i = 0; i < count; i++) {
        struct stat about;
        int fd = open(cadre_join(path, sizeof path, folder, names[i]), O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        if (fstat(fd, &about) == 0) *ret_bytes += about.st_size;
        if (drop) (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    cadre_names_free(&names, count);
    return CADRE_OK;
}

/* ---- the plain way ---- */

static char *file_of(const job *j, int rank, char path[CADRE_PATH]) {
    char name[32];
    snprintf(name, sizeof name, "plain-%03d", rank);
    return cadre_join(path, CADRE_PATH, j->folder, name);
}

static cadre_status write_plain(job *j) {
    char path[CADRE_PATH];
    int64_t left = j->bytes / j->size;
    int fd = open(file_of(j, j->rank, path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    CADRE_CHECK(fd >= 0, CADRE_ERESOURCE, "cannot write %s: %s", path, strerror(errno));
    cadre_status st = CADRE_OK;
    for (; !st && left > 0; left -= PART)
        st = cadre_write_all(fd, j->buffer, left < PART ? (size_t)left : PART, path);
    if (!st && fsync(fd) != 0)
        st = CADRE_FAIL(CADRE_ERESOURCE, "cannot write %s: %s", path, strerror(errno));
    close(fd);
    return st;
}

static cadre_status read_plain(job *j) {
    char path[CADRE_PATH];
    for (int i = 0; i < j->size; i++) {
        ssize_t n = 0;
        int fd = open(file_of(j, i, path), O_RDONLY | O_CLOEXEC);
        CADRE_CHECK(fd >= 0, CADRE_ERESOURCE, "cannot read %s: %s", path, strerror(errno));
        do {
            n = read(fd, j->buffer, PART);
        } while (n > 0 || (n < 0 && errno == EINTR));
        close(fd);
        CADRE_CHECK(n == 0, CADRE_ERESOURCE, "cannot read %s: %s", path, strerror(errno));
    }
    return CADRE_OK;
}

/* ---- one repeat ---- */

static cadre_status save(job *j, int64_t step, char path[CADRE_PATH]) {
    const cadre_state_head head = {
        .step = step, .samples = step, .valid_loss = NAN, .set = j->model.set};
    return cadre_state_save(j->model.world, j->model.parallel, j->model.model, j->folder, &head,
                            path);
}

static cadre_status load(job *j, const char *path) {
    int64_t step = 0, samples = 0;
    return cadre_state_load(j->model.world, j->model.parallel, j->model.model, path, 0, &step,
                            &samples, NULL);
}

static cadre_status begin(job *j, const char *folder, int64_t *ret_ns) {
    int64_t bytes;
    if (folder && j->rank == 0) CADRE_TRY(look_at_folder(folder, true, &bytes));
    CADRE_TRY(cadre_barrier(j->model.world, "bench checkpoint"));
    *ret_ns = cadre_now_ns();
    return CADRE_OK;
}

/* Until the last rank is done. */
static cadre_status end(job *j, int64_t begun, double *ret_ns) {
    CADRE_TRY(cadre_barrier(j->model.world, "bench checkpoint"));
    *ret_ns = (double)(cadre_now_ns() - begun);
    return CADRE_OK;
}

static cadre_status measure_once(job *j, int64_t i, double ns[SERIES]) {
    char path[CADRE_PATH] = "";
    int64_t begun = 0;
    CADRE_TRY(begin(j, NULL, &begun));
    CADRE_TRY(save(j, i + 1, path));
    CADRE_TRY(end(j, begun, &ns[SAVE]));
    CADRE_TRY(cadre_broadcast(j->model.world, path, sizeof path, CADRE_U8, 0, "bench path", NULL));
    CADRE_TRY(look_at_folder(path, false, &j->bytes));
    CADRE_TRY(begin(j, NULL, &begun));
    CADRE_TRY(write_plain(j));
    CADRE_TRY(end(j, begun, &ns[WRITE]));
    CADRE_TRY(begin(j, path, &begun));
    CADRE_TRY(load(j, path));
    CADRE_TRY(end(j, begun, &ns[LOAD]));
    CADRE_TRY(begin(j, j->folder, &begun));
    CADRE_TRY(read_plain(j));
    CADRE_TRY(end(j, begun, &ns[READ]));
    if (j->rank == 0) CADRE_TRY(cadre_remove_tree(path));
    return CADRE_OK;
}

/* ---- the whole ---- */

static cadre_status add_row(const job *j, int k, const cadre_bench_stats s[SERIES],
                            cadre_bench *bench) {
    bool ours = k == SAVE || k == LOAD;
    double moved = (double)j->bytes * (k == LOAD || k == READ ? j->size : 1);
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:i, s:I, s:i, s:o, s:f}", "op", series_names[k], "model",
                  j->model.cfg.model.preset, "who", ours ? "cadre" : "limit", "ranks", j->size,
                  "bytes", (json_int_t)j->bytes, "repeats", s[k].repeats, "ms",
                  cadre_bench_spread(&s[k], 1e-6), "gb_per_s", moved / s[k].median);
    if (row && ours) json_object_set_new(row, "of_limit", json_real(s[k + 1].median / s[k].median));
    return cadre_bench_add(bench, row);
}

static cadre_status measure(job *j, const cadre_bench_opts *opts, cadre_bench *bench) {
    double first[SERIES], sum = 0;
    CADRE_TRY(make_folder(j, opts->folder));
    CADRE_TRY(cadre_alloc(&j->buffer, CADRE_MEM_OTHER, PART));
    memset(j->buffer, 7, PART);
    CADRE_TRY(measure_once(j, 0, first));
    for (int k = 0; k < SERIES; k++) sum += first[k];
    CADRE_TRY(cadre_bench_samples(j->model.world, opts, 10, sum, &j->repeats));
    for (int k = 0; k < SERIES; k++)
        CADRE_TRY(cadre_alloc_array(&j->ns[k], CADRE_MEM_OTHER, j->repeats, sizeof(double)));
    for (int64_t i = 0; i < j->repeats; i++) {
        double ns[SERIES];
        CADRE_TRY(measure_once(j, i + 1, ns));
        for (int k = 0; k < SERIES; k++) j->ns[k][i] = ns[k];
    }
    cadre_bench_stats s[SERIES];
    for (int k = 0; k < SERIES; k++) s[k] = cadre_bench_stats_of(j->ns[k], j->repeats);
    for (int k = 0; k < SERIES && j->rank == 0; k++) CADRE_TRY(add_row(j, k, s, bench));
    return CADRE_OK;
}

cadre_status cadre_bench_checkpoint(cadre_comm *world, const cadre_bench_opts *opts,
                                    cadre_bench *bench) {
    job j = {.rank = cadre_comm_rank(world), .size = cadre_comm_size(world)};
    cadre_status st = cadre_bench_model_open(&j.model, world, opts);
    if (!st) st = cadre_bench_parallel_open(&j.model, world, j.model.queue, &j.model.parallel);
    if (!st) st = measure(&j, opts, bench);
    cadre_error error;
    if (st) cadre_error_save(&error);
    if (j.rank == 0 && j.folder[0] && !opts->folder) (void)cadre_remove_tree(j.folder);
    if (st) st = cadre_error_restore(&error);
    for (int k = 0; k < SERIES; k++) cadre_free(&j.ns[k]);
    cadre_free(&j.buffer);
    cadre_bench_model_close(&j.model);
    return st;
}
