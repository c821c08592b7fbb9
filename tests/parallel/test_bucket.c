/* SPDX-License-Identifier: Apache-2.0
 *
 * How buckets are cut, in which order they start, and that sums are right whatever the order of
 * readiness.
 */
#include <stdlib.h>
#include <string.h>

#include "parallel/bucket.h"
#include "support/ranks.h"

/* Items of `count` elements each, one after the other; `block` by item. */
static int64_t lay_out(cadre_bucket_item *item, const int *block, const int64_t *count, int n) {
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        item[i] = (cadre_bucket_item){at, count[i], block[i], true};
        at += count[i];
    }
    return at;
}

static cadre_buckets *cut(const cadre_bucket_item *item, int n, int64_t length, int64_t bytes,
                          int64_t first_bytes) {
    cadre_buckets *b = NULL;
    OK(cadre_buckets_open(&b, NULL, item, n, length, CADRE_F32, CADRE_F32, NULL, bytes, first_bytes,
                          true));
    return b;
}

static void expect_ranges(cadre_buckets *b, const int (*want)[2], int count) {
    assert_int_equal(cadre_buckets_count(b), count);
    for (int i = 0; i < count; i++) {
        const cadre_bucket_range *r = cadre_buckets_range(b, i);
        assert_int_equal(r->first_param, want[i][0]);
        assert_int_equal(r->end_param, want[i][1]);
    }
    cadre_buckets_close(&b);
    assert_null(b);
}

enum { ITEMS = 8 };
static const int blocks[ITEMS] = {0, 0, 1, 1, 2, 2, 3, 3};
static const int64_t counts[ITEMS] = {100, 10, 20, 30, 20, 30, 5, 5};

static void whole_blocks_go_together(void **unused) {
    (void)unused;
    cadre_bucket_item item[ITEMS];
    int64_t length = lay_out(item, blocks, counts, ITEMS);
    /* Limits in bytes of f32. */
    expect_ranges(cut(item, ITEMS, length, 1 << 20, 1 << 20), (const int[][2]){{0, 8}}, 1);
    expect_ranges(cut(item, ITEMS, length, 1 << 20, 40), (const int[][2]){{6, 8}, {0, 6}}, 2);
    expect_ranges(cut(item, ITEMS, length, 400, 240),
                  (const int[][2]){{4, 8}, {2, 4}, {1, 2}, {0, 1}}, 4);
}

static void large_blocks_are_cut(void **unused) {
    (void)unused;
    cadre_bucket_item item[ITEMS];
    int64_t length = lay_out(item, blocks, counts, ITEMS);
    /* Nothing fits with its neighbour: one item a bucket, larger than the limit or not. */
    expect_ranges(cut(item, ITEMS, length, 4, 4),
                  (const int[][2]){{7, 8}, {6, 7}, {5, 6}, {4, 5}, {3, 4}, {2, 3}, {1, 2}, {0, 1}},
                  8);
    /* The first bucket takes a part of a block; its rest stays by itself though block 2 would
     * still fit. */
    expect_ranges(cut(item, ITEMS, length, 1 << 20, 20), (const int[][2]){{7, 8}, {6, 7}, {0, 6}},
                  3);
}

static void unwanted_items_are_left_out(void **unused) {
    (void)unused;
    cadre_bucket_item item[ITEMS];
    int64_t length = lay_out(item, blocks, counts, ITEMS);
    item[3].wanted = item[7].wanted = item[0].wanted = false;
    cadre_buckets *b = cut(item, ITEMS, length, 1 << 20, 1 << 20);
    assert_int_equal(cadre_buckets_count(b), 2);
    const cadre_bucket_range *late = cadre_buckets_range(b, 0), *early = cadre_buckets_range(b, 1);
    assert_int_equal(late->first, 160);
    assert_int_equal(late->end, 215);
    assert_int_equal(early->first, 100);
    assert_int_equal(early->end, 130);
    FAILS(cadre_buckets_ready(b, 3), CADRE_EUSAGE, "gradient 3");
    cadre_buckets_close(&b);
}

static void edges(void **unused) {
    (void)unused;
    cadre_buckets *b = cut(NULL, 0, 0, 1, 1);
    assert_int_equal(cadre_buckets_count(b), 0);
    int missing = -1;
    OK(cadre_buckets_wait(b, 0, &missing));
    cadre_buckets_close(&b);
    cadre_buckets_close(&b);
}

/* ---- over ranks ---- */

