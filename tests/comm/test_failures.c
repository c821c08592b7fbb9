/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong between ranks: different calls, late ranks, ended and leaving ranks, rings of
 * waits, failing allocations and messages. Each is an error on every rank within seconds that names
 * who and what.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "support/ranks.h"

/* All ranks fail with CADRE_EPEER, each sentence holding both parts, within `seconds`. */
static void all_fail(int size, const cadre_comm_opts *opts, test_body *body, const void *arg,
                     const char *part, const char *other, double seconds, bool processes) {
    test_result results[8] = {0};
    int64_t start = cadre_now_ns();
    (processes ? on_processes : on_threads)(size, opts, body, arg, NULL, 0, results);
    double took = (double)(cadre_now_ns() - start) * 1e-9;
    for (int i = 0; i < size; i++) {
        if (results[i].status != CADRE_EPEER || !strstr(results[i].text, part) ||
            !strstr(results[i].text, other))
            print_error("rank %d: %d '%s'; expected '%s' and '%s'\n", i, results[i].status,
                        results[i].text, part, other);
        assert_int_equal(results[i].status, CADRE_EPEER);
        assert_non_null(strstr(results[i].text, part));
        assert_non_null(strstr(results[i].text, other));
    }
    assert_true(took < seconds);
}

/* ---- different calls ---- */

static cadre_status differ(test_rank *me) {
    const int *what = me->arg;
    float x[8] = {0}, y[64];
    bool odd = me->rank == me->size - 1;
    CADRE_TRY(cadre_barrier(me->comm, "start"));
    switch (*what) {
    case 0:
        return odd ? cadre_barrier(me->comm, "other")
                   : cadre_all_reduce(me->comm, x, x, 8, CADRE_F32, CADRE_SUM, "sum", NULL);
    case 1:
        return cadre_all_reduce(me->comm, x, x, odd ? 7 : 8, CADRE_F32, CADRE_SUM, "sum", NULL);
    case 2:
        return cadre_all_reduce(me->comm, x, x, 2, odd ? CADRE_F64 : CADRE_F32, CADRE_SUM, "sum",
                                NULL);
    case 3:
        return cadre_all_reduce(me->comm, x, x, 8, CADRE_F32, odd ? CADRE_MAX : CADRE_SUM, "sum",
                                NULL);
    case 4:
        return cadre_broadcast(me->comm, x, 8, CADRE_F32, odd, "weights", NULL);
    case 5:
        return cadre_all_gather(me->comm, x, y, 8, CADRE_F32, odd ? "bucket 2" : "bucket 1", NULL);
    default:
        break;
    }
    if (me->rank > 1) return cadre_recv(me->comm, x, 8, CADRE_F32, 0, "never", NULL);
    return me->rank ? cadre_recv(me->comm, x, 7, CADRE_F32, 0, "message", NULL)
                    : cadre_send(me->comm, x, 8, CADRE_F32, 1, "message", NULL);
}

static void different_calls_name_both(void **state) {
    (void)state;
    static const char *const parts[][2] = {
        {"all_reduce 'sum' of 8 f32 (sum) on rank 0", "barrier 'other' on rank"},
        {"of 8 f32", "of 7 f32"},
        {"of 2 f32", "of 2 f64"},
        {"(sum)", "(max)"},
        {"from rank 0", "from rank 1"},
        {"'bucket 1'", "'bucket 2'"},
        {"send 'message' of 8 f32", "recv 'message' of 7 f32"}};
    for (int what = 0; what < CADRE_COUNT(parts); what++)
        for (int processes = 0; processes < 2; processes++)
            for (int size = what == 6 ? 2 : 3; size >= 2; size--)
                all_fail(size, NULL, differ, &what, parts[what][0], parts[what][1], 2, processes);
}

/* ---- late, ended, leaving ---- */

static cadre_status one_is_late(test_rank *me) {
    int64_t x = 0;
    if (me->rank == 1) { /* does not come, and says nothing */
        cadre_sleep_ms(1500);
        return CADRE_OK;
    }
    return cadre_all_reduce(me->comm, &x, &x, 1, CADRE_I64, CADRE_SUM, "totals", NULL);
}

static void a_late_rank_is_named(void **state) {
    (void)state;
    cadre_comm_opts o = CADRE_COMM_OPTS;
    o.timeout_ms = 400;
    test_result results[3] = {0};
    on_threads(3, &o, one_is_late, NULL, NULL, 0, results);
    assert_int_equal(results[1].status, CADRE_OK);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(results[i].status, CADRE_EPEER);
        assert_non_null(strstr(results[i].text, "all_reduce 'totals' of 1 i64"));
        assert_non_null(strstr(results[i].text, "since 0.4 s"));
    }
    /* Whoever of the two was first names the late one; the other may have been told by then. */
    assert_true(strstr(results[0].text, "waits for rank 1") ||
                strstr(results[2].text, "waits for rank 1"));
}

