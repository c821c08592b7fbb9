/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted memory, arenas, and making the k-th allocation fail.
 */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fault.h"
#include "support/check.h"

static bool all_zero(const unsigned char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i]) return false;
    return true;
}

static void blocks_are_zero_aligned_and_counted(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 7, 63, 64, 65, 1000, 1 << 20};
    int64_t before = cadre_mem_live(CADRE_MEM_LOADER);
    for (int i = 0; i < CADRE_COUNT(sizes); i++) {
        unsigned char *p = NULL;
        OK(cadre_alloc(&p, CADRE_MEM_LOADER, sizes[i]));
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_true(all_zero(p, sizes[i]));
        assert_int_equal(cadre_mem_live(CADRE_MEM_LOADER) - before, (int64_t)sizes[i]);
        memset(p, 0xff, sizes[i]);
        cadre_free(&p);
        assert_null(p);
        assert_int_equal(cadre_mem_live(CADRE_MEM_LOADER), before);
    }
    void *nothing = NULL;
    cadre_free(&nothing);
}

static void empty_blocks_are_distinct(void **state) {
    (void)state;
    char *a = NULL, *b = NULL;
    OK(cadre_alloc(&a, CADRE_MEM_OTHER, 0));
    OK(cadre_alloc_array(&b, CADRE_MEM_OTHER, 0, 8));
    assert_non_null(a);
    assert_ptr_not_equal(a, b);
    cadre_free(&a);
    cadre_free(&b);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    char *p = NULL;
    FAILS(cadre_alloc_array(&p, CADRE_MEM_GRADIENTS, INT64_MAX, 16), CADRE_ERESOURCE, "gradients");
    FAILS(cadre_alloc_array(&p, CADRE_MEM_GRADIENTS, -1, 16), CADRE_ERESOURCE, "-1");
    FAILS(cadre_alloc(&p, CADRE_MEM_BUCKETS, SIZE_MAX - 3), CADRE_ERESOURCE, "buckets");
    assert_null(p);
    assert_int_equal(cadre_live_bytes(), 0);
}

/* A block of megabytes comes another way than a small one, and keeps the same promises. */
static void a_large_block_is_like_a_small_one(void **state) {
    (void)state;
    enum { SMALL = 1000, LARGE = 9 << 20, LARGER = 33 << 20 };
    unsigned char *p = NULL;
    for (int i = 0; i < 2; i++) { /* the second time where the first one lay */
        OK(cadre_alloc(&p, CADRE_MEM_OPTIMIZER, LARGE));
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_true(all_zero(p, LARGE));
        assert_int_equal(cadre_mem_live(CADRE_MEM_OPTIMIZER), LARGE);
        memset(p, 7, LARGE);
        if (i == 0) cadre_free(&p);
    }
    OK(cadre_realloc(&p, CADRE_MEM_OPTIMIZER, LARGER));
    assert_int_equal(p[LARGE - 1], 7);
    assert_true(all_zero(p + LARGE, LARGER - LARGE));
    OK(cadre_realloc(&p, CADRE_MEM_OPTIMIZER, SMALL));
    assert_int_equal(p[SMALL - 1], 7);
    cadre_free(&p);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void a_grown_block_keeps_its_bytes(void **state) {
    (void)state;
    unsigned char *p = NULL;
    OK(cadre_realloc(&p, CADRE_MEM_OTHER, 100));
    for (int i = 0; i < 100; i++) p[i] = (unsigned char)i;
    OK(cadre_realloc(&p, CADRE_MEM_OTHER, 5000));
    for (int i = 0; i < 100; i++) assert_int_equal(p[i], i);
    assert_true(all_zero(p + 100, 4900));
    OK(cadre_realloc(&p, CADRE_MEM_OTHER, 10));
    for (int i = 0; i < 10; i++) assert_int_equal(p[i], i);
    assert_int_equal(cadre_live_bytes(), 10);
    cadre_fault_at(0);
    unsigned char *same = p;
    FAILS(cadre_realloc(&p, CADRE_MEM_OTHER, 20), CADRE_ERESOURCE, "20 bytes");
    cadre_fault_at(-1);
    assert_ptr_equal(p, same);
    assert_int_equal(p[9], 9);
    cadre_free(&p);
}

static void peaks_stay_until_reset(void **state) {
    (void)state;
    char *p = NULL;
    cadre_mem_reset_peaks();
    OK(cadre_alloc(&p, CADRE_MEM_OPTIMIZER, 1000));
    cadre_mem_note(CADRE_MEM_OPTIMIZER, 500);
    cadre_mem_note(CADRE_MEM_OPTIMIZER, -500);
    assert_int_equal(cadre_mem_live(CADRE_MEM_OPTIMIZER), 1000);
    assert_int_equal(cadre_mem_peak(CADRE_MEM_OPTIMIZER), 1500);
    cadre_free(&p);
    assert_int_equal(cadre_mem_peak(CADRE_MEM_OPTIMIZER), 1500);
    cadre_mem_reset_peaks();
    assert_int_equal(cadre_mem_peak(CADRE_MEM_OPTIMIZER), 0);
    for (int i = 0; i < CADRE_MEM_KINDS; i++) assert_true(strlen(cadre_mem_name(i)) > 3);
}

static void *allocates(void *arg) {
    for (int i = 0; i < 2000; i++) {
        char *p = NULL;
        if (cadre_alloc(&p, CADRE_MEM_ACTIVATIONS, 100)) return NULL;
        cadre_free(&p);
    }
    return arg;
}

static void counters_hold_over_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    int good = 1;
    cadre_mem_reset_peaks();
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, allocates, &good);
    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, &good);
    }
    assert_int_equal(cadre_mem_live(CADRE_MEM_ACTIVATIONS), 0);
    assert_in_range(cadre_mem_peak(CADRE_MEM_ACTIVATIONS), 100, 400);
}

