/* SPDX-License-Identifier: Apache-2.0
 *
 * What a communicator tells about itself: counters, the flight recorder, whose memory it is,
 * whether the launcher still lives; and that a rank may leave as soon as its own part is over.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/ranks.h"

static cadre_status count_operations(test_rank *me) {
    float own[1000] = {0};
    float *heap = NULL;
    CADRE_TRY(cadre_comm_alloc(me->comm, sizeof own, (void **)&heap));
    for (int i = 0; i < 3; i++)
        CADRE_TRY(
            cadre_all_reduce(me->comm, heap, heap, 1000, CADRE_F32, CADRE_SUM, "bucket 7", NULL));
    CADRE_TRY(cadre_broadcast(me->comm, own, 10, CADRE_F64, 0, "settings", NULL));
    cadre_comm_stats stats;
    cadre_comm_statistics(me->comm, &stats);
    CADRE_CHECK(stats.operations == 4 && stats.bytes == 3 * 4000 + 80, CADRE_EINTERNAL,
                "%lld operations of %lld bytes", (long long)stats.operations,
                (long long)stats.bytes);
    CADRE_CHECK(stats.busy_ns > 0 && stats.wait_ns >= 0, CADRE_EINTERNAL, "busy %lld wait %lld",
                (long long)stats.busy_ns, (long long)stats.wait_ns);
    CADRE_CHECK(cadre_comm_owns(me->comm, heap) && cadre_comm_owns(me->comm, heap + 999) &&
                    !cadre_comm_owns(me->comm, own),
                CADRE_EINTERNAL, "the heap does not know its memory");
    CADRE_CHECK((uintptr_t)heap % 64 == 0, CADRE_EINTERNAL, "not aligned");
    cadre_comm_free(me->comm, heap);
    return CADRE_OK;
}

static void operations_are_counted(void **state) {
    (void)state;
    test_result results[3] = {0};
    on_threads(3, NULL, count_operations, NULL, NULL, 0, results);
    all_ok(results, 3);
    on_processes(2, NULL, count_operations, NULL, NULL, 0, results);
    all_ok(results, 2);
}

static void the_recorder_keeps_the_last(void **state) {
    (void)state;
    cadre_comm *c = NULL;
    OK(cadre_comm_open_threads(&c, 1, NULL));
    int64_t x = 1, y = 0;
    char name[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "step %d", i);
        OK(cadre_all_reduce(c, &x, &y, 1, CADRE_I64, CADRE_SUM, name, NULL));
    }
    cadre_text text = {0};
    cadre_comm_recorder(c, 2, &text);
    assert_non_null(strstr(text.at, "4999: all_reduce 'step 4998' of 1 i64 (sum)"));
    assert_non_null(strstr(text.at, "5000: all_reduce 'step 4999' of 1 i64 (sum)"));
    assert_null(strstr(text.at, "step 4997"));
    assert_null(strstr(text.at, "in flight"));
    cadre_text_free(&text);
    assert_int_equal(cadre_comm_size(c), 1);
    assert_string_equal(cadre_comm_transport(c), "self");
    cadre_comm_close(&c);
    assert_null(c);
}

/* Freed memory is used again: a loop that allocates and frees does not use up the heap. */
static void freed_memory_comes_back(void **state) {
    (void)state;
    cadre_comm *c = NULL;
    OK(cadre_comm_open_threads(&c, 1, NULL));
    void *first = NULL, *p[50] = {NULL};
    OK(cadre_comm_alloc(c, 5000, &first));
    void *where = first;
    cadre_comm_free(c, first);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 50; i++) {
            OK(cadre_comm_alloc(c, (size_t)(i * 7919 % 30000), &p[i]));
            memset(p[i], 0xFF, (size_t)(i * 7919 % 30000));
        }
        for (int i = 0; i < 50; i++) cadre_comm_free(c, p[i * 7 % 50]);
    }
    OK(cadre_comm_alloc(c, 5000, &first));
    assert_ptr_equal(first, where);
    for (int i = 0; i < 5000; i++) assert_int_equal(((char *)first)[i], 0);
    cadre_comm_free(c, first);
    FAILS(cadre_comm_alloc(c, (size_t)1 << 50, &first), CADRE_ERESOURCE, "heap");
    cadre_comm_close(&c);
}

