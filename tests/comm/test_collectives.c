/* SPDX-License-Identifier: Apache-2.0
 *
 * Every collective, type, reduction and awkward size on awkward numbers of ranks, in bits, over
 * threads and processes.
 */
#include "comm/collectives.h"

static const cadre_dtype dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_I32, CADRE_I64};
/* Sanitizers are slow: they see the same paths with fewer elements and ranks. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
static const int64_t counts[] = {0, 1, 7, 1000, 4096};
static const int sizes[] = {1, 2, 3, 5};
#else
static const int64_t counts[] = {0, 1, 2, 3, 7, 8, 63, 1000, 2048, 4096, 33333};
static const int sizes[] = {1, 2, 3, 5, 8};
#endif

static cadre_status every_case(test_rank *me) {
    int64_t salt = 1;
    for (int k = 0; k < COLLECTIVES; k++)
        for (int d = 0; d < CADRE_COUNT(dtypes); d++)
            for (int n = 0; n < CADRE_COUNT(counts); n++)
                for (int how = 0; how < 4; how++) {
                    if (counts[n] > 4096 && how % 3) continue; /* keeps the test quick */
                    collective_case c = {(collective)k,
                                         dtypes[d],
                                         (cadre_reduction)(salt % 3),
                                         counts[n],
                                         (int)(salt % me->size),
                                         how & 1,
                                         how & 2,
                                         salt};
                    flight f;
                    salt++;
                    CADRE_TRY(start(me, &c, &f, salt % 2));
                    CADRE_TRY(finish(me, &f));
                }
    return CADRE_OK;
}

static cadre_status large_sum(test_rank *me) {
    for (int how = 0; how < 4; how++) {
        collective_case c = {ALL_REDUCE, CADRE_F32, CADRE_SUM, 1000003, 0, how & 1, how & 2, 99};
        flight f;
        CADRE_TRY(start(me, &c, &f, true));
        CADRE_TRY(finish(me, &f));
    }
    return CADRE_OK;
}

static void cases_over_threads(void **state) {
    (void)state;
    test_result results[8];
    int64_t live = cadre_live_bytes();
    for (int i = 0; i < CADRE_COUNT(sizes); i++) {
        on_threads(sizes[i], NULL, every_case, NULL, NULL, 0, results);
        all_ok(results, sizes[i]);
        assert_int_equal(cadre_live_bytes(), live);
    }
}

static void cases_over_processes(void **state) {
    (void)state;
    test_result results[8];
    for (int i = 0; i < CADRE_COUNT(sizes); i++) {
        on_processes(sizes[i], NULL, every_case, NULL, NULL, 0, results);
        all_ok(results, sizes[i]);
    }
}

static void a_million_elements(void **state) {
    (void)state;
    test_result results[8];
    on_threads(3, NULL, large_sum, NULL, NULL, 0, results);
    all_ok(results, 3);
    on_processes(2, NULL, large_sum, NULL, NULL, 0, results);
    all_ok(results, 2);
}

static void with_a_progress_thread(void **state) {
    (void)state;
    test_result results[8];
    cadre_comm_opts o = CADRE_COMM_OPTS;
    o.progress_thread = 1;
    on_threads(3, &o, every_case, NULL, NULL, 0, results);
    all_ok(results, 3);
}

/* Several in flight at once, waited on in another order. */
static cadre_status many_in_flight(test_rank *me) {
    enum { FLIGHTS = 100 };
    static _Thread_local flight flights[FLIGHTS];
    for (int i = 0; i < FLIGHTS; i++) {
        collective_case c = {(collective)(i % COLLECTIVES),
                             CADRE_F32,
                             CADRE_SUM,
                             i * 37 % 5000,
                             i % me->size,
                             i % 3 > 0,
                             i % 2,
                             i};
        CADRE_TRY(start(me, &c, &flights[i], false));
    }
    for (int i = 0; i < FLIGHTS; i++) CADRE_TRY(finish(me, &flights[i * 37 % FLIGHTS]));
    return CADRE_OK;
}

static void a_hundred_in_flight(void **state) {
    (void)state;
    test_result results[8];
    on_threads(3, NULL, many_in_flight, NULL, NULL, 0, results);
    all_ok(results, 3);
    on_processes(5, NULL, many_in_flight, NULL, NULL, 0, results);
    all_ok(results, 5);
}

/* A ring of messages, and split groups that reduce among themselves. */
static cadre_status messages_and_groups(test_rank *me) {
    int64_t right = (me->rank + 1) % me->size, left = (me->rank + me->size - 1) % me->size;
    for (int64_t n = 0; n < 40; n++) {
        int64_t count = n * n * 97, *out = calloc((size_t)count + 1, 8),
                *in = calloc((size_t)count + 1, 8);
        cadre_work *sending = NULL;
        for (int64_t i = 0; i < count; i++) out[i] = me->rank * 1000000 + n * 1000 + i;
        cadre_status st = cadre_send(me->comm, out, count, CADRE_I64, (int)right, "ring", &sending);
        if (!st) st = cadre_recv(me->comm, in, count, CADRE_I64, (int)left, "ring", NULL);
        if (!st) st = cadre_work_wait(&sending, cadre_in_ms(60000));
        for (int64_t i = 0; !st && i < count; i++)
            if (in[i] != left * 1000000 + n * 1000 + i)
                st = CADRE_FAIL(CADRE_EINTERNAL, "message %lld is wrong at %lld", (long long)n,
                                (long long)i);
        free(in);
        free(out);
        CADRE_TRY(st);
    }
    cadre_comm *group = NULL;
    CADRE_TRY(cadre_comm_split(me->comm, me->rank % 2, -me->rank,
                               &group)); /* backwards inside the group */
    int64_t mine = me->rank, sum = 0, want = 0;
    for (int r = me->rank % 2; r < me->size; r += 2) want += r;
    CADRE_TRY(cadre_all_reduce(group, &mine, &sum, 1, CADRE_I64, CADRE_SUM, "group", NULL));
    int64_t ranks[8];
    CADRE_TRY(cadre_all_gather(group, &mine, ranks, 1, CADRE_I64, "group", NULL));
    CADRE_CHECK(
        sum == want && ranks[0] > ranks[cadre_comm_size(group) - 1] - (cadre_comm_size(group) == 1),
        CADRE_EINTERNAL, "the group's sum is %lld, not %lld", (long long)sum, (long long)want);
    CADRE_TRY(cadre_barrier(me->comm, "before the groups close"));
    cadre_comm_close(&group);
    return CADRE_OK;
}

static void messages_and_split_groups(void **state) {
    (void)state;
    test_result results[8];
    on_threads(5, NULL, messages_and_groups, NULL, NULL, 0, results);
    all_ok(results, 5);
    on_processes(3, NULL, messages_and_groups, NULL, NULL, 0, results);
    all_ok(results, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_over_threads),  cmocka_unit_test(cases_over_processes),
        cmocka_unit_test(a_million_elements),  cmocka_unit_test(with_a_progress_thread),
        cmocka_unit_test(a_hundred_in_flight), cmocka_unit_test(messages_and_split_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