static void the_second_round_of_an_arena_allocates_nothing(void **state) {
    (void)state;
    cadre_arena *a = NULL;
    OK(cadre_arena_open(&a, CADRE_MEM_ACTIVATIONS, 256, false));
    for (int round = 0; round < 3; round++) {
        unsigned char *pieces[50];
        if (round == 1) cadre_fault_at(0); /* an allocation would fail */
        for (int i = 0; i < 50; i++) {
            size_t bytes = (size_t)(i * 37 % 300);
            OK(cadre_arena_take(a, bytes, &pieces[i]));
            assert_int_equal((uintptr_t)pieces[i] % 64, 0);
            memset(pieces[i], i, bytes);
        }
        for (int i = 0; i < 50; i++)
            for (int k = 0; k < i * 37 % 300; k++) assert_int_equal(pieces[i][k], i);
        assert_true(cadre_arena_used(a) >= cadre_arena_peak(a));
        assert_int_equal(cadre_arena_used(a) % 64, 0);
        OK(cadre_arena_reset(a));
        assert_int_equal(cadre_arena_used(a), 0);
        assert_int_equal(cadre_mem_live(CADRE_MEM_ACTIVATIONS), (int64_t)cadre_arena_peak(a));
    }
    assert_false(cadre_fault_hit());
    cadre_fault_at(-1);
    cadre_arena_close(&a);
    assert_null(a);
    cadre_arena_close(&a);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void a_dry_arena_counts_the_same(void **state) {
    (void)state;
    cadre_arena *dry = NULL, *wet = NULL;
    OK(cadre_arena_open(&dry, CADRE_MEM_ACTIVATIONS, 0, true));
    OK(cadre_arena_open(&wet, CADRE_MEM_ACTIVATIONS, 0, false));
    int64_t before = cadre_mem_live(CADRE_MEM_ACTIVATIONS);
    void *p = &p, *q;
    for (size_t i = 1; i < 500; i += 13) {
        OK(cadre_arena_take(dry, i, &p));
        assert_null(p);
    }
    OK(cadre_arena_take(dry, (size_t)1 << 50, &p)); /* more than any machine has */
    assert_int_equal(cadre_mem_live(CADRE_MEM_ACTIVATIONS), before);
    OK(cadre_arena_reset(dry));
    for (size_t i = 1; i < 500; i += 13) {
        OK(cadre_arena_take(dry, i, &p));
        OK(cadre_arena_take(wet, i, &q));
    }
    assert_int_equal(cadre_arena_used(dry), cadre_arena_used(wet));
    FAILS(cadre_arena_take(wet, SIZE_MAX - 5, &q), CADRE_ERESOURCE, "activations");
    cadre_arena_close(&dry);
    cadre_arena_close(&wet);
}

static cadre_status three_things(void) {
    cadre_arena *a = NULL;
    char *copy = NULL;
    void *p;
    cadre_status st = cadre_arena_open(&a, CADRE_MEM_OTHER, 64, false);
    if (!st) st = cadre_strdup(&copy, "a copy");
    if (!st) st = cadre_arena_take(a, 100, &p);
    if (!st) st = cadre_arena_reset(a);
    cadre_free(&copy);
    cadre_arena_close(&a);
    return st;
}

static void every_kth_allocation_may_fail(void **state) {
    (void)state;
    int failures = 0;
    for (int k = 0;; k++) {
        cadre_fault_at(k);
        cadre_status st = three_things();
        assert_int_equal(cadre_live_bytes(), 0);
        assert_int_equal(st, cadre_fault_hit() ? CADRE_ERESOURCE : CADRE_OK);
        if (!cadre_fault_hit()) break;
        failures++;
    }
    cadre_fault_at(-1);
    assert_int_equal(failures, 8); /* arena 1 + block 2, copy 1, second block 2, merged block 2 */
}

static void a_fault_hits_once_at_its_place(void **state) {
    (void)state;
    assert_false(cadre_fault_here());
    cadre_fault_at(2);
    assert_false(cadre_fault_here());
    assert_false(cadre_fault_here());
    assert_false(cadre_fault_hit());
    assert_true(cadre_fault_here());
    assert_true(cadre_fault_hit());
    assert_false(cadre_fault_here());
    cadre_fault_at(-1);
    assert_false(cadre_fault_hit());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zero_aligned_and_counted),
        cmocka_unit_test(empty_blocks_are_distinct),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_large_block_is_like_a_small_one),
        cmocka_unit_test(a_grown_block_keeps_its_bytes),
        cmocka_unit_test(peaks_stay_until_reset),
        cmocka_unit_test(counters_hold_over_threads),
        cmocka_unit_test(the_second_round_of_an_arena_allocates_nothing),
        cmocka_unit_test(a_dry_arena_counts_the_same),
        cmocka_unit_test(every_kth_allocation_may_fail),
        cmocka_unit_test(a_fault_hits_once_at_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
