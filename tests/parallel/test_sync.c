/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre_sync: means over all samples of all ranks, uneven and empty ranks, mistakes, faults.
 */
#include <cadre/parallel.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "support/ranks.h"

enum { ARRAYS = 5, MOST = 3000, STEPS = 3 };
static const int64_t sizes_of[ARRAYS] = {3000, 1, 0, 257, 1024};
static const cadre_dtype types_of[ARRAYS] = {CADRE_F32, CADRE_F64, CADRE_F32, CADRE_F64, CADRE_F32};

typedef enum mistake { NONE, NAME, SIZE, FEWER, MISSING, PLANTED, NO_SAMPLES } mistake;

typedef struct job {
    int64_t bucket_bytes;
    bool overlap, helper; /* helper: every second array is made ready by another thread */
    mistake mistake;      /* made by the last rank */
    bool faulty;          /* the fault-th fault point after all ranks have come fails */
    int64_t fault;
} job;

typedef struct record {
    double gradient[ARRAYS][MOST], value[ARRAYS][MOST];
} record;

static int64_t samples_of(int rank, int step) {
    return rank % 3 == 1 ? 0 : 2 + rank + step; /* some ranks have none */
}

/* This rank's sum: eighths, so that every sum over ranks is exact. */
static double gradient_of(int rank, int step, int a, int64_t i) {
    if (samples_of(rank, step) == 0) return 0;
    return (double)((i * 7 + a * 3 + rank * 5 + step) % 31 - 15) / 8;
}

static void put(cadre_dtype dtype, void *array, int64_t i, double x) {
    if (dtype == CADRE_F64)
        ((double *)array)[i] = x;
    else
        ((float *)array)[i] = (float)x;
}

static double get(cadre_dtype dtype, const void *array, int64_t i) {
    return dtype == CADRE_F64 ? ((const double *)array)[i] : ((const float *)array)[i];
}

typedef struct arrays {
    double value[ARRAYS][MOST], gradient[ARRAYS][MOST];
    int id[ARRAYS];
} arrays;

static cadre_status add_all(cadre_sync *s, const job *j, arrays *x, bool wrong) {
    for (int a = 0; a < ARRAYS; a++) {
        char name[16];
        bool last = wrong && a == ARRAYS - 1;
        if (last && j->mistake == FEWER) break;
        snprintf(name, sizeof name, last && j->mistake == NAME ? "other.%d" : "array.%d", a);
        int64_t n = sizes_of[a] - (last && j->mistake == SIZE);
        CADRE_TRY(cadre_sync_add(s, name, x->value[a], x->gradient[a], n, types_of[a], &x->id[a]));
    }
    return CADRE_OK;
}

typedef struct helper {
    cadre_sync *s;
    const arrays *x;
    int first;
    cadre_status status;
} helper;

static void *make_ready(void *arg) {
    helper *h = arg;
    for (int a = h->first; a < ARRAYS && !h->status; a += 2)
        h->status = cadre_sync_ready(h->s, h->x->id[a]);
    return NULL;
}

static cadre_status one_step(test_rank *me, cadre_sync *s, const job *j, arrays *x, int step,
                             bool wrong) {
    for (int a = 0; a < ARRAYS; a++)
        for (int64_t i = 0; i < sizes_of[a]; i++)
            put(types_of[a], x->gradient[a], i, gradient_of(me->rank, step, a, i));
    CADRE_TRY(cadre_sync_begin(s, j->mistake == NO_SAMPLES ? 0 : samples_of(me->rank, step)));
    if (j->helper) {
        helper even = {s, x, 0, CADRE_OK}, odd = {s, x, 1, CADRE_OK};
        pthread_t thread;
        if (pthread_create(&thread, NULL, make_ready, &odd) != 0)
            return CADRE_FAIL(CADRE_ERESOURCE, "no thread");
        (void)make_ready(&even);
        pthread_join(thread, NULL);
        CADRE_CHECK(!even.status && !odd.status, CADRE_EINTERNAL, "a helper failed");
    } else {
        for (int k = 0; k < ARRAYS; k++) {
            int a = (k * 2 + me->rank + step) % ARRAYS; /* an order of its own */
            if (wrong && j->mistake == MISSING && a == 3) continue;
            CADRE_TRY(cadre_sync_ready(s, x->id[a]));
        }
    }
    return cadre_sync_wait(s, cadre_in_ms(20000));
}

