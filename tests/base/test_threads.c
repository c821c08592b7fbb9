/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool, the deal of processors, trace rings, log lines, clocks. Run under the thread sanitizer
 * too.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/threads.h"
#include "base/trace.h"
#include "support/check.h"

enum { MOST = 3000 };

typedef struct job {
    int seen[MOST]; /* plain: the pool's own ordering has to publish it */
    atomic_int calls, bad;
    int64_t n, grain;
    int threads;
} job;

static void mark(void *arg, int64_t begin, int64_t end, int worker) {
    job *j = arg;
    if (begin >= end || begin % j->grain || (end != j->n && end % j->grain) || worker < 0 ||
        worker >= j->threads)
        atomic_fetch_add(&j->bad, 1);
    for (int64_t i = begin; i < end; i++) j->seen[i]++;
    atomic_fetch_add(&j->calls, 1);
}

static void each_item_is_done_once_for_any_cut(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 100, 1000, MOST},
                         grains[] = {1, 3, 64, 5000};
    for (int threads = 1; threads <= 5; threads++) {
        cadre_pool *p = NULL;
        OK(cadre_pool_open(&p, threads, NULL, NULL));
        assert_int_equal(cadre_pool_threads(p), threads);
        for (int s = 0; s < CADRE_COUNT(sizes); s++)
            for (int g = 0; g < CADRE_COUNT(grains); g++) {
                static job j;
                j = (job){.n = sizes[s], .grain = grains[g], .threads = threads};
                cadre_pool_for(p, j.n, j.grain, mark, &j);
                for (int i = 0; i < MOST; i++) assert_int_equal(j.seen[i], i < j.n);
                assert_int_equal(atomic_load(&j.bad), 0);
                assert_true(atomic_load(&j.calls) <= threads);
                if (j.n <= j.grain) assert_int_equal(atomic_load(&j.calls), j.n > 0);
            }
        cadre_pool_close(&p);
        assert_null(p);
    }
    assert_int_equal(cadre_live_bytes(), 0);
}

static void without_a_pool_the_caller_works(void **state) {
    (void)state;
    static job j;
    j = (job){.n = 100, .grain = 1, .threads = 1};
    cadre_pool_for(NULL, 100, 1, mark, &j);
    assert_int_equal(atomic_load(&j.calls), 1);
    assert_int_equal(j.seen[99], 1);
    assert_int_equal(cadre_pool_threads(NULL), 1);
    cadre_pool *p = NULL;
    cadre_pool_close(&p);
    FAILS(cadre_pool_open(&p, 0, NULL, NULL), CADRE_EUSAGE, "0 threads");
}

static atomic_int started;

static void start(int worker) {
    atomic_fetch_add(&started, 1 << (4 * worker));
}

static void all_workers_work_and_start_once(void **state) {
    (void)state;
    cadre_pool *p = NULL;
    static job j;
    atomic_store(&started, 0);
    OK(cadre_pool_open(&p, 4, NULL, start));
    j = (job){.n = 400, .grain = 1, .threads = 4};
    cadre_pool_for(p, 400, 1, mark, &j);
    assert_int_equal(atomic_load(&j.calls), 4);
    cadre_pool_close(&p);
    assert_int_equal(atomic_load(&started), 0x1111);
}

static void count_items(void *arg, int64_t begin, int64_t end, int worker) {
    int64_t *sums = arg; /* a line a worker */
    sums[8 * worker] += end - begin;
}

static void many_short_jobs(void **state) {
    (void)state;
    for (int threads = 2; threads <= 4; threads++) {
        _Alignas(64) int64_t sums[8 * 4] = {0};
        cadre_pool *p = NULL;
        OK(cadre_pool_open(&p, threads, NULL, NULL));
        int64_t total = 0;
        for (int i = 0; i < 3000; i++) {
            if (i % 500 == 0) cadre_sleep_ms(1); /* workers fall asleep */
            cadre_pool_for(p, 2 + i % 50, 1, count_items, sums);
        }
        for (int w = 0; w < threads; w++) total += sums[8 * w];
        int64_t want = 0;
        for (int i = 0; i < 3000; i++) want += 2 + i % 50;
        assert_int_equal(total, want);
        cadre_pool_close(&p);
    }
}

static void where_am_i(void *arg, int64_t begin, int64_t end, int worker) {
    (void)begin;
    (void)end;
    ((int *)arg)[worker] = sched_getcpu();
}

