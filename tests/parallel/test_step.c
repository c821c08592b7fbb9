/* SPDX-License-Identifier: Apache-2.0
 *
 * One run on many layouts: gradients of every parameter on 1 to 8 ranks are those of one rank;
 * bucket size, overlap and accumulation change nothing that they should not.
 */
#include "base/fault.h"
#include "parallel/trainer.h"

static void ranks_agree(const char *kind, bool wide, double tolerance) {
    static const int sizes[] = {1, 2, 3, 4, 5, 8};
    /* Plain SGD moves in proportion, so that later steps compare too. */
    training t = {.kind = kind, .wide = wide, .clip = 1, .bucket_bytes = 4096, .steps = 3};
    t.optimizer = "sgd";
    trained *one = run_training(&t, 1);
    assert_true(one->norm[0] > 0 && isfinite(one->loss[0]));
    /* Something moved, so that equal hashes say something. */
    assert_true(memcmp(one->start, one->end, sizeof one->start) != 0);
    for (int s = 0; s < CADRE_COUNT(sizes); s++) {
        trained *many = run_training(&t, sizes[s]);
        compare_gradients(many, one, tolerance);
        free(many);
    }
    free(one);
}

static void gpt2_f64(void **unused) {
    (void)unused;
    ranks_agree("gpt2", true, 1e-12);
}

static void gpt2_f32(void **unused) {
    (void)unused;
    ranks_agree("gpt2", false, 5e-6);
}

static void mlp_f64(void **unused) {
    (void)unused;
    ranks_agree("mlp", true, 1e-12);
}

static void mlp_f32(void **unused) {
    (void)unused;
    ranks_agree("mlp", false, 5e-6);
}

static void buckets_and_overlap_change_no_bit(void **unused) {
    (void)unused;
    static const int64_t bytes[] = {1, 4096, 1 << 20, 25 << 20};
    training base = {.kind = "gpt2", .steps = 3, .clip = 1, .micro_batch = 1};
    for (int b = 0; b < CADRE_COUNT(bytes); b++)
        for (int overlap = 0; overlap < 2; overlap++) {
            training other = base;
            other.bucket_bytes = bytes[b];
            other.no_overlap = !overlap;
            same_bits(&base, 3, &other, 3);
        }
}

static void buckets_travel_while_backward_goes_on(void **unused) {
    (void)unused;
    training t = {.kind = "gpt2", .clip = 1, .bucket_bytes = 4096, .micro_batch = 1};
    trained *hidden = run_training(&t, 2);
    t.no_overlap = true;
    trained *exposed = run_training(&t, 2);
    assert_true(hidden->buckets > 3);
    /* Beside the operations of one micro-batch, not of all three. */
    assert_in_range(hidden->in_flight, 8, 40);
    assert_int_equal(exposed->in_flight, 0);
    free(hidden);
    free(exposed);
}

/* A rank that comes late to the norm: waiting for it is communication's time, not the update's. */
static void waiting_is_no_part_of_the_update(void **unused) {
    (void)unused;
    training t = {.kind = "mlp", .late_rank = 2};
    trained *got = run_training(&t, 2);
    assert_true(got->exposed_ns >= LATE_NS / 2);
    assert_true(got->update_ns < LATE_NS / 2);
    free(got);
}

static void threads_change_no_bit(void **unused) {
    (void)unused;
    training one = {.kind = "gpt2", .steps = 3, .clip = 1, .threads = 1}, more = one;
    more.threads = 2;
    same_bits(&one, 2, &more, 2);
}

static void accumulation_is_one_large_batch(void **unused) {
    (void)unused;
    static const int64_t micro[] = {1, 2, 4};
    training whole = {.kind = "gpt2", .wide = true, .clip = 1};
    trained *want = run_training(&whole, 1);
    for (int k = 0; k < CADRE_COUNT(micro); k++)
        for (int size = 1; size <= 2; size++) {
            training cut = whole;
            cut.micro_batch = micro[k];
            trained *got = run_training(&cut, size);
            compare_gradients(got, want, 1e-12);
            free(got);
        }
    free(want);
}

static void dropout_is_the_same_on_every_layout(void **unused) {
    (void)unused;
    training t = {.kind = "gpt2", .wide = true, .dropout = 0.3, .clip = 1};
    trained *one = run_training(&t, 1);
    for (int size = 2; size <= 8; size += 3) {
        trained *many = run_training(&t, size);
        compare_gradients(many, one, 1e-12);
        free(many);
    }
    free(one);
}

