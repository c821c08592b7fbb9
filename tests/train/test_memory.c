/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that a job may have: the limits of control groups of both versions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support/check.h"
#include "train/memory.h"

static const char *folder;

static void put(const char *name, const char *text) {
    free(temp_file(folder, name, text, strlen(text)));
}

static void make(const char *name) {
    char path[CADRE_PATH];
    OK(cadre_mkdirs(cadre_join(path, sizeof path, folder, name)));
}

static double limit_of(const char *list) {
    char path[CADRE_PATH];
    put("list", list);
    return cadre_memory_of_groups(cadre_join(path, sizeof path, folder, "list"), folder);
}

static void groups_of_version_2(void **state) {
    (void)state;
    make("job/step");
    make("free");
    put("memory.max", "max\n");
    put("job/memory.max", "4096\n");
    put("job/step/memory.max", "8192\n");
    put("free/memory.max", "max\n");
    assert_true(limit_of("0::/free\n") == INFINITY);
    assert_true(limit_of("0::/\n") == INFINITY);
    assert_true(limit_of("0::/job\n") == 4096);
    assert_true(limit_of("0::/job/step\n") == 4096); /* the group around it is the tighter one */
    assert_true(limit_of("0::/job/step/not-mounted\n") == 4096);
}

static void groups_of_version_1(void **state) {
    (void)state;
    make("memory/box");
    put("memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("memory/box/memory.limit_in_bytes", "1048576\n");
    assert_true(limit_of("3:cpuset:/box\n4:memory:/box\n0::/free\n") == 1048576);
    assert_true(limit_of("5:hugetlb,memory:/box/inner\n") == 1048576);
    assert_true(limit_of("3:cpuset:/box\n4:memory:/other\n") > 1e18);
}

static void no_groups(void **state) {
    (void)state;
    assert_true(cadre_memory_of_groups("/no/such/file", folder) == INFINITY);
    assert_true(limit_of("what is this\n") == INFINITY);
    assert_true(cadre_memory_of_machine() > 1e6 && isfinite(cadre_memory_of_machine()));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_version_2),
        cmocka_unit_test(groups_of_version_1),
        cmocka_unit_test(no_groups),
    };
    folder = temp_folder();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
