/* SPDX-License-Identifier: Apache-2.0
 *
 * Training in bf16: a master of the weights in f32, gradients in f32, and gradients that travel in
 * bf16. A run has the same bits whenever it is run, and is near the run in f64.
 */
#include "trainer.h"

/* ||a - b|| / ||b|| of each parameter's gradient, the largest; the key part of the attention bias
 * has the exact gradient zero and is left out with the rest of that bias. */
static double largest_gap(const trained *a, const trained *b) {
    double most = 0;
    for (int id = 0; id < b->params; id++) {
        double apart = 0, size = 0;
        if (b->first[id] < 0 || strstr(b->name[id], "c_attn.bias")) continue;
        int64_t end = b->params > id + 1 ? b->first[id + 1] : b->first[b->params];
        for (int64_t i = b->first[id]; i < end; i++) {
            apart += (a->gradient[i] - b->gradient[i]) * (a->gradient[i] - b->gradient[i]);
            size += b->gradient[i] * b->gradient[i];
        }
        if (sqrt(apart / size) > most) most = sqrt(apart / size);
    }
    return most;
}

static void near_the_truth_on_any_number_of_ranks(void **unused) {
    (void)unused;
    static const int sizes[] = {1, 2, 3, 5, 8};
    training exact = {.kind = "gpt2", .wide = true, .clip = 1};
    trained *want = run_training(&exact, 1);
    for (int k = 0; k < CADRE_COUNT(sizes); k++)
        for (int wire = 0; wire < 2; wire++) {
            training t = {.kind = "gpt2", .narrow = true, .narrow_wire = wire, .clip = 1};
            trained *got = run_training(&t, sizes[k]);
            double gap = largest_gap(got, want);
            if (!(gap < 0.03 && gap > 1e-4))
                fail_msg("%d ranks, wire %d: gradients are off by %g", sizes[k], wire, gap);
            assert_true(fabs(got->loss[0] - want->loss[0]) < 2e-3 * want->loss[0]);
            assert_int_equal(got->apart, 0);
            free(got);
        }
    free(want);
}

/* The weights start as in any run: drawn in f32. */
static void weights_are_kept_in_f32(void **unused) {
    (void)unused;
    training narrow = {.kind = "gpt2", .narrow = true, .clip = 1, .steps = 4}, plain = narrow;
    plain.narrow = false;
    trained *a = run_training(&narrow, 2), *b = run_training(&plain, 2);
    assert_memory_equal(a->start, b->start, sizeof a->start);
    int64_t odd = 0;
    for (int64_t i = 0; i < ROOM; i++)
        odd += a->end[i] != (double)cadre_bf16_to_f32(cadre_f32_to_bf16((float)a->end[i]));
    assert_true(odd > 1000);
    assert_int_equal(a->apart, 0);
    assert_true(fabs(a->loss[3] - b->loss[3]) < 0.01 * b->loss[3]);
    free(a);
    free(b);
}

static void cuts_and_overlap_change_no_bit(void **unused) {
    (void)unused;
    for (int wire = 0; wire < 2; wire++) {
        training t = {.kind = "gpt2", .narrow = true, .narrow_wire = wire, .clip = 1, .steps = 3};
        trained *want = run_training(&t, 3);
        for (int k = 0; k < 3; k++) {
            training other = t;
            if (k) other.bucket_bytes = k == 1 ? 1 : 4096;
            other.no_overlap = k == 1;
            trained *got = run_training(&other, 3);
            assert_int_equal(got->hash, want->hash);
            free(got);
        }
        free(want);
    }
}

/* Each contribution is rounded once, the sum once: with one rank, the gradient itself. */
static void the_wire_rounds(void **unused) {
    (void)unused;
    training plain = {.kind = "gpt2", .clip = 1}, wire = plain;
    wire.narrow_wire = true;
    for (int size = 1; size <= 3; size += 2) {
        trained *a = run_training(&plain, size), *b = run_training(&wire, size);
        for (int64_t i = 0; i < a->first[a->params]; i++) {
            double rounded = (double)cadre_bf16_to_f32(cadre_f32_to_bf16((float)a->gradient[i]));
            assert_true(size > 1 || b->gradient[i] == rounded);
            assert_true(b->gradient[i] ==
                        (double)cadre_bf16_to_f32(cadre_f32_to_bf16((float)b->gradient[i])));
        }
        assert_true(largest_gap(b, a) < 6e-3);
        assert_int_equal(b->traffic * 2, a->traffic);
        free(a);
        free(b);
    }
}

/* 2 bytes of weights, 4 of gradients, 12 of optimizer state and master a parameter. */
static void bytes_are_as_planned(void **unused) {
    (void)unused;
    training t = {.kind = "gpt2", .narrow = true, .clip = 1};
    trained *got = run_training(&t, 1);
    int64_t n = got->bytes[CADRE_MEM_PARAMETERS] / 2;
    assert_true(n % 1024 == 0 && n > 0);
    assert_int_equal(got->bytes[CADRE_MEM_GRADIENTS], 4 * n);
    assert_int_equal(got->bytes[CADRE_MEM_OPTIMIZER], 12 * n);
    for (int k = CADRE_MEM_PARAMETERS; k <= CADRE_MEM_OPTIMIZER; k++)
        assert_int_equal(got->live[k], got->bytes[k]);
    free(got);
}

/* A frozen parameter is there in bf16 alone: it has no master, and stays as it is. */
static void frozen_weights_stay(void **unused) {
    (void)unused;
    training t = {
        .kind = "gpt2", .narrow = true, .clip = 1, .steps = 3, .freeze = "transformer.wte.weight"};
    trained *got = run_training(&t, 2);
    int64_t all = got->bytes[CADRE_MEM_PARAMETERS] / 2,
            trained_part = got->bytes[CADRE_MEM_GRADIENTS] / 4;
    assert_true(trained_part > 0 && trained_part < all);
    assert_int_equal(got->bytes[CADRE_MEM_OPTIMIZER], 12 * trained_part);
    assert_int_equal(got->apart, 0);
    int64_t at = 0, moved = 0, embedding = CLASSES * 16;
    assert_string_equal(got->name[0], "transformer.wte.weight");
    for (; at < embedding; at++) {
        assert_true(got->end[at] == got->start[at]);
        assert_true(got->end[at] == (double)cadre_bf16_to_f32(cadre_f64_to_bf16(got->end[at])));
    }
    for (; at < got->first[got->params]; at++) moved += got->end[at] != got->start[at];
    assert_true(moved > 1000);
    free(got);
}

static void accumulation_adds_in_f32(void **unused) {
    (void)unused;
    training whole = {.kind = "gpt2", .narrow = true, .clip = 1}, cut = whole;
    cut.micro_batch = 1;
    trained *a = run_training(&whole, 1), *b = run_training(&cut, 1);
    assert_true(largest_gap(b, a) < 5e-3);
    free(a);
    free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_the_truth_on_any_number_of_ranks),
        cmocka_unit_test(weights_are_kept_in_f32),
        cmocka_unit_test(cuts_and_overlap_change_no_bit),
        cmocka_unit_test(the_wire_rounds),
        cmocka_unit_test(bytes_are_as_planned),
        cmocka_unit_test(frozen_weights_stay),
        cmocka_unit_test(accumulation_adds_in_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