static cadre_status one_dies(test_rank *me) {
    float *x = NULL;
    CADRE_TRY(cadre_comm_alloc(me->comm, 1 << 16, (void **)&x));
    for (int i = 0; i < 1000; i++) {
        if (me->rank == 2 && i == 500) raise(SIGKILL);
        CADRE_TRY(
            cadre_all_reduce(me->comm, x, x, 1 << 14, CADRE_F32, CADRE_SUM, "gradients", NULL));
    }
    return CADRE_OK;
}

static void a_killed_rank_is_named(void **state) {
    (void)state;
    test_result results[4] = {0};
    int64_t start = cadre_now_ns();
    on_processes(4, NULL, one_dies, NULL, NULL, 0, results);
    assert_int_equal(results[2].signal, SIGKILL);
    for (int i = 0; i < 4; i++) {
        if (i == 2) continue;
        assert_int_equal(results[i].status, CADRE_EPEER);
        assert_non_null(strstr(results[i].text, "rank 2 (process "));
        assert_non_null(strstr(results[i].text, "gradients"));
    }
    assert_true(cadre_now_ns() - start < (int64_t)10 * 1000000000);
}

static cadre_status one_leaves(test_rank *me) {
    int64_t x = 0;
    CADRE_TRY(cadre_barrier(me->comm, "together"));
    if (me->rank == 0) return CADRE_OK;
    return cadre_all_reduce(me->comm, &x, &x, 1, CADRE_I64, CADRE_SUM, "after", NULL);
}

static void a_leaving_rank_is_named(void **state) {
    (void)state;
    for (int processes = 0; processes < 2; processes++) {
        test_result results[3] = {0};
        (processes ? on_processes : on_threads)(3, NULL, one_leaves, NULL, NULL, 0, results);
        assert_int_equal(results[0].status, CADRE_OK);
        for (int i = 1; i < 3; i++) {
            assert_int_equal(results[i].status, CADRE_EPEER);
            assert_non_null(strstr(results[i].text, "rank 0 has left"));
            assert_non_null(strstr(results[i].text, "all_reduce 'after'"));
        }
    }
}

static cadre_status one_aborts(test_rank *me) {
    int64_t x = 0;
    if (me->rank == 1) {
        cadre_status st = CADRE_FAIL(CADRE_EDATA, "train.txt: bad token 70000 at byte 12");
        cadre_error error;
        cadre_error_save(&error);
        cadre_comm_abort(me->comm, &error);
        cadre_sleep_ms(300);
        (void)st;
        return CADRE_FAIL(CADRE_EPEER, "rank 1 stopped: bad token 70000");
    }
    return cadre_all_reduce(me->comm, &x, &x, 1, CADRE_I64, CADRE_SUM, "step", NULL);
}

static void an_abort_reaches_all(void **state) {
    (void)state;
    for (int processes = 0; processes < 2; processes++)
        all_fail(3, NULL, one_aborts, NULL, "rank 1 stopped: ", "bad token 70000", 2, processes);
}

/* ---- rings of waits ---- */

static cadre_status ring_of_receives(test_rank *me) {
    float x;
    return cadre_recv(me->comm, &x, 1, CADRE_F32, (me->rank + 1) % me->size, "ring", NULL);
}

static cadre_status receive_against_collective(test_rank *me) {
    float x = 0;
    if (me->rank == 0) return cadre_recv(me->comm, &x, 1, CADRE_F32, 1, "activations", NULL);
    return cadre_all_reduce(me->comm, &x, &x, 1, CADRE_F32, CADRE_SUM, "norm", NULL);
}

static void rings_of_waits_are_found(void **state) {
    (void)state;
    all_fail(3, NULL, ring_of_receives, NULL, "rank", "recv 'ring'", 5, false);
    all_fail(2, NULL, receive_against_collective, NULL, "recv 'activations'", "all_reduce 'norm'",
             5, true);
}

/* ---- failing allocations and messages ---- */

static cadre_status some_traffic(test_rank *me) {
    float *x = NULL, own[3000];
    CADRE_TRY(cadre_comm_alloc(me->comm, sizeof own, (void **)&x));
    cadre_work *work = NULL;
    memset(own, 0, sizeof own);
    cadre_status st = cadre_all_reduce(me->comm, x, x, 3000, CADRE_F32, CADRE_SUM, "a", NULL);
    if (!st) st = cadre_all_reduce(me->comm, own, own, 3000, CADRE_F32, CADRE_SUM, "b", &work);
    if (!st) st = cadre_work_wait(&work, cadre_in_ms(2000));
    if (!st) st = cadre_barrier(me->comm, "c");
    cadre_comm_free(me->comm, x);
    return st;
}

static void every_kth_failure_ends_well(void **state) {
    (void)state;
    cadre_comm_opts o = CADRE_COMM_OPTS;
    o.timeout_ms = 2000;
    int64_t live = cadre_live_bytes();
    for (int k = 0;; k++) {
        cadre_comm *comms[3] = {NULL};
        cadre_fault_at(k); /* opening a world */
        cadre_status st = cadre_comm_open_threads(comms, 3, &o);
        bool hit = cadre_fault_hit();
        cadre_fault_at(-1);
        for (int i = 0; i < 3; i++) cadre_comm_close(&comms[i]);
        assert_int_equal(cadre_live_bytes(), live);
        if (!hit) {
            assert_int_equal(st, CADRE_OK);
            break;
        }
        assert_int_equal(st, CADRE_ERESOURCE);
    }
}

