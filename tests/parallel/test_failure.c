/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that are not finite, weights that differ, and faults at every point: all ranks learn of
 * it, nobody hangs, nothing leaks.
 */
#include "base/alloc.h"
#include "base/fault.h"
#include "parallel/trainer.h"

#define POISONED "transformer.h.1.mlp.c_fc.weight"

static void stopping_names_parameter_rank_and_step(void **unused) {
    (void)unused;
    for (int size = 1; size <= 3; size++) {
        training t = {.kind = "gpt2",
                      .steps = 3,
                      .clip = 1,
                      .poison = POISONED,
                      .poison_rank = size - 1,
                      .poison_step = 2};
        test_result results[3];
        char rank[16];
        /* What follows the poisoned weight is not finite either: named is the first on the way
         * back. */
        snprintf(rank, sizeof rank, "on rank %d", size - 1);
        on_threads(size, NULL, train_body, &t, NULL, 0, results);
        for (int r = 0; r < size; r++) {
            assert_int_equal(results[r].status, CADRE_ENUMERIC);
            assert_non_null(
                strstr(results[r].text, "step 2: gradient of transformer.ln_f.bias is not"));
            assert_non_null(strstr(results[r].text, rank));
            assert_string_equal(results[r].text, results[0].text);
        }
    }
    assert_int_equal(cadre_live_bytes(), 0);
}

static void skipping_goes_on(void **unused) {
    (void)unused;
    training t = {.kind = "gpt2",
                  .wide = true,
                  .steps = 4,
                  .clip = 1,
                  .nonfinite = "skip",
                  .poison = POISONED,
                  .poison_rank = 0,
                  .poison_step = 2};
    /* Every rank has the poisoned element at 0.25 afterwards: rank 0 alone was set, so with more
     * ranks they differ there; one rank shows the course, two show the decision. */
    trained *one = run_training(&t, 1);
    assert_true(!one->skipped[0] && one->skipped[1] && !one->skipped[2] && !one->skipped[3]);
    assert_int_equal(one->skipped_steps, 1);
    assert_non_null(strstr(one->nonfinite, "on rank 0"));
    assert_true(isfinite(one->loss[2]) && isfinite(one->norm[3]));
    free(one);

    trained *records = calloc(2, sizeof *records);
    test_result results[2];
    on_threads(2, NULL, train_body, &t, records, sizeof *records, results);
    all_ok(results, 2);
    for (int r = 0; r < 2; r++) {
        assert_true(records[r].skipped[1] && !records[r].skipped[2]);
        assert_string_equal(records[r].nonfinite, records[0].nonfinite);
        assert_non_null(strstr(records[r].nonfinite, "on rank 0"));
    }
    free(records);
}

static void a_planted_difference_is_named(void **unused) {
    (void)unused;
    for (int size = 2; size <= 3; size++) {
        training t = {.kind = "gpt2", .steps = 2, .clip = 1, .check = true, .plant = size};
        test_result results[3];
        char said[80];
        snprintf(said, sizeof said, "after step 1: parameter transformer.wpe.weight of rank %d",
                 size - 1);
        on_threads(size, NULL, train_body, &t, NULL, 0, results);
        for (int r = 0; r < size; r++) {
            assert_int_equal(results[r].status, CADRE_EINTERNAL);
            assert_non_null(strstr(results[r].text, said));
        }
        t.plant = 0;
        free(run_training(&t, size));
    }
}

static cadre_status other_model_body(test_rank *me) {
    training t = {.kind = "gpt2", .clip = 1, .freeze = me->rank == 1 ? "transformer.ln_f.*" : NULL};
    test_rank other = *me;
    other.arg = &t;
    return train_body(&other);
}

static void another_model_is_refused(void **unused) {
    (void)unused;
    test_result results[3];
    on_threads(3, NULL, other_model_body, NULL, NULL, 0, results);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(results[r].status, CADRE_EUSAGE);
        assert_non_null(strstr(results[r].text, "rank 1 has another model"));
    }
}

/* A sample of what long_fault.c does for every point. */
static void faults_end(void **unused) {
    (void)unused;
    bool hit = true;
    int failures = 0;
    for (int64_t k = 0; hit; k += 19) {
        training t = {.kind = "gpt2",
                      .steps = 2,
                      .clip = 1,
                      .bucket_bytes = 4096,
                      .check = true,
                      .faulty = true,
                      .fault = k};
        hit = ends_with_fault(train_body, &t, &failures);
    }
    assert_true(failures > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopping_names_parameter_rank_and_step),
        cmocka_unit_test(skipping_goes_on),
        cmocka_unit_test(a_planted_difference_is_named),
        cmocka_unit_test(another_model_is_refused),
        cmocka_unit_test(faults_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
