/* SPDX-License-Identifier: Apache-2.0
 *
 * 10^5 random operations with random delays over 1 to 8 ranks, and sums larger than the caches:
 * every result checked in bits.
 */
#include "base/clock.h"
#include "base/rng.h"
#include "comm/collectives.h"

enum { OPERATIONS = 100000, FLIGHTS = 7 };

static const cadre_dtype dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_I32, CADRE_I64};

static collective_case draw_case(int64_t n, int size) {
    cadre_philox x = cadre_philox_draw(17, (uint64_t)n, (uint64_t)size);
    int64_t most = x.v[0] % 50 == 0 ? 20000 : x.v[0] % 5 == 0 ? 1500 : 40;
    return (collective_case){(collective)(x.v[1] % COLLECTIVES),
                             dtypes[x.v[1] / 8 % 5],
                             (cadre_reduction)(x.v[1] / 64 % 3),
                             x.v[2] % most,
                             (int)(x.v[3] % (uint32_t)size),
                             x.v[3] / 16 % 2,
                             x.v[3] / 32 % 2,
                             n};
}

/* The same cases on every rank; when they start, how long a rank dawdles and when it waits is its
 * own. */
static cadre_status storm(test_rank *me) {
    flight flights[FLIGHTS];
    int in_flight = 0;
    int64_t operations = *(const int64_t *)me->arg;
    for (int64_t n = 0; n < operations; n++) {
        cadre_philox own = cadre_philox_draw(23, (uint64_t)n, (uint64_t)me->rank);
        if (own.v[0] % 500 == 0) cadre_sleep_ms(own.v[1] % 2);
        collective_case c = draw_case(n, me->size);
        CADRE_TRY(start(me, &c, &flights[in_flight++], false));
        while (in_flight == FLIGHTS || (in_flight > 0 && own.v[2] % 3 == 0)) {
            CADRE_TRY(finish(me, &flights[0]));
            memmove(flights, flights + 1, (size_t)--in_flight * sizeof *flights);
            own.v[2] /= 3;
        }
    }
    for (int i = 0; i < in_flight; i++) CADRE_TRY(finish(me, &flights[i]));
    return CADRE_OK;
}

static void random_operations(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 5, 8};
    for (int i = 0; i < CADRE_COUNT(sizes); i++) {
        test_result results[8];
        int64_t operations = OPERATIONS / CADRE_COUNT(sizes) / 2;
        on_threads(sizes[i], NULL, storm, &operations, NULL, 0, results);
        all_ok(results, sizes[i]);
        on_processes(sizes[i], NULL, storm, &operations, NULL, 0, results);
        all_ok(results, sizes[i]);
    }
}

static cadre_status large_sums(test_rank *me) {
    for (int how = 0; how < 4; how++) {
        collective_case c = {how == 3 ? REDUCE_SCATTER : ALL_REDUCE,
                             CADRE_F32,
                             CADRE_SUM,
                             9000001,
                             0,
                             how > 0,
                             how == 1,
                             7};
        flight f;
        CADRE_TRY(start(me, &c, &f, true));
        CADRE_TRY(finish(me, &f));
    }
    return CADRE_OK;
}

static void sums_larger_than_the_caches(void **state) {
    (void)state;
    test_result results[3];
    on_threads(3, NULL, large_sums, NULL, NULL, 0, results);
    all_ok(results, 3);
    on_processes(2, NULL, large_sums, NULL, NULL, 0, results);
    all_ok(results, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations),
        cmocka_unit_test(sums_larger_than_the_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
