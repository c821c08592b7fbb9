/* SPDX-License-Identifier: Apache-2.0
 *
 * The global norm: chunks, the tree, shares of ranks, and the search for values that are not
 * finite.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "optim/golden.h"
#include "parallel/clip.h"
#include "parallel/parallel.h"
#include "support/ranks.h"

/* T by its definition. */
static double tree(const double *x, int64_t a, int64_t b) {
    if (b - a <= 0) return 0;
    if (b - a == 1) return x[a];
    int64_t half = 1;
    while (half * 2 < b - a) half *= 2;
    return tree(x, a, a + half) + tree(x, a + half, b);
}

static double number(int64_t i) {
    cadre_philox w = cadre_philox_draw(3, (uint64_t)i, 0);
    return (cadre_uniform_f32(w.v[0]) - 0.5) * exp2((double)(w.v[1] % 20) - 10);
}

static void tree_sum_is_t(void **unused) {
    (void)unused;
    double x[300];
    for (int i = 0; i < 300; i++) x[i] = number(i);
    for (int n = 0; n <= 300; n++) assert_true(cadre_tree_sum(x, n) == tree(x, 0, n));
}

enum { CHUNKS = 37, N = CHUNKS * CADRE_CHUNK };

static void chunk_squares(void **unused) {
    (void)unused;
    float *narrow = malloc(N * sizeof *narrow);
    double *wide = malloc(N * sizeof *wide), got[CHUNKS], other[CHUNKS];
    for (int64_t i = 0; i < N; i++) wide[i] = narrow[i] = (float)number(i);
    cadre_chunk_squares(narrow, CADRE_F32, 0, CHUNKS, got, NULL);
    for (int c = 0; c < CHUNKS; c++) {
        long double direct = 0;
        for (int i = 0; i < CADRE_CHUNK; i++)
            direct += (long double)wide[c * CADRE_CHUNK + i] * wide[c * CADRE_CHUNK + i];
        assert_true(fabsl(got[c] - direct) <= 1e-14L * direct);
    }
    /* f64 arrays of the same numbers, parts of the range, more threads: the same bits. */
    cadre_pool *pool = NULL;
    OK(cadre_pool_open(&pool, 3, NULL, NULL));
    cadre_chunk_squares(wide, CADRE_F64, 0, CHUNKS, other, pool);
    assert_memory_equal(got, other, sizeof got);
    cadre_chunk_squares(narrow, CADRE_F32, 5, 9, other, pool);
    assert_memory_equal(got + 5, other, 9 * sizeof *got);
    cadre_pool_close(&pool);
    free(narrow);
    free(wide);
}

static cadre_status norm_body(test_rank *me) {
    int64_t chunks = *(const int64_t *)me->arg;
    float *x = calloc((size_t)chunks * CADRE_CHUNK + 1, sizeof *x);
    for (int64_t i = 0; i < chunks * CADRE_CHUNK; i++) x[i] = (float)number(i);
    cadre_norm n = {0};
    cadre_status st = cadre_norm_open(&n, me->comm, chunks * CADRE_CHUNK);
    /* Twice: nothing is left from the first time. */
    for (int k = 0; k < 2 && !st; k++) st = cadre_norm_squared(&n, x, CADRE_F32, NULL, me->record);
    cadre_norm_close(&n);
    free(x);
    return st;
}

static void every_layout_has_the_same_norm(void **unused) {
    (void)unused;
    static const int64_t lengths[] = {0, 1, 2, 7, 8, 37};
    static const int sizes[] = {1, 2, 3, 5, 8};
    for (int l = 0; l < CADRE_COUNT(lengths); l++) {
        double want = 0;
        for (int s = 0; s < CADRE_COUNT(sizes); s++) {
            double got[8];
            test_result results[8];
            on_threads(sizes[s], NULL, norm_body, &lengths[l], got, sizeof *got, results);
            all_ok(results, sizes[s]);
            if (s == 0) want = got[0];
            assert_true((want > 0) == (lengths[l] > 0));
            for (int r = 0; r < sizes[s]; r++) assert_memory_equal(&got[r], &want, sizeof want);
        }
    }
}

static void finds_what_is_not_finite(void **unused) {
    (void)unused;
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    static const float good[] = {0, -0.0f, 1e-45f, 3.4028234e38f, -3.4028234e38f};
    float narrow[131];
    double wide[131];
    for (int at = 0; at < 131; at += 13) {
        for (int b = 0; b < CADRE_COUNT(bad); b++) {
            for (int i = 0; i < 131; i++) wide[i] = narrow[i] = good[i % CADRE_COUNT(good)];
            wide[7] = 1.7e308;
            assert_false(cadre_any_nonfinite(narrow, CADRE_F32, 0, 131));
            assert_false(cadre_any_nonfinite(wide, CADRE_F64, 0, 131));
            wide[at] = narrow[at] = bad[b];
            assert_true(cadre_any_nonfinite(narrow, CADRE_F32, 0, 131));
            assert_true(cadre_any_nonfinite(wide, CADRE_F64, 0, 131));
            assert_true(cadre_any_nonfinite(narrow, CADRE_F32, at, 1));
            assert_false(cadre_any_nonfinite(narrow, CADRE_F32, at + 1, 130 - at));
            assert_false(cadre_any_nonfinite(wide, CADRE_F64, 0, at));
        }
    }
}

static void the_factor_is_pytorchs(void **unused) {
    (void)unused;
    float gradient[CADRE_CHUNK] = {0};
    double square = 0;
    for (int i = 0; i < GOLDEN_N; i++) gradient[i] = (float)((i * 7 + 13) % 17 - 8) / 8;
    cadre_chunk_squares(gradient, CADRE_F32, 0, 1, &square, NULL);
    assert_true(fabs(sqrt(square) - golden_norm) <= 1e-15 * golden_norm);
    assert_true(fabs(cadre_clip_factor(golden_norm, 1) - golden_clip) <= 1e-15);
    assert_true(cadre_clip_factor(golden_norm, 3) == 1 && cadre_clip_factor(golden_norm, 0) == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_sum_is_t),
        cmocka_unit_test(chunk_squares),
        cmocka_unit_test(every_layout_has_the_same_norm),
        cmocka_unit_test(the_factor_is_pytorchs),
        cmocka_unit_test(finds_what_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