typedef struct job {
    bool overlap;
    int64_t bytes;
    int leave_out; /* an item that the last rank never makes ready; -1: none */
} job;

typedef struct record {
    int started[ITEMS]; /* buckets in the order in which they started */
    int starts;
    int missing;
    float sum[256];
    int64_t length;
} record;

static void note_start(void *self, int bucket) {
    record *to = self;
    to->started[to->starts++] = bucket;
}

/* Two steps; in each every rank makes its items ready in an order of its own. */
static cadre_status reduce_body(test_rank *me) {
    const job *j = me->arg;
    record *to = me->record;
    cadre_bucket_item item[ITEMS];
    int64_t length = lay_out(item, blocks, counts, ITEMS);
    void *memory = NULL;
    cadre_buckets *b = NULL;
    cadre_status st = cadre_comm_alloc(me->comm, (size_t)length * sizeof(float), &memory);
    float *gradients = memory;
    if (!st)
        st = cadre_buckets_open(&b, me->comm, item, ITEMS, length, CADRE_F32, CADRE_F32, gradients,
                                j->bytes, j->bytes, j->overlap);
    if (!st) cadre_buckets_on_start(b, note_start, to);
    for (int step = 0; step < 2 && !st; step++) {
        to->starts = 0;
        for (int64_t i = 0; i < length; i++) gradients[i] = (float)(i + me->rank * (step + 1));
        cadre_buckets_begin(b, false);
        for (int k = 0; k < ITEMS && !st; k++) {
            int i = (k * 3 + me->rank * 5 + step) % ITEMS;
            if (i != j->leave_out || me->rank < me->size - 1) st = cadre_buckets_ready(b, i);
        }
        to->missing = -1;
        if (!st) st = cadre_buckets_wait(b, cadre_in_ms(20000), &to->missing);
    }
    to->length = length;
    if (!st) memcpy(to->sum, gradients, (size_t)length * sizeof(float));
    cadre_buckets_close(&b);
    if (memory) cadre_comm_free(me->comm, memory);
    return st;
}

static void sums_do_not_depend_on_order(void **unused) {
    (void)unused;
    static const int sizes[] = {1, 2, 3, 5};
    static const int64_t limits[] = {4, 200, 1 << 20};
    for (int s = 0; s < CADRE_COUNT(sizes); s++)
        for (int overlap = 0; overlap < 2; overlap++)
            for (int l = 0; l < CADRE_COUNT(limits); l++) {
                static record records[5];
                test_result results[5];
                int size = sizes[s];
                job j = {overlap, limits[l], -1};
                on_threads(size, NULL, reduce_body, &j, records, sizeof(record), results);
                all_ok(results, size);
                for (int r = 0; r < size; r++) {
                    for (int i = 0; i < records[r].starts; i++)
                        assert_int_equal(records[r].started[i], i);
                    assert_true(records[r].starts > 0);
                    for (int64_t i = 0; i < records[r].length; i++)
                        assert_true(records[r].sum[i] ==
                                    (float)(size * i + 2 * size * (size - 1) / 2));
                }
            }
}

static void one_never_ready_is_named(void **unused) {
    (void)unused;
    static record records[3];
    test_result results[3];
    job j = {true, 1 << 20, 4};
    on_threads(3, NULL, reduce_body, &j, records, sizeof(record), results);
    assert_int_equal(results[2].status, CADRE_EUSAGE);
    assert_int_equal(records[2].missing, 4);
    for (int r = 0; r < 2; r++) assert_int_equal(results[r].status, CADRE_EPEER);
}

static void twice_ready_is_refused(void **unused) {
    (void)unused;
    cadre_bucket_item item[2] = {{0, 1, 0, true}, {1, 1, 0, true}};
    cadre_buckets *b = cut(item, 2, 2, 100, 100);
    OK(cadre_buckets_ready(b, 0));
    assert_true(cadre_buckets_is_ready(b, 0));
    assert_false(cadre_buckets_is_ready(b, 1));
    FAILS(cadre_buckets_ready(b, 0), CADRE_EUSAGE, "twice");
    cadre_buckets_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_blocks_go_together),
        cmocka_unit_test(large_blocks_are_cut),
        cmocka_unit_test(unwanted_items_are_left_out),
        cmocka_unit_test(edges),
        cmocka_unit_test(twice_ready_is_refused),
        cmocka_unit_test(sums_do_not_depend_on_order),
        cmocka_unit_test(one_never_ready_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
