/* SPDX-License-Identifier: Apache-2.0
 *
 * bench allreduce: how long a sum over all ranks takes, and how fast this machine could move the
 * bytes of it.
 *
 * A sample is the time of `burst` operations one after the other, divided by their number; bursts
 * are long enough for the clock (0.1 ms). Median, smallest and largest are over the samples of
 * rank 0.
 *
 * The limit: with P ranks and n bytes a rank, a sum that is done where the data lie reads, on each
 * rank, its n / P of all P inputs, and its results reach all P outputs. The limit moves these bytes
 * in plain loops over memory that all ranks share, all ranks at once, with no messages and no
 * waiting for each other inside. There are two ways, and the faster one counts:
 *   push   each rank writes its slice of the sum into all P outputs
 *   pull   each rank writes it into its own output, then copies the other slices from the others
 */
#include "insight/bench.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/clones.h"
#include "base/cpus.h"

enum { SIZES_MOST = 32, SAMPLES_MOST = 2000, SAMPLES_LEAST = 5, BURST_NS = 100000 };

static const char standard_sizes[] = "8KiB,64KiB,1MiB,16MiB,256MiB";

/* ---- timing, the same for both programs ---- */

typedef struct job {
    cadre_comm *comm;
    int64_t bytes;
    double seconds;
    int64_t repeat; /* 0: as the seconds say */
    cadre_status (*once)(struct job *j);
    bool together; /* start every sample at the same moment */
    float *in, *out;
    float *shared; /* limit: P inputs, then P outputs */
} job;

static cadre_status run_burst(job *j, int64_t burst, double *ret_us) {
    if (j->together) CADRE_TRY(cadre_barrier(j->comm, "bench"));
    int64_t begin = cadre_now_ns();
    for (int64_t i = 0; i < burst; i++) CADRE_TRY(j->once(j));
    *ret_us = (double)(cadre_now_ns() - begin) * 1e-3 / (double)burst;
    return CADRE_OK;
}

/* Rank 0's idea of how many, told to all. */
static cadre_status plan_bursts(job *j, int64_t *ret_burst, int64_t *ret_samples) {
    double us = 0;
    CADRE_TRY(run_burst(j, 2, &us)); /* pages, caches, connections */
    CADRE_TRY(run_burst(j, 3, &us));
    int64_t tries =
        us < 1000 ? 9 : 0; /* short ones are easily disturbed: the best of some counts */
    CADRE_TRY(cadre_broadcast(j->comm, &tries, 1, CADRE_I64, 0, "bench plan", NULL));
    for (int64_t i = 0; i < tries; i++) {
        double again = 0;
        CADRE_TRY(run_burst(j, 3, &again));
        if (again < us) us = again;
    }
    int64_t told[2] = {us * 1e3 < BURST_NS ? (int64_t)(BURST_NS / (us * 1e3 + 1)) + 1 : 1, 0};
    told[1] = (int64_t)(j->seconds * 1e6 / (us * (double)told[0] + 1e-3));
    if (told[1] > SAMPLES_MOST) told[1] = SAMPLES_MOST;
    if (told[1] < SAMPLES_LEAST) told[1] = SAMPLES_LEAST;
    if (j->repeat) told[1] = j->repeat;
    CADRE_TRY(cadre_broadcast(j->comm, told, 2, CADRE_I64, 0, "bench plan", NULL));
    *ret_burst = told[0];
    *ret_samples = told[1];
    return CADRE_OK;
}

static cadre_status measure(job *j, cadre_bench_stats *ret_us) {
    int64_t burst = 0, samples = 0;
    double *us = NULL;
    CADRE_TRY(plan_bursts(j, &burst, &samples));
    CADRE_TRY(cadre_alloc_array(&us, CADRE_MEM_OTHER, samples, sizeof *us));
    cadre_status st = CADRE_OK;
    for (int64_t i = 0; !st && i < samples; i++) st = run_burst(j, burst, &us[i]);
    if (!st) {
        *ret_us = cadre_bench_stats_of(us, samples);
        ret_us->repeats *= (int)burst;
    }
    cadre_free(&us);
    return st;
}