static void processes_are_threads(void **unused) {
    (void)unused;
    training t = {.kind = "gpt2", .wide = true, .steps = 2, .clip = 1, .bucket_bytes = 2048};
    trained *forked = calloc(3, sizeof *forked);
    test_result results[3];
    on_processes(3, NULL, train_body, &t, forked, sizeof *forked, results);
    all_ok(results, 3);
    trained *threaded = run_training(&t, 3);
    for (int r = 0; r < 3; r++) assert_int_equal(forked[r].hash, threaded->hash);
    free(threaded);
    free(forked);
}

static void clipping_counts_once(void **unused) {
    (void)unused;
    /* Plain SGD shows the scale: the step's length is lr x min(norm, clip). */
    for (int size = 1; size <= 3; size++)
        for (int k = 0; k < 3; k++) {
            static const double limits[] = {0, 0.01, 100}; /* off, below the norm, above it */
            bool on = limits[k] == 0.01;
            training t = {.kind = "mlp", .wide = true, .optimizer = "sgd", .decay = "head.bias"};
            t.clip = limits[k];
            trained *got = run_training(&t, size);
            double moved = 0;
            int64_t bias = -1;
            for (int id = 0; id < got->params; id++)
                if (strcmp(got->name[id], "head.bias") == 0) bias = got->first[id];
            assert_true(bias >= 0);
            for (int64_t i = 0; i < got->first[got->params]; i++)
                moved += (got->end[i] - got->start[i]) * (got->end[i] - got->start[i]);
            assert_true(got->norm[0] > 0.01 && got->norm[0] < 100);
            double length = on ? 0.01 * got->norm[0] / (got->norm[0] + 1e-6) : got->norm[0];
            assert_true(fabs(sqrt(moved) - 0.01 * length) <= 1e-9 * length);
            free(got);
        }
}

static void frozen_parameters_stay(void **unused) {
    (void)unused;
    training t = {.kind = "gpt2", .wide = true, .steps = 3, .clip = 1, .bucket_bytes = 2048};
    trained *all = run_training(&t, 2);
    t.freeze = "transformer.h.0.*,transformer.wte.weight";
    trained *some = run_training(&t, 2);
    int64_t at = 0;
    int frozen = 0;
    for (int id = 0; id < some->params; id++) {
        int64_t n = all->first[id + 1] - all->first[id];
        bool still = memcmp(some->start + at, some->end + at, (size_t)n * sizeof(double)) == 0;
        assert_true(still == (some->first[id] < 0));
        if (some->first[id] < 0)
            frozen++;
        else /* the others have the gradients they had */
            assert_true(relative_gap_f64(some->gradient + at, all->gradient + at, n) <= 1e-14);
        at += n;
    }
    assert_int_equal(frozen, 13);
    assert_true(some->bytes[CADRE_MEM_GRADIENTS] < all->bytes[CADRE_MEM_GRADIENTS]);
    assert_int_equal(some->bytes[CADRE_MEM_PARAMETERS], all->bytes[CADRE_MEM_PARAMETERS]);
    assert_true(some->traffic < all->traffic);
    free(all);
    free(some);

    t.freeze = "transformer.h.7.*";
    test_result result;
    on_threads(1, NULL, train_body, &t, NULL, 0, &result);
    assert_int_equal(result.status, CADRE_EUSAGE);
    assert_non_null(strstr(result.text, "optim.freeze: no parameter's name matches"));
}

static void nothing_counts(void **unused) {
    (void)unused;
    training t = {.kind = "gpt2", .no_labels = true, .steps = 2, .clip = 1};
    for (int size = 1; size <= 2; size++) {
        trained *got = run_training(&t, size);
        assert_true(got->loss[0] == 0 && got->norm[0] == 0 && got->count[0] == 0);
        assert_false(got->skipped[0]);
        assert_memory_equal(got->start, got->end, sizeof got->start);
        free(got);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_are_threads),
        cmocka_unit_test(gpt2_f64),
        cmocka_unit_test(gpt2_f32),
        cmocka_unit_test(mlp_f64),
        cmocka_unit_test(mlp_f32),
        cmocka_unit_test(buckets_and_overlap_change_no_bit),
        cmocka_unit_test(buckets_travel_while_backward_goes_on),
        cmocka_unit_test(waiting_is_no_part_of_the_update),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(accumulation_is_one_large_batch),
        cmocka_unit_test(dropout_is_the_same_on_every_layout),
        cmocka_unit_test(clipping_counts_once),
        cmocka_unit_test(frozen_parameters_stay),
        cmocka_unit_test(nothing_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