static cadre_status use(test_rank *me, cadre_sync *s, const job *j, arrays *x) {
    bool wrong = me->rank == me->size - 1;
    for (int a = 0; a < ARRAYS; a++)
        for (int64_t i = 0; i < sizes_of[a]; i++)
            put(types_of[a], x->value[a], i, (double)(a + i + 1000 * me->rank));
    CADRE_TRY(add_all(s, j, x, wrong));
    CADRE_TRY(cadre_sync_start(s));
    CADRE_TRY(cadre_sync_check(s));
    for (int step = 0; step < STEPS; step++) CADRE_TRY(one_step(me, s, j, x, step, wrong));
    if (wrong && j->mistake == PLANTED) put(types_of[3], x->value[3], 5, -1);
    return cadre_sync_check(s);
}

static cadre_status sync_body(test_rank *me) {
    const job *j = me->arg;
    cadre_sync_opts opts = CADRE_SYNC_OPTS;
    opts.bucket_bytes = j->bucket_bytes;
    opts.no_overlap = !j->overlap;
    cadre_sync *s = NULL;
    arrays *x = calloc(1, sizeof *x);
    cadre_status st = x ? CADRE_OK : CADRE_ERESOURCE;
    if (!st && j->faulty) {
        st = cadre_barrier(me->comm, "before the fault");
        if (me->rank == 0) cadre_fault_at(j->fault);
        if (!st) st = cadre_barrier(me->comm, "fault");
    }
    if (!st) st = cadre_sync_open(&s, me->comm, &opts);
    if (!st) st = use(me, s, j, x);
    for (int a = 0; a < ARRAYS && me->record && !st; a++)
        for (int64_t i = 0; i < sizes_of[a]; i++) {
            record *to = me->record;
            to->gradient[a][i] = get(types_of[a], x->gradient[a], i);
            to->value[a][i] = get(types_of[a], x->value[a], i);
        }
    cadre_sync_close(&s);
    free(x);
    return st;
}

static void check_means(const record *records, int size) {
    double total = 0;
    for (int r = 0; r < size; r++) total += (double)samples_of(r, STEPS - 1);
    for (int rank = 0; rank < size; rank++)
        for (int a = 0; a < ARRAYS; a++)
            for (int64_t i = 0; i < sizes_of[a]; i++) {
                double sum = 0;
                for (int r = 0; r < size; r++) sum += gradient_of(r, STEPS - 1, a, i);
                double want = types_of[a] == CADRE_F64 ? sum / total : (float)(sum / total);
                assert_true(records[rank].gradient[a][i] == want);
                assert_true(records[rank].value[a][i] == (double)(a + i));
            }
}

