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
        hit = ends_with_fault(train_body, &t, &failures);
    }
    assert_true(failures > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
