/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation and message of two steps on three ranks fails once: all ranks end, nothing
 * leaks.
 */
#include "base/alloc.h"
#include "base/fault.h"
#include "parallel/trainer.h"

static void every_fault_ends(void **unused) {
    (void)unused;
    bool hit = true;
    int failures = 0;
    for (int64_t k = 0; hit; k++) {
        training t = {.kind = "gpt2",
                      .steps = 2,
                      .clip = 1,
                      .bucket_bytes = 4096,
                      .check = true,
                      .faulty = true,
                      .fault = k};
        test_result results[3];
        on_threads(3, NULL, train_body, &t, NULL, 0, results);
        hit = cadre_fault_hit();
        cadre_fault_at(-1);
        bool failed = false;
        for (int r = 0; r < 3; r++) failed = failed || results[r].status < 0;
        /* Freeing may do without what fails; then all is as if nothing had. */
        assert_true(hit || !failed);
        failures += failed;
        assert_int_equal(cadre_live_bytes(), 0);
    }
    assert_true(failures > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