static void means_are_exact(void **unused) {
    (void)unused;
    static const int sizes[] = {1, 2, 3, 5};
    static const job jobs[] = {{0, true, false, NONE, false, 0},
                               {64, true, false, NONE, false, 0},
                               {4096, false, false, NONE, false, 0},
                               {64, true, true, NONE, false, 0}};
    record *records = calloc(5, sizeof *records);
    for (int s = 0; s < CADRE_COUNT(sizes); s++)
        for (int k = 0; k < CADRE_COUNT(jobs); k++) {
            test_result results[5];
            on_threads(sizes[s], NULL, sync_body, &jobs[k], records, sizeof *records, results);
            all_ok(results, sizes[s]);
            check_means(records, sizes[s]);
        }
    free(records);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void means_are_exact_over_processes(void **unused) {
    (void)unused;
    static const job j = {64, true, false, NONE, false, 0};
    record *records = calloc(3, sizeof *records);
    test_result results[3];
    on_processes(3, NULL, sync_body, &j, records, sizeof *records, results);
    all_ok(results, 3);
    check_means(records, 3);
    free(records);
}

static void mistakes_are_named(void **unused) {
    (void)unused;
    const struct {
        mistake mistake;
        cadre_status last, others;
        const char *last_said, *others_said;
    } cases[] = {
        {NAME, CADRE_EPEER, CADRE_EPEER, "array 4 differs on rank 2", "array 4 differs on rank 2"},
        {SIZE, CADRE_EPEER, CADRE_EPEER, "array 4 differs on rank 2", "1024 elements"},
        {FEWER, CADRE_EPEER, CADRE_EPEER, "rank 2 added another number", "rank 2 added another"},
        {MISSING, CADRE_EUSAGE, CADRE_EPEER, "array 'array.3' was never made ready", "array.3"},
        {PLANTED, CADRE_EINTERNAL, CADRE_EINTERNAL, "array 'array.3' on rank 2",
         "array 'array.3' on rank 2"},
        {NO_SAMPLES, CADRE_EUSAGE, CADRE_EUSAGE, "no rank had a sample", "no rank had a sample"},
    };
    for (int c = 0; c < CADRE_COUNT(cases); c++) {
        job j = {64, true, false, cases[c].mistake, false, 0};
        test_result results[3];
        on_threads(3, NULL, sync_body, &j, NULL, 0, results);
        for (int r = 0; r < 3; r++) {
            const char *said = r == 2 ? cases[c].last_said : cases[c].others_said;
            assert_int_equal(results[r].status, r == 2 ? cases[c].last : cases[c].others);
            if (!strstr(results[r].text, said)) print_error("%s\n", results[r].text);
            assert_non_null(strstr(results[r].text, said));
        }
    }
    assert_int_equal(cadre_live_bytes(), 0);
}

static cadre_status misuse_body(test_rank *me) {
    cadre_sync *s = NULL;
    float x[2] = {0}, g[2] = {0};
    int id = 7, wrong = 0;
    CADRE_TRY(cadre_sync_open(&s, me->comm, NULL));
    wrong += cadre_sync_begin(s, 1) != CADRE_EUSAGE;
    wrong += cadre_sync_wait(s, 0) != CADRE_EUSAGE;
    wrong += cadre_sync_add(s, "i", x, g, 2, CADRE_I32, &id) != CADRE_EUSAGE || id != 7;
    wrong += cadre_sync_add(s, "n", NULL, g, 2, CADRE_F32, &id) != CADRE_EUSAGE;
    wrong += cadre_sync_add(s, "w", x, g, 2, CADRE_F32, &id) != CADRE_OK || id != 0;
    wrong += cadre_sync_add(s, "w", x, g, 2, CADRE_F32, &id) != CADRE_EUSAGE;
    wrong += cadre_sync_start(s) != CADRE_OK;
    wrong += cadre_sync_start(s) != CADRE_EUSAGE;
    wrong += cadre_sync_add(s, "late", x, g, 2, CADRE_F32, &id) != CADRE_EUSAGE;
    wrong += cadre_sync_ready(s, 0) != CADRE_EUSAGE;
    wrong += cadre_sync_begin(s, 1) != CADRE_OK;
    wrong += cadre_sync_begin(s, 1) != CADRE_EUSAGE;
    wrong += cadre_sync_ready(s, 1) != CADRE_EUSAGE;
    wrong += cadre_sync_ready(s, 0) != CADRE_OK;
    wrong += cadre_sync_ready(s, 0) != CADRE_EUSAGE;
    wrong += cadre_sync_wait(s, cadre_in_ms(20000)) != CADRE_OK;
    cadre_sync_close(&s);
    *(int *)me->record = wrong;
    return CADRE_OK;
}

static void wrong_order_of_calls_is_refused(void **unused) {
    (void)unused;
    int wrong[2];
    test_result results[2];
    on_threads(2, NULL, misuse_body, NULL, wrong, sizeof *wrong, results);
    all_ok(results, 2);
    assert_int_equal(wrong[0], 0);
    assert_int_equal(wrong[1], 0);
}

static void faults_end(void **unused) {
    (void)unused;
    bool hit = true;
    int failures = 0;
    for (int64_t k = 0; hit; k += 4) {
        job j = {64, true, false, NONE, true, k};
        hit = ends_with_fault(sync_body, &j, &failures);
    }
    assert_true(failures > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_exact_over_processes),
        cmocka_unit_test(means_are_exact),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(wrong_order_of_calls_is_refused),
        cmocka_unit_test(faults_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
