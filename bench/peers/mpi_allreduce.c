/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI_Allreduce of f32 sums, timed as src/insight/bench_allreduce.c times Cadre: a sample is a
 * burst of operations of at least 0.1 ms, divided by their number; rank 0's samples count.
 *
 *   mpi_allreduce WHO SECONDS BYTES...
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES_MOST = 2000, SAMPLES_LEAST = 5 };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double burst_us(const float *in, float *out, int n, int burst) {
    double begin = MPI_Wtime();
    for (int i = 0; i < burst; i++) MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return (MPI_Wtime() - begin) * 1e6 / burst;
}

static void bench(const char *who, double seconds, long bytes, int rank) {
    static double us[SAMPLES_MOST];
    int n = (int)(bytes / 4), plan[2];
    float *in = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    float *out = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    if (!in || !out) MPI_Abort(MPI_COMM_WORLD, 6);
    for (int i = 0; i < n; i++) in[i] = (float)(rank + 1 + i % 8);
    burst_us(in, out, n, 2);
    double once = burst_us(in, out, n, 3), samples;
    plan[0] = once < 100 ? (int)(100 / (once + 1e-3)) + 1 : 1;
    samples = seconds * 1e6 / (once * plan[0] + 1e-3);
    plan[1] = samples > SAMPLES_MOST    ? SAMPLES_MOST
              : samples < SAMPLES_LEAST ? SAMPLES_LEAST
                                        : (int)samples;
    MPI_Bcast(plan, 2, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < plan[1]; i++) us[i] = burst_us(in, out, n, plan[0]);
    qsort(us, (size_t)plan[1], sizeof *us, by_value);
    if (rank == 0) {
        printf("row %s %ld %.3f %.3f %.3f %d\n", who, bytes, us[plan[1] / 2], us[0],
               us[plan[1] - 1], plan[0] * plan[1]);
        fflush(stdout);
    }
    free(in);
    free(out);
}

int main(int argc, char **argv) {
    int rank = 0;
    if (argc < 4) return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 3; i < argc; i++) bench(argv[1], atof(argv[2]), atol(argv[i]), rank);
    MPI_Finalize();
    return 0;
}
