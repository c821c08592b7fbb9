/* SPDX-License-Identifier: Apache-2.0
 *
 * bench allreduce on a few small sizes: rows that belong together, the table, the JSON, peers that
 * are there and peers that are not.
 */
#include "support/ranks.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "insight/bench.h"

static cadre_status bench_body(test_rank *me) {
    const cadre_bench_allreduce_opts opts = {.bytes = "4,8KiB,100000", .seconds = 0.02};
    return cadre_bench_allreduce(me->comm, &opts, me->record);
}

static void run_bench(int ranks, cadre_bench benches[4]) {
    test_result results[4];
    memset(benches, 0, 4 * sizeof *benches);
    on_threads(ranks, NULL, bench_body, NULL, benches, sizeof *benches, results);
    all_ok(results, ranks);
}

static void every_size_has_cadre_and_its_limit(void **state) {
    (void)state;
    static const int64_t sizes[] = {4, 8192, 100000};
    for (int ranks = 1; ranks <= 3; ranks++) {
        cadre_bench benches[4];
        run_bench(ranks, benches);
        assert_int_equal(benches[0].count, 6);
        for (int i = 0; i < 6; i++) {
            const cadre_bench_row *r = &benches[0].rows[i];
            assert_int_equal(r->bytes, sizes[i / 2]);
            assert_int_equal(r->ranks, ranks);
            assert_string_equal(r->who, i % 2 ? "limit" : "cadre");
            assert_true(r->min_us > 0 && r->min_us <= r->median_us && r->median_us <= r->max_us);
            assert_true(r->repeats >= 5);
        }
        for (int r = 1; r < ranks; r++) assert_int_equal(benches[r].count, 0);
        for (int r = 0; r < ranks; r++) cadre_bench_free(&benches[r]);
    }
    assert_int_equal(cadre_live_bytes(), 0);
}

static void as_table_and_as_json(void **state) {
    (void)state;
    cadre_bench b = {.transport = "shm", .machine = "A \"cpu\"", .cpus = 2};
    cadre_bench_row rows[] = {{268435456, 2, "cadre", 20000, 19000, 30000, 9},
                              {268435456, 2, "limit", 18000, 17000, 19000, 9},
                              {8192, 2, "cadre", 1.5, 1, 9, 1000}};
    cadre_text text = {0};
    for (int i = 0; i < 3; i++) OK(cadre_bench_add(&b, &rows[i]));
    cadre_text_add(&b.said, "gloo: not here\nopen-mpi: neither\n");
    OK(cadre_bench_show(&b, false, &text));
    assert_non_null(strstr(text.at, "256.0 MiB  cadre         20000.00     19000.00     30000.00"
                                    "    13.42       90%"));
    assert_non_null(strstr(text.at, "   8.0 KiB  cadre             1.50"));
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
    assert_true(json_real_value(json_object_get(json_object_get(large, "us"), "median")) == 20000);
    double rate = json_real_value(json_object_get(large, "gb_per_s"));
    assert_true(rate > 13.42 && rate < 13.43);
    assert_int_equal(json_array_size(json_object_get(root, "missing")), 2);
    json_decref(root);
    cadre_text_free(&text);
    cadre_bench_free(&b);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void lists_of_sizes(void **state) {
    (void)state;
    int64_t sizes[32];
    int count = 0;
    OK(cadre_bench_sizes("8KiB,1MiB,12", sizes, &count));
    assert_int_equal(count, 3);
    assert_int_equal(sizes[0], 8192);
    assert_int_equal(sizes[2], 12);
    OK(cadre_bench_sizes(NULL, sizes, &count));
    assert_int_equal(sizes[count - 1], 256 << 20);
    static const char *const bad[] = {"", "8KiB,", ",8", "three", "6", "-4", "0"};
    for (int i = 0; i < CADRE_COUNT(bad); i++)
        FAILS(cadre_bench_sizes(bad[i], sizes, &count), CADRE_EUSAGE, "is no size");
}

static void peers_give_rows_or_say_why_not(void **state) {
    (void)state;
    static const char here[] = "shift 2\nfor b in \"$@\"; do echo row open-mpi $b 20.5 10 30.25 "
                               "77; done\n";
    static const char absent[] = "echo missing gloo: install it so\n";
    static const char broken[] = "echo nonsense; exit 3\n";
    const char *folder = temp_folder();
    cadre_bench b = {0};
    const cadre_bench_allreduce_opts opts = {.bytes = "8KiB,1MiB"};
    free(temp_file(folder, "open_mpi.sh", here, sizeof here - 1));
    free(temp_file(folder, "gloo.sh", absent, sizeof absent - 1));
    OK(cadre_bench_peers(&b, &opts, 2, folder, environ));
    assert_int_equal(b.count, 2);
    assert_int_equal(b.rows[1].bytes, 1 << 20);
    assert_int_equal(b.rows[1].ranks, 2);
    assert_true(b.rows[1].median_us == 20.5 && b.rows[1].max_us == 30.25);
    assert_int_equal(b.rows[1].repeats, 77);
    assert_string_equal(b.said.at, "gloo: install it so\n");
    free(temp_file(folder, "gloo.sh", broken, sizeof broken - 1));
    cadre_text_clear(&b.said);
    OK(cadre_bench_peers(&b, &opts, 2, folder, environ));
    assert_non_null(strstr(b.said.at, "gloo.sh did not end well"));
    cadre_bench_free(&b);
    assert_int_equal(cadre_live_bytes(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_has_cadre_and_its_limit),
        cmocka_unit_test(as_table_and_as_json),
        cmocka_unit_test(lists_of_sizes),
        cmocka_unit_test(peers_give_rows_or_say_why_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
