/* SPDX-License-Identifier: Apache-2.0
 *
 * Benches on small sizes: rows that belong together, the table, the JSON, peers that are there and
 * peers that are not.
 */
#include "bench_of.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "insight/bench.h"

static cadre_settings *defaults;

static const cadre_bench_kind *kind_of(const char *name) {
    const cadre_bench_kind *kind = NULL;
    OK(cadre_bench_find(name, &kind));
    return kind;
}

static void check_spread(const json_t *row, const char *unit) {
    char key[3][32];
    static const char *const names[] = {"min", "median", "max"};
    for (int i = 0; i < 3; i++) snprintf(key[i], sizeof key[i], "%s.%s", unit, names[i]);
    double least = cadre_bench_number(row, key[0]), most = cadre_bench_number(row, key[2]);
    double median = cadre_bench_number(row, key[1]);
    assert_true(least > 0 && least <= median && median <= most);
}

static void every_size_has_cadre_and_its_limit(void **state) {
    (void)state;
    static const int64_t sizes[] = {4, 8192, 100000};
    const bench_case c = {"allreduce", {.bytes = "4,8KiB,100000", .seconds = 0.02}};
    for (int ranks = 1; ranks <= 3; ranks++) {
        cadre_bench benches[4];
        run_bench(&c, ranks, benches);
        assert_int_equal(json_array_size(benches[0].rows), 6);
        for (int i = 0; i < 6; i++) {
            const json_t *r = json_array_get(benches[0].rows, (size_t)i);
            assert_true(cadre_bench_number(r, "bytes") == (double)sizes[i / 2]);
            assert_true(cadre_bench_number(r, "ranks") == ranks);
            assert_string_equal(cadre_bench_word(r, "who"), i % 2 ? "limit" : "cadre");
            check_spread(r, "us");
            assert_true(cadre_bench_number(r, "repeats") >= 5);
        }
        close_benches(benches, ranks);
    }
}

static void memory_counts_what_moves(void **state) {
    (void)state;
    const bench_case c = {"memory", {.bytes = "1MiB", .repeat = 4, .set = defaults}};
    cadre_bench benches[4];
    run_bench(&c, 3, benches);
    assert_int_equal(json_array_size(benches[0].rows), 6); /* copy, add by 1, 2, 3 ranks */
    for (int i = 0; i < 6; i++) {
        const json_t *r = json_array_get(benches[0].rows, (size_t)i);
        double ranks = cadre_bench_number(r, "ranks"), moved = i < 3 ? 2 : 3;
        check_spread(r, "ms");
        assert_true(ranks == i % 3 + 1);
        assert_string_equal(cadre_bench_word(r, "op"), i < 3 ? "copy" : "add");
        assert_int_equal((int)cadre_bench_number(r, "repeats"), 4);
        double ms = cadre_bench_number(r, "ms.median");
        double rate = ranks * moved * 1048576 / (ms * 1e6);
        assert_true(fabs(cadre_bench_number(r, "gb_per_s") / rate - 1) < 1e-9);
        assert_true(cadre_bench_number(r, "of_alone") > 0);
        if (ranks == 1) assert_true(cadre_bench_number(r, "of_alone") == 1);
    }
    close_benches(benches, 3);
}

static void samples_in_order(void **state) {
    (void)state;
    double odd[] = {5, 1, 3}, even[] = {4, 1, 2, 8};
    cadre_bench_stats s = cadre_bench_stats_of(odd, 3);
    assert_true(s.median == 3 && s.min == 1 && s.max == 5 && s.repeats == 3);
    s = cadre_bench_stats_of(even, 4);
    assert_true(s.median == 3 && s.min == 1 && s.max == 8);
}

static void add_allreduce(cadre_bench *b, const char *who, int64_t bytes, double median, double min,
                          double max) {
    const cadre_bench_stats us = {median, min, max, 9};
    OK(cadre_bench_add(b, cadre_bench_allreduce_row(who, 2, bytes, &us)));
}

