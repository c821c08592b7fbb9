/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of samples: windows in bounds, each sample once an epoch over all ranks, epochs that
 * differ, any position at once; the arithmetic of batches and its refusals.
 */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "data/sampler.h"

static void windows_stay_inside_the_text(void **state) {
    (void)state;
    for (int64_t context = 1; context <= 9; context++)
        for (int64_t tokens = context + 1; tokens <= context + 60; tokens++) {
            cadre_sampler s;
            OK(cadre_sampler_plan(&s, (uint64_t)tokens, tokens, context, true));
            int64_t n = (tokens - context) / context;
            assert_int_equal(s.per_epoch, n > 1 ? n : 1);
            for (int64_t g = 0; g < 3 * s.per_epoch; g++) {
                int64_t start = cadre_sampler_start(&s, g);
                assert_true(start >= 0 && start + context + 1 <= tokens);
            }
        }
}

static void windows_of_an_epoch_tile(void **state) {
    (void)state;
    cadre_sampler s;
    OK(cadre_sampler_plan(&s, 3, 1000, 7, true));
    for (int64_t epoch = 0; epoch < 4; epoch++) {
        bool seen[1000] = {false};
        int64_t least = INT64_MAX;
        for (int64_t i = 0; i < s.per_epoch; i++) {
            int64_t start = cadre_sampler_start(&s, epoch * s.per_epoch + i);
            if (start < least) least = start;
            assert_false(seen[start]);
            seen[start] = true;
        }
        assert_true(least < 7);
        for (int64_t i = 0; i < s.per_epoch; i++) assert_true(seen[least + 7 * i]);
    }
}

static void epochs_and_seeds_differ(void **state) {
    (void)state;
    cadre_sampler s, other, plain;
    OK(cadre_sampler_plan(&s, 1, 100000, 64, true));
    OK(cadre_sampler_plan(&other, 2, 100000, 64, true));
    OK(cadre_sampler_plan(&plain, 1, 100000, 64, false));
    int same_epoch = 0, same_seed = 0, same_order = 0;
    bool offsets_differ = false;
    for (int64_t i = 0; i < s.per_epoch; i++) {
        same_epoch += cadre_sampler_start(&s, i) == cadre_sampler_start(&s, s.per_epoch + i);
        same_seed += cadre_sampler_start(&s, i) == cadre_sampler_start(&other, i);
        same_order += cadre_sampler_start(&s, i) == cadre_sampler_start(&plain, i);
        assert_int_equal(cadre_sampler_start(&plain, i), cadre_sampler_start(&plain, 0) + 64 * i);
    }
    for (int64_t e = 1; e < 5; e++)
        if (cadre_sampler_start(&plain, e * s.per_epoch) != cadre_sampler_start(&plain, 0))
            offsets_differ = true;
    assert_true(offsets_differ);
    assert_true(same_epoch < 30 && same_seed < 30 && same_order < 30);
}

/* The order is part of what a run is: these numbers may never change. */
static void the_order_is_pinned(void **state) {
    (void)state;
    static const int64_t golden[] = {29434, 667066, 308770, 902306};
    cadre_sampler s;
    OK(cadre_sampler_plan(&s, 1, 1003854, 64, true));
    assert_int_equal(s.per_epoch, 15684);
    for (int i = 0; i < CADRE_COUNT(golden); i++)
        assert_int_equal(cadre_sampler_start(&s, i * INT64_C(10000)), golden[i]);
}

static void a_short_text_is_refused(void **state) {
    (void)state;
    cadre_sampler s;
    FAILS(cadre_sampler_plan(&s, 1, 64, 64, true), CADRE_EDATA, "64 tokens");
    FAILS(cadre_sampler_plan(&s, 1, 64, 64, true), CADRE_EDATA, "shorter than the context");
    FAILS(cadre_sampler_plan(&s, 1, 64, 64, true), CADRE_EDATA, "at least 65");
    OK(cadre_sampler_plan(&s, 1, 65, 64, true));
    assert_int_equal(cadre_sampler_start(&s, 5), 0);
}

/* Counts how often each sample of three epochs is computed by `dp` ranks; starting over at
 * `resume` samples with another number of ranks must not change it. */
static void count_samples(int *counts, int64_t from, int64_t to, int64_t batch, int64_t micro,
                          int dp) {
    for (int64_t position = from; position < to; position += batch)
        for (int rank = 0; rank < dp; rank++) {
            cadre_batching b;
            OK(cadre_batching_plan(&b, batch, micro, dp, rank));
            assert_int_equal(b.end, INT64_MAX);
            assert_int_equal(b.accumulation * micro * dp, batch);
            for (int64_t m = 0; m < b.accumulation; m++)
                for (int64_t r = 0; r < micro; r++)
                    counts[cadre_batching_first(&b, position, m) + r]++;
        }
}

static void each_sample_once_on_any_number_of_ranks(void **state) {
    (void)state;
    static const int ranks[] = {1, 2, 3, 5, 8};
    enum { BATCH = 240, ALL = 2400 };
    for (int i = 0; i < CADRE_COUNT(ranks); i++)
        for (int64_t micro = 1; micro <= 6; micro += 5) {
            if (BATCH % (micro * ranks[i])) continue;
            int counts[ALL] = {0};
            int next = ranks[(i + 1) % CADRE_COUNT(ranks)];
            count_samples(counts, 0, 5 * BATCH, BATCH, micro, ranks[i]);
            count_samples(counts, 5 * BATCH, ALL, BATCH, 1, next);
            for (int g = 0; g < ALL; g++) assert_int_equal(counts[g], 1);
        }
}

static void ranks_own_consecutive_slots(void **state) {
    (void)state;
    cadre_batching b;
    OK(cadre_batching_plan(&b, 24, 2, 3, 1));
    assert_int_equal(b.accumulation, 4);
    assert_int_equal(cadre_batching_first(&b, 100, 0), 108);
    assert_int_equal(cadre_batching_first(&b, 100, 3), 114);
}

static void batches_that_do_not_divide_are_refused(void **state) {
    (void)state;
    cadre_batching b;
    FAILS(cadre_batching_plan(&b, 12, 5, 2, 0), CADRE_EUSAGE,
          "train.batch=12 is not a multiple of train.micro_batch=5 x dp=2; nearest: "
          "train.batch=10 or 20, or train.micro_batch=3 or 6");
    FAILS(cadre_batching_plan(&b, 3, 2, 2, 0), CADRE_EUSAGE, "nearest: train.batch=4");
    FAILS(cadre_batching_plan(&b, 12, 8, 3, 0), CADRE_EUSAGE,
          "nearest: train.batch=24, or train.micro_batch=4");
    FAILS(cadre_batching_plan(&b, INT64_C(1) << 40, (INT64_C(1) << 39) + 1, 1, 0), CADRE_EUSAGE,
          "nearest: train.batch=549755813889 or 1099511627778");
    FAILS(cadre_batching_plan(&b, 0, 1, 1, 0), CADRE_EUSAGE, "train.batch=0");
    FAILS(cadre_batching_plan(&b, 4, 0, 1, 0), CADRE_EUSAGE, "train.micro_batch=0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_stay_inside_the_text),
        cmocka_unit_test(windows_of_an_epoch_tile),
        cmocka_unit_test(epochs_and_seeds_differ),
        cmocka_unit_test(the_order_is_pinned),
        cmocka_unit_test(a_short_text_is_refused),
        cmocka_unit_test(each_sample_once_on_any_number_of_ranks),
        cmocka_unit_test(ranks_own_consecutive_slots),
        cmocka_unit_test(batches_that_do_not_divide_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