/* The last message, then away at once: what was sent arrives, and nobody is called missing. */
static cadre_status speak_and_leave(test_rank *me) {
    int64_t x = me->rank;
    if (me->rank == 0) return cadre_send(me->comm, &x, 1, CADRE_I64, 1, "last", NULL);
    return cadre_recv(me->comm, &x, 1, CADRE_I64, 0, "last", NULL);
}

static cadre_status sum_and_leave(test_rank *me) {
    int64_t x = me->rank;
    return cadre_all_reduce(me->comm, &x, &x, 1, CADRE_I64, CADRE_SUM, "last", NULL);
}

static void a_rank_may_leave_after_its_part(void **state) {
    (void)state;
    test_result results[4] = {0};
    for (int i = 0; i < 100; i++) {
        on_threads(2, NULL, speak_and_leave, NULL, NULL, 0, results);
        all_ok(results, 2);
        on_threads(4, NULL, sum_and_leave, NULL, NULL, 0, results);
        all_ok(results, 4);
    }
}

static cadre_status use_again(test_rank *me) {
    for (size_t bytes = 64; bytes <= 4 << 20; bytes *= 8)
        for (int round = 0; round < 3; round++) {
            unsigned char *x = NULL;
            CADRE_TRY(cadre_comm_alloc(me->comm, bytes, (void **)&x));
            for (size_t i = 0; i < bytes; i++)
                CADRE_CHECK(x[i] == 0, CADRE_EINTERNAL, "byte %zu of %zu is not zero", i, bytes);
            memset(x, 0xff, bytes);
            cadre_comm_free(me->comm, x);
        }
    return CADRE_OK;
}

static void memory_that_travels_starts_at_zero(void **state) {
    (void)state;
    test_result results[2] = {0};
    on_threads(2, NULL, use_again, NULL, NULL, 0, results);
    all_ok(results, 2);
    on_processes(2, NULL, use_again, NULL, NULL, 0, results);
    all_ok(results, 2);
}

static cadre_status outlive_the_launcher(test_rank *me) {
    int64_t x = 0;
    if (me->rank == 0) /* in its own work: it has to ask */
        for (int i = 0; i < 500 && !cadre_comm_supervisor_gone(me->comm); i++) cadre_sleep_ms(10);
    CADRE_CHECK(me->rank || cadre_comm_supervisor_gone(me->comm), CADRE_EINTERNAL, "not seen");
    if (me->rank == 0) cadre_sleep_ms(300); /* the others notice while they wait */
    return cadre_all_reduce(me->comm, &x, &x, 1, CADRE_I64, CADRE_SUM, me->rank ? "a" : "b", NULL);
}

static void ranks_notice_that_the_launcher_is_gone(void **state) {
    (void)state;
    int ends[2];
    char number[16];
    assert_int_equal(pipe(ends), 0);
    pid_t launcher = fork();
    if (launcher == 0) {
        close(ends[0]);
        cadre_sleep_ms(400);
        _exit(0);
    }
    close(ends[1]);
    snprintf(number, sizeof number, "%d", ends[0]);
    setenv("CADRE_PARENT_FD", number, 1);
    test_result results[3] = {0};
    int64_t start = cadre_now_ns();
    on_processes(3, NULL, outlive_the_launcher, NULL, NULL, 0, results);
    unsetenv("CADRE_PARENT_FD");
    close(ends[0]);
    waitpid(launcher, NULL, 0);
    for (int i = 1; i < 3; i++) {
        if (results[i].status != CADRE_EPEER) print_error("rank %d: %s\n", i, results[i].text);
        assert_int_equal(results[i].status, CADRE_EPEER);
        assert_non_null(strstr(results[i].text, "the supervisor is gone"));
    }
    assert_int_equal(results[0].status, CADRE_EPEER);
    assert_true(cadre_now_ns() - start < (int64_t)5 * 1000000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_are_counted),
        cmocka_unit_test(the_recorder_keeps_the_last),
        cmocka_unit_test(freed_memory_comes_back),
        cmocka_unit_test(a_rank_may_leave_after_its_part),
        cmocka_unit_test(memory_that_travels_starts_at_zero),
        cmocka_unit_test(ranks_notice_that_the_launcher_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