/* The k-th fault point of the traffic fails on whichever rank comes to it; that rank tells its
 * peers. */
static cadre_status traffic_with_a_fault(test_rank *me) {
    CADRE_TRY(cadre_barrier(me->comm, "start"));
    if (me->rank == 0) cadre_fault_at(*(const int *)me->arg);
    return some_traffic(me);
}

static void every_kth_fault_in_traffic_ends_well(void **state) {
    (void)state;
    cadre_comm_opts o = CADRE_COMM_OPTS;
    o.timeout_ms = 2000;
    int64_t live = cadre_live_bytes();
    for (int k = 0; k < 40; k++) {
        test_result results[3] = {0};
        on_threads(3, &o, traffic_with_a_fault, &k, NULL, 0, results);
        bool hit = cadre_fault_hit();
        cadre_fault_at(-1);
        assert_int_equal(cadre_live_bytes(), live);
        int failed = 0;
        for (int i = 0; i < 3; i++) failed += results[i].status < 0;
        assert_true(!hit || failed > 0);
        if (!hit) {
            assert_int_equal(failed, 0);
            assert_true(k > 8);
            return;
        }
    }
    fail_msg("the traffic has more than 40 fault points");
}

/* ---- several in flight ---- */

/* The first is done in the round in which the second is found to differ: its handle stays good. */
static cadre_status second_differs(test_rank *me) {
    float a[4] = {1, 1, 1, 1}, b[4] = {0};
    cadre_work *first = NULL, *second = NULL;
    bool odd = me->rank == me->size - 1;
    CADRE_TRY(cadre_all_reduce(me->comm, a, a, 4, CADRE_F32, CADRE_SUM, "first", &first));
    CADRE_TRY(
        cadre_all_reduce(me->comm, b, b, odd ? 3 : 4, CADRE_F32, CADRE_SUM, "second", &second));
    cadre_sleep_ms(20); /* until all have posted both */
    cadre_status st = cadre_work_wait(&second, cadre_in_ms(2000));
    (void)cadre_work_wait(&first, cadre_in_ms(2000));
    return st;
}

static void a_failure_leaves_what_was_done(void **state) {
    (void)state;
    int64_t live = cadre_live_bytes();
    for (int i = 0; i < 5; i++) {
        all_fail(3, NULL, second_differs, NULL, "'second' of 4 f32", "'second' of 3 f32", 2, false);
        assert_int_equal(cadre_live_bytes(), live);
    }
}

/* More messages than the pair's ring holds, with a large sum between them: they keep their order.
 */
static cadre_status messages_around_a_sum(test_rank *me) {
    enum { MESSAGES = 24, ELEMENTS = 1 << 20 };
    cadre_work *work[MESSAGES + 1] = {NULL};
    int64_t value[MESSAGES];
    float *x = NULL;
    CADRE_TRY(cadre_comm_alloc(me->comm, ELEMENTS * sizeof *x, (void **)&x));
    for (int i = 0; i < MESSAGES; i++) {
        value[i] = me->rank ? -1 : i;
        if (i == 9)
            CADRE_TRY(cadre_all_reduce(me->comm, x, x, ELEMENTS, CADRE_F32, CADRE_SUM, "large",
                                       &work[MESSAGES]));
        CADRE_TRY(me->rank ? cadre_recv(me->comm, &value[i], 1, CADRE_I64, 0, "m", &work[i])
                           : cadre_send(me->comm, &value[i], 1, CADRE_I64, 1, "m", &work[i]));
    }
    for (int i = 0; i <= MESSAGES; i++) CADRE_TRY(cadre_work_wait(&work[i], cadre_in_ms(20000)));
    cadre_comm_free(me->comm, x);
    for (int i = 0; i < MESSAGES; i++)
        CADRE_CHECK(value[i] == i, CADRE_EINTERNAL, "message %d brought %lld", i,
                    (long long)value[i]);
    return CADRE_OK;
}

static void messages_keep_their_order(void **state) {
    (void)state;
    test_result results[2];
    for (int i = 0; i < 20; i++) {
        on_threads(2, NULL, messages_around_a_sum, NULL, NULL, 0, results);
        all_ok(results, 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_leaves_what_was_done),
        cmocka_unit_test(messages_keep_their_order),
        cmocka_unit_test(different_calls_name_both),
        cmocka_unit_test(a_late_rank_is_named),
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(a_leaving_rank_is_named),
        cmocka_unit_test(an_abort_reaches_all),
        cmocka_unit_test(rings_of_waits_are_found),
        cmocka_unit_test(every_kth_failure_ends_well),
        cmocka_unit_test(every_kth_fault_in_traffic_ends_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