json_t *cadre_bench_allreduce_row(const char *who, int ranks, int64_t bytes,
                                  const cadre_bench_stats *us) {
    /* bytes / median time, in 10^9 bytes a second */
    double rate = us->median > 0 ? (double)bytes / (us->median * 1e3) : 0;
    return json_pack("{s:s, s:i, s:I, s:s, s:i, s:o, s:f, s:n}", "op", "all_reduce", "ranks", ranks,
                     "bytes", (json_int_t)bytes, "who", who, "repeats", us->repeats, "us",
                     cadre_bench_spread(us, 1), "gb_per_s", rate, "of_limit");
}

static cadre_status add_row(const job *j, const char *who, const cadre_bench_stats *us,
                            cadre_bench *bench) {
    if (cadre_comm_rank(j->comm) != 0) return CADRE_OK;
    return cadre_bench_add(bench,
                           cadre_bench_allreduce_row(who, cadre_comm_size(j->comm), j->bytes, us));
}

/* ---- Cadre ---- */

static cadre_status all_reduce_once(job *j) {
    return cadre_all_reduce(j->comm, j->in, j->out, j->bytes / 4, CADRE_F32, CADRE_SUM, "bench",
                            NULL);
}

/* Rank r gives r + 1 + (i mod 8): every sum is exact. */
static cadre_status check_sums(const job *j) {
    int size = cadre_comm_size(j->comm);
    for (int64_t i = 0; i < j->bytes / 4; i++) {
        float want = (float)(size * (size + 1) / 2 + size * (i % 8));
        CADRE_CHECK(j->out[i] == want, CADRE_EINTERNAL,
                    "all_reduce of %" PRId64 " bytes: element %" PRId64 " is %g, not %g", j->bytes,
                    i, (double)j->out[i], (double)want);
    }
    return CADRE_OK;
}

static cadre_status bench_cadre(job *j, cadre_bench *bench) {
    void *in = NULL, *out = NULL;
    cadre_status st = cadre_comm_alloc(j->comm, (size_t)j->bytes, &in);
    if (!st) st = cadre_comm_alloc(j->comm, (size_t)j->bytes, &out);
    j->in = in;
    j->out = out;
    for (int64_t i = 0; !st && i < j->bytes / 4; i++)
        j->in[i] = (float)(cadre_comm_rank(j->comm) + 1 + i % 8);
    j->once = all_reduce_once;
    j->together = false;
    cadre_bench_stats us = {0};
    if (!st) st = measure(j, &us);
    if (!st) st = add_row(j, "cadre", &us, bench);
    if (!st) st = check_sums(j);
    if (!st) st = cadre_barrier(j->comm, "bench memory"); /* peers may still read `in` */
    cadre_comm_free(j->comm, in);
    cadre_comm_free(j->comm, out);
    return st;
}

/* ---- the limit ---- */

enum { TILE = 1024 }; /* stays in the nearest cache between its reads and its writes */

/* Elements [first, end) of the sum, into outputs [from, to). */
CADRE_CLONES static void sum_slice(float *shared, int64_t n, int size, int64_t first, int64_t end,
                                   int from, int to) {
    float sum[TILE];
    for (int64_t at = first; at < end; at += TILE) {
        int64_t m = end - at < TILE ? end - at : TILE;
        for (int64_t i = 0; i < m; i++) sum[i] = shared[at + i];
        for (int p = 1; p < size; p++) {
            const float *in = shared + p * n + at;
            for (int64_t i = 0; i < m; i++) sum[i] += in[i];
        }
        for (int p = from; p < to; p++) {
            float *out = shared + (size + p) * n + at;
            for (int64_t i = 0; i < m; i++) out[i] = sum[i];
        }
    }
}

static cadre_status push_once(job *j) {
    int size = cadre_comm_size(j->comm), rank = cadre_comm_rank(j->comm);
    int64_t n = j->bytes / 4;
    sum_slice(j->shared, n, size, n * rank / size, n * (rank + 1) / size, 0, size);
    return CADRE_OK;
}

static cadre_status pull_once(job *j) {
    int size = cadre_comm_size(j->comm), rank = cadre_comm_rank(j->comm);
    int64_t n = j->bytes / 4;
    float *own = j->shared + (size + rank) * n;
    sum_slice(j->shared, n, size, n * rank / size, n * (rank + 1) / size, rank, rank + 1);
    for (int step = 1; step < size; step++) { /* nobody is asked by two at once */
        int p = (rank + step) % size;
        int64_t first = n * p / size, end = n * (p + 1) / size;
        memcpy(own + first, j->shared + (size + p) * n + first, (size_t)(end - first) * 4);
    }
    return CADRE_OK;
}