static void workers_are_pinned_and_the_caller_is_not(void **state) {
    (void)state;
    int cpus[2], at[2] = {-1, -1};
    if (cadre_cpus_share(0, 1, cpus, 2) < 2) skip(); /* one processor */
    cpu_set_t before, after;
    sched_getaffinity(0, sizeof before, &before);
    cadre_pool *p = NULL;
    OK(cadre_pool_open(&p, 2, cpus, NULL));
    cadre_pool_for(p, 2, 1, where_am_i, at);
    assert_int_equal(at[1], cpus[1]);
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after));
    cadre_pool_close(&p);
}

static void a_pool_that_cannot_open_leaves_nothing(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        cadre_pool *p = NULL;
        cadre_fault_at(k);
        FAILS(cadre_pool_open(&p, 3, NULL, NULL), CADRE_ERESOURCE, "memory");
        cadre_fault_at(-1);
        assert_null(p);
        assert_int_equal(cadre_live_bytes(), 0);
    }
}

/* ---- processors ---- */

static void deal(const cadre_cpu_place *places, int count, int limit, int ranks, const char *want) {
    char got[200] = "";
    for (int r = 0; r < ranks; r++) {
        int cpus[16], n = cadre_cpus_deal(places, count, limit, r, ranks, cpus, 16);
        for (int i = 0; i < n; i++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", i ? "," : "", cpus[i]);
        strcat(got, r + 1 < ranks ? " " : "");
    }
    assert_string_equal(got, want);
}

static void cores_are_dealt_before_their_threads(void **state) {
    (void)state;
    /* four cores of two threads; ids as Linux gives them */
    static const cadre_cpu_place four[] = {{0, 0}, {4, 0}, {1, 1}, {5, 1},
                                           {2, 2}, {6, 2}, {3, 3}, {7, 3}};
    deal(four, 8, 8, 1, "0,1,2,3,4,5,6,7");
    deal(four, 8, 8, 2, "0,1,4,5 2,3,6,7");
    deal(four, 8, 8, 3, "0,4 1,5 2,6");
    deal(four, 8, 8, 4, "0,4 1,5 2,6 3,7");
    deal(four, 8, 8, 8, "0 4 1 5 2 6 3 7");
    deal(four, 8, 8, 9, "        ");
    deal(four, 8, 4, 2, "0,1 2,3"); /* a quota of four processors */
    deal(four, 8, 4, 5, "    ");
    /* a mask that leaves one thread of the first core and both of the last */
    static const cadre_cpu_place some[] = {{4, 0}, {3, 3}, {7, 3}};
    deal(some, 3, 3, 1, "4,3,7");
    deal(some, 3, 3, 2, "4 3");
    deal(some, 3, 3, 3, "4 3 7");
    int one[1];
    assert_int_equal(cadre_cpus_deal(four, 8, 8, 0, 1, one, 1), 1);
    assert_int_equal(cadre_cpus_deal(four, 8, 8, 1, 1, one, 1), 0);
    assert_int_equal(cadre_cpus_deal(four, 0, 8, 0, 1, one, 1), 0);
}

static void the_machine_has_processors(void **state) {
    (void)state;
    int count = cadre_cpus_count(), all[1024];
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    assert_in_range(count, 1, CPU_COUNT(&set));
    int n = cadre_cpus_share(0, 1, all, 1024);
    assert_int_equal(n, count);
    for (int i = 0; i < n; i++) {
        assert_true(CPU_ISSET(all[i], &set));
        for (int k = 0; k < i; k++) assert_int_not_equal(all[i], all[k]);
    }
    assert_int_equal(cadre_cpus_share(0, n + 1, all, 1024), 0);
    int far = CPU_SETSIZE - 1;
    FAILS(cadre_cpus_bind_self(&far, 1), CADRE_ERESOURCE, "processor 1023");
    char name[4] = "zzz";
    cadre_cpus_model(name, sizeof name);
    assert_true(strlen(name) < sizeof name);
}

/* ---- traces, logs, clocks ---- */

static void finished_spans_are_kept_newest(void **state) {
    (void)state;
    cadre_trace *t = NULL;
    OK(cadre_trace_open(&t, 4));
    cadre_trace_leave(cadre_trace_enter(CADRE_TRACE_COMM, "nobody listens"), 1);
    cadre_trace_attach(t);
    assert_ptr_equal(cadre_trace_attached(), t);
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    for (int i = 0; i < 6; i++)
        cadre_trace_leave(cadre_trace_enter(CADRE_TRACE_COMM, names[i]), 10 * i);
    int64_t dropped = -1;
    assert_int_equal(cadre_trace_count(t, &dropped), 4);
    assert_int_equal(dropped, 2);
    int64_t end = 0;
    for (int i = 0; i < 4; i++) {
        cadre_trace_event e;
        cadre_trace_event_at(t, i, &e);
        assert_string_equal(e.name, names[i + 2]);
        assert_int_equal(e.bytes, 10 * (i + 2));
        assert_int_equal(e.row, CADRE_TRACE_COMM);
        assert_true(e.begin_ns > 0 && e.begin_ns <= e.end_ns && e.end_ns >= end);
        end = e.end_ns;
    }
    cadre_trace_clear(t);
    assert_int_equal(cadre_trace_count(t, NULL), 0);
    cadre_trace_span outer = cadre_trace_enter(CADRE_TRACE_DATA, "a name that is far longer than "
                                                                 "what an event has room for here");
    cadre_trace_leave(outer, 0);
    cadre_trace_event e;
    cadre_trace_event_at(t, 0, &e);
    assert_int_equal(strlen(e.name), sizeof e.name - 1);
    cadre_trace_attach(NULL);
    cadre_trace_leave(outer, 0); /* detached meanwhile: nothing */
    assert_int_equal(cadre_trace_count(t, NULL), 1);
    cadre_trace_close(&t);
    assert_null(t);
    FAILS(cadre_trace_open(&t, 0), CADRE_EUSAGE, "0 events");
}

static void *emits(void *arg) {
    cadre_trace_attach(arg);
    for (int i = 0; i < 500; i++)
        cadre_trace_leave(cadre_trace_enter(CADRE_TRACE_COMPUTE, "span"), i);
    cadre_trace_attach(NULL);
    return NULL;
}

static void several_threads_share_a_trace(void **state) {
    (void)state;
    cadre_trace *t = NULL;
    pthread_t threads[3];
    OK(cadre_trace_open(&t, 1000));
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, emits, t);
    for (int i = 0; i < 50; i++) assert_in_range(cadre_trace_count(t, NULL), 0, 1000);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    int64_t dropped = 0;
    assert_int_equal(cadre_trace_count(t, &dropped), 1000);
    assert_int_equal(dropped, 500);
    cadre_trace_close(&t);
}