static void as_table_and_as_json(void **state) {
    (void)state;
    cadre_bench b = {.kind = kind_of("allreduce"),
                     .rows = json_array(),
                     .transport = "shm",
                     .machine = "A \"cpu\"",
                     .ranks = 2,
                     .cpus = 2};
    cadre_text text = {0};
    const char *folder = temp_folder();
    const cadre_bench_opts opts = {.peers = folder, .environment = environ};
    static const char nothing[] = "true\n";
    free(temp_file(folder, "open_mpi.sh", nothing, sizeof nothing - 1));
    free(temp_file(folder, "gloo.sh", nothing, sizeof nothing - 1));
    add_allreduce(&b, "cadre", 268435456, 20000, 19000, 30000);
    add_allreduce(&b, "limit", 268435456, 18000, 17000, 19000);
    add_allreduce(&b, "cadre", 8192, 1.5, 1, 9);
    cadre_text_add(&b.said, "gloo: not here\nopen-mpi: neither\n");
    OK(b.kind->finish(&b, &opts));
    OK(cadre_bench_show(&b, false, &text));
    assert_non_null(strstr(text.at, "  256.0 MiB  cadre          20000.00      19000.00      "
                                    "30000.00     13.42        90%\n"));
    assert_non_null(strstr(text.at, "     8.0 KiB  cadre              1.50          1.00          "
                                    "9.00      5.46\n"));
    assert_non_null(strstr(text.at, "gloo: not here\n"));
    cadre_text_clear(&text);
    OK(cadre_bench_show(&b, true, &text));
    json_t *root = json_loads(text.at, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "schema")), 1);
    assert_string_equal(json_string_value(json_object_get(root, "bench")), "allreduce");
    assert_true(json_is_object(json_object_get(root, "machine")));
    const json_t *list = json_object_get(root, "rows");
    assert_int_equal(json_array_size(list), 3);
    const json_t *small = json_array_get(list, 0), *large = json_array_get(list, 2);
    assert_int_equal(json_integer_value(json_object_get(small, "bytes")), 8192);
    assert_true(json_is_null(json_object_get(small, "of_limit")));
    assert_string_equal(json_string_value(json_object_get(large, "op")), "all_reduce");
    assert_true(json_real_value(json_object_get(large, "of_limit")) == 0.9);
    assert_true(cadre_bench_number(large, "us.median") == 20000);
    double rate = cadre_bench_number(large, "gb_per_s");
    assert_true(rate > 13.42 && rate < 13.43);
    assert_int_equal(json_array_size(json_object_get(root, "missing")), 2);
    json_decref(root);
    cadre_text_free(&text);
    cadre_bench_close(&b);
}

static void lists_of_sizes(void **state) {
    (void)state;
    int64_t sizes[32];
    int count = 0;
    OK(cadre_bench_sizes("8KiB,1MiB,12", NULL, sizes, &count));
    assert_int_equal(count, 3);
    assert_int_equal(sizes[0], 8192);
    assert_int_equal(sizes[2], 12);
    OK(cadre_bench_sizes(NULL, "4,256MiB", sizes, &count));
    assert_int_equal(sizes[count - 1], 256 << 20);
    static const char *const bad[] = {"", "8KiB,", ",8", "three", "6", "-4", "0"};
    for (int i = 0; i < CADRE_COUNT(bad); i++)
        FAILS(cadre_bench_sizes(bad[i], NULL, sizes, &count), CADRE_EUSAGE, "is no size");
}

static void peers_give_rows_or_say_why_not(void **state) {
    (void)state;
    static const char here[] = "shift 2\nfor b in \"$@\"; do echo row open-mpi $b 20.5 10 30.25 "
                               "77; done\n";
    static const char absent[] = "echo missing gloo: install it so\n";
    static const char broken[] = "echo nonsense; exit 3\n";
    const char *folder = temp_folder();
    cadre_bench b = {.kind = kind_of("allreduce"), .rows = json_array(), .ranks = 2};
    const cadre_bench_opts opts = {.peers = folder, .environment = environ};
    free(temp_file(folder, "open_mpi.sh", here, sizeof here - 1));
    free(temp_file(folder, "gloo.sh", absent, sizeof absent - 1));
    add_allreduce(&b, "cadre", 8192, 1, 1, 1);
    add_allreduce(&b, "cadre", 1 << 20, 1, 1, 1);
    OK(cadre_bench_peers(&b, &opts));
    assert_int_equal(json_array_size(b.rows), 4);
    const json_t *r = json_array_get(b.rows, 3);
    assert_string_equal(cadre_bench_word(r, "who"), "open-mpi");
    assert_true(cadre_bench_number(r, "bytes") == 1 << 20);
    assert_true(cadre_bench_number(r, "ranks") == 2);
    assert_true(cadre_bench_number(r, "us.median") == 20.5);
    assert_true(cadre_bench_number(r, "us.max") == 30.25);
    assert_true(cadre_bench_number(r, "repeats") == 77);
    assert_string_equal(b.said.at, "gloo: install it so\n");
    free(temp_file(folder, "gloo.sh", broken, sizeof broken - 1));
    cadre_text_clear(&b.said);
    OK(cadre_bench_peers(&b, &opts));
    assert_non_null(strstr(b.said.at, "gloo.sh did not end well"));
    cadre_bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_has_cadre_and_its_limit),
        cmocka_unit_test(as_table_and_as_json),
        cmocka_unit_test(lists_of_sizes),
        cmocka_unit_test(peers_give_rows_or_say_why_not),
        cmocka_unit_test(samples_in_order),
        cmocka_unit_test(memory_counts_what_moves),
    };
    if (cadre_settings_open(&defaults, NULL)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cadre_settings_close(&defaults);
    return failed + (cadre_live_bytes() != 0);
}
