/* SPDX-License-Identifier: Apache-2.0
 *
 * The size of gpt2-char: gradients of every parameter on 2, 3 and 4 ranks against one in f32, on 3
 * in f64 (the reference is slow); bucket sizes as people set them.
 */
#define TRAINER_LARGE
#include "parallel/trainer.h"

static void ranks_agree(void **unused) {
    (void)unused;
    for (int wide = 0; wide < 2; wide++) {
        training t = {.kind = "gpt2", .wide = wide, .clip = 1, .optimizer = "sgd"};
        t.steps = wide ? 1 : 2;
        trained *one = run_training(&t, 1);
        for (int size = wide ? 3 : 2; size <= (wide ? 3 : 4); size++) {
            trained *many = run_training(&t, size);
            compare_gradients(many, one, wide ? 1e-12 : 5e-6);
            free(many);
        }
        free(one);
    }
}

static void buckets_change_no_bit(void **unused) {
    (void)unused;
    static const int64_t bytes[] = {64 << 10, 1 << 20, 25 << 20};
    training base = {.kind = "gpt2", .clip = 1, .steps = 3, .threads = 2};
    for (int b = 0; b < CADRE_COUNT(bytes); b++)
        for (int overlap = 0; overlap < 2; overlap++) {
            training other = base;
            other.bucket_bytes = bytes[b];
            other.no_overlap = !overlap;
            same_bits(&base, 2, &other, 2);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_agree),
        cmocka_unit_test(buckets_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