typedef struct heard {
    int lines;
    cadre_log_level level;
    char last[64];
} heard;

static void hear(void *self, cadre_log_level level, const char *line) {
    heard *h = self;
    h->lines++;
    h->level = level;
    snprintf(h->last, sizeof h->last, "%s", line);
}

static void *logs(void *arg) {
    for (int i = 0; i < 200; i++) cadre_log(CADRE_LOG_DEBUG, "%s", (const char *)arg);
    return NULL;
}

static void log_lines_go_to_the_sink(void **state) {
    (void)state;
    heard h = {0};
    pthread_t threads[2];
    cadre_log(CADRE_LOG_ERROR, "nowhere");
    cadre_log_to(hear, &h);
    cadre_log(CADRE_LOG_WARN, "rank %d", 3);
    assert_int_equal(h.lines, 1);
    assert_int_equal(h.level, CADRE_LOG_WARN);
    assert_string_equal(h.last, "rank 3");
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, logs, "other");
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    cadre_log_to(NULL, NULL);
    cadre_log(CADRE_LOG_ERROR, "nowhere");
    assert_int_equal(h.lines, 401);
    assert_string_equal(h.last, "other");
}

static void clocks_go_on(void **state) {
    (void)state;
    int64_t before = cadre_now_ns();
    cadre_deadline soon = cadre_in_ms(5), later = cadre_in_ms(60000);
    assert_false(cadre_past(soon));
    cadre_sleep_ms(6);
    assert_true(cadre_past(soon));
    assert_false(cadre_past(later));
    assert_true(cadre_now_ns() - before >= 6000000);
    assert_true(cadre_unix_time() > 1.7e9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_item_is_done_once_for_any_cut),
        cmocka_unit_test(without_a_pool_the_caller_works),
        cmocka_unit_test(all_workers_work_and_start_once),
        cmocka_unit_test(many_short_jobs),
        cmocka_unit_test(workers_are_pinned_and_the_caller_is_not),
        cmocka_unit_test(a_pool_that_cannot_open_leaves_nothing),
        cmocka_unit_test(cores_are_dealt_before_their_threads),
        cmocka_unit_test(the_machine_has_processors),
        cmocka_unit_test(finished_spans_are_kept_newest),
        cmocka_unit_test(several_threads_share_a_trace),
        cmocka_unit_test(log_lines_go_to_the_sink),
        cmocka_unit_test(clocks_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
