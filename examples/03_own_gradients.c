/* SPDX-License-Identifier: Apache-2.0
 *
 * Tier 3: a program that has its own arrays, its own gradients and its own update, and wants the
 * gradients of all ranks averaged over all samples. Here: a straight line through points, by
 * gradient descent. The ranks hold different numbers of points; the last of several holds none and
 * takes part all the same.
 *
 *   cc 03_own_gradients.c -o own_gradients $(pkg-config --cflags --libs cadre) -lm
 *   cadre run --ranks 3 -- ./own_gradients
 */
#include <cadre/cadre.h>
#include <math.h>

enum { POINTS = 60, STEPS = 500 };

/* y = 3 x - 2 at x in [-1, 1): point i of all. */
static double point(int64_t i) {
    return 2.0 * (double)i / POINTS - 1.0;
}

/* Rank r of n holds points [first, end); shares are uneven on purpose, and the last rank of several
 * is empty. */
static void my_points(int rank, int size, int64_t *first, int64_t *end) {
    int64_t shares = size > 1 ? size - 1 : 1, all = shares * (shares + 1) / 2;
    *first = rank < shares ? POINTS * ((int64_t)rank * (rank + 1) / 2) / all : POINTS;
    *end = rank < shares ? POINTS * ((int64_t)(rank + 1) * (rank + 2) / 2) / all : POINTS;
}

int main(void) {
    double weights[1] = {0}, bias[1] = {0}, weights_grad[1], bias_grad[1];
    int w = 0, b = 0;
    int64_t first = 0, end = 0;
    cadre_comm *world = NULL;
    cadre_sync *s = NULL;

    cadre_status st = cadre_comm_open(&world, NULL);
    if (!st) st = cadre_sync_open(&s, world, NULL);
    if (!st)
        st = cadre_sync_add(s, "w", weights, weights_grad, 1, CADRE_F64,
                            &w); /* same order on all ranks, checked */
    if (!st) st = cadre_sync_add(s, "b", bias, bias_grad, 1, CADRE_F64, &b);
    if (!st) st = cadre_sync_start(s); /* rank 0's values everywhere */
    if (!st) my_points(cadre_comm_rank(world), cadre_comm_size(world), &first, &end);

    for (int i = 0; !st && i < STEPS; i++) {
        weights_grad[0] = bias_grad[0] = 0; /* gradients are sums over my samples */
        for (int64_t k = first; k < end; k++) {
            double x = point(k), error = weights[0] * x + bias[0] - (3.0 * x - 2.0);
            weights_grad[0] += 2 * error * x;
            bias_grad[0] += 2 * error;
        }
        st = cadre_sync_begin(s, end - first);
        if (!st) st = cadre_sync_ready(s, w); /* final: may travel now */
        if (!st) st = cadre_sync_ready(s, b);
        if (!st)
            st = cadre_sync_wait(
                s, cadre_in_ms(30000)); /* now means over all 60 points, the same bits everywhere */
        weights[0] -= 0.1 * weights_grad[0];
        bias[0] -= 0.1 * bias_grad[0];
    }
    if (!st) st = cadre_sync_check(s); /* the replicas are still equal, bit for bit */
    if (!st && cadre_comm_rank(world) == 0) printf("y = %.6f x + %.6f\n", weights[0], bias[0]);
    if (st) cadre_error_print(stderr);
    int right = st || (fabs(weights[0] - 3) < 1e-6 && fabs(bias[0] + 2) < 1e-6);
    cadre_sync_close(&s);
    cadre_comm_close(&world);
    return right ? cadre_exit_code(st) : 1;
}