/* The faster way counts. */
static cadre_status measure_limit(job *j, cadre_bench *bench) {
    cadre_bench_stats push = {0}, pull = {0};
    j->together = true;
    j->seconds /= 2;
    j->once = push_once;
    CADRE_TRY(measure(j, &push));
    j->once = pull_once;
    CADRE_TRY(measure(j, &pull));
    return add_row(j, "limit", pull.median < push.median ? &pull : &push, bench);
}

/* Memory that all ranks of this machine see: rank 0's memfd, opened by the others through /proc. */
static void *map_shared(int64_t pid, int64_t fd, int64_t bytes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/fd/%" PRId64, pid, fd);
    int own = open(path, O_RDWR | O_CLOEXEC);
    if (own < 0) return NULL;
    void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
    close(own);
    return at == MAP_FAILED ? NULL : at;
}

/* `ret_shared` NULL on every rank when one of them cannot see the memory. */
static cadre_status open_shared(cadre_comm *comm, int64_t bytes, float **ret_shared) {
    int64_t told[2] = {getpid(), -1}, seen = 0, all = 0;
    if (cadre_comm_rank(comm) == 0) {
        told[1] = memfd_create("cadre-bench", MFD_CLOEXEC);
        if (told[1] >= 0 && ftruncate((int)told[1], (off_t)bytes) != 0) {
            close((int)told[1]);
            told[1] = -1;
        }
    }
    int mine = (int)told[1];
    CADRE_TRY(cadre_broadcast(comm, told, 2, CADRE_I64, 0, "bench memory", NULL));
    void *at = told[1] >= 0 ? map_shared(told[0], told[1], bytes) : NULL;
    seen = at != NULL;
    cadre_status st =
        cadre_all_reduce(comm, &seen, &all, 1, CADRE_I64, CADRE_MIN, "bench memory", NULL);
    if (mine >= 0) close(mine);
    if (at && (st || !all)) munmap(at, (size_t)bytes);
    if (!st) *ret_shared = all ? at : NULL;
    return st;
}

static cadre_status bench_limit(job *j, cadre_bench *bench) {
    int size = cadre_comm_size(j->comm), rank = cadre_comm_rank(j->comm);
    int64_t bytes = 2 * size * j->bytes, n = j->bytes / 4;
    CADRE_TRY(open_shared(j->comm, bytes, &j->shared));
    if (!j->shared) {
        cadre_text_add(&bench->said, "limit: not measured, the ranks cannot share memory here\n");
        return CADRE_OK;
    }
    for (int64_t i = 0; i < n; i++) { /* each rank touches its own first */
        j->shared[rank * n + i] = (float)(i % 8);
        j->shared[(size + rank) * n + i] = 0;
    }
    cadre_status st = measure_limit(j, bench);
    if (!st) st = cadre_barrier(j->comm, "bench memory");
    munmap(j->shared, (size_t)bytes);
    return st;
}

/* ---- the whole ---- */

static cadre_status bench_sizes(cadre_comm *comm, const int64_t *sizes, int count,
                                const cadre_bench_opts *opts, cadre_bench *bench) {
    for (int i = 0; i < count; i++) {
        job j = {.comm = comm,
                 .bytes = sizes[i],
                 .seconds = opts->seconds > 0 ? opts->seconds : 1,
                 .repeat = opts->repeat};
        CADRE_TRY(bench_cadre(&j, bench));
        CADRE_TRY(bench_limit(&j, bench));
    }
    return CADRE_OK;
}

cadre_status cadre_bench_allreduce(cadre_comm *comm, const cadre_bench_opts *opts,
                                   cadre_bench *bench) {
    int64_t sizes[SIZES_MOST];
    int count = 0, cpu = 0;
    cpu_set_t before;
    CADRE_TRY(cadre_bench_sizes(opts->bytes, standard_sizes, sizes, &count));
    bool known = sched_getaffinity(0, sizeof before, &before) == 0;
    bool bound =
        known &&
        cadre_cpus_share(cadre_comm_local_rank(comm), cadre_comm_local_size(comm), &cpu, 1) > 0 &&
        cadre_cpus_bind_self(&cpu, 1) == CADRE_OK;
    cadre_status st = bench_sizes(comm, sizes, count, opts, bench);
    if (bound) sched_setaffinity(0, sizeof before, &before);
    return st;
}
