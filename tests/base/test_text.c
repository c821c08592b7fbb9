/* SPDX-License-Identifier: Apache-2.0
 *
 * Growing strings, numbers shown and parsed, nearest names, patterns.
 */
#include <locale.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/text.h"
#include "base/tree.h"
#include "support/check.h"

static void strings_grow(void **state) {
    (void)state;
    cadre_text t = {0};
    for (int i = 0; i < 1000; i++) cadre_text_add(&t, "%d,", i);
    cadre_text_add_bytes(&t, "a\0b", 3);
    OK(t.status);
    assert_int_equal(t.length, 10 * 2 + 90 * 3 + 900 * 4 + 3);
    assert_memory_equal(t.at, "0,1,2,", 6);
    assert_memory_equal(t.at + t.length - 3, "a\0b", 4);
    cadre_text_clear(&t);
    assert_string_equal(t.at, "");
    cadre_text_free(&t);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void the_first_failure_to_grow_sticks(void **state) {
    (void)state;
    cadre_text t = {0};
    cadre_text_add(&t, "kept");
    cadre_fault_at(0);
    for (int i = 0; i < 1000; i++) cadre_text_add(&t, "%s", "more and more ");
    assert_true(cadre_fault_hit());
    cadre_fault_at(-1);
    assert_int_equal(t.status, CADRE_ERESOURCE);
    assert_memory_equal(t.at, "keptmore", 8);
    assert_int_equal(strlen(t.at), t.length);
    cadre_text_free(&t);
}

static void numbers_are_shown_as_people_read_them(void **state) {
    (void)state;
    char b[64];
    assert_string_equal(cadre_show_bytes(b, sizeof b, 0), "0 B");
    assert_string_equal(cadre_show_bytes(b, sizeof b, 512), "512 B");
    assert_string_equal(cadre_show_bytes(b, sizeof b, 1024), "1.0 KiB");
    assert_string_equal(cadre_show_bytes(b, sizeof b, 13.8 * 0x1p30), "13.8 GiB");
    assert_string_equal(cadre_show_bytes(b, sizeof b, 0x1p20 - 1), "1.0 MiB");
    assert_string_equal(cadre_show_seconds(b, sizeof b, 0.041), "41 ms");
    assert_string_equal(cadre_show_seconds(b, sizeof b, 0.9996), "1.0 s");
    assert_string_equal(cadre_show_seconds(b, sizeof b, 2.25), "2.2 s");
    assert_string_equal(cadre_show_seconds(b, sizeof b, 42.4), "42 s");
    assert_string_equal(cadre_show_seconds(b, sizeof b, 59.7), "1m00s");
    assert_string_equal(cadre_show_seconds(b, sizeof b, 78), "1m18s");
    assert_string_equal(cadre_show_seconds(b, sizeof b, 7500), "2h05m");
    assert_string_equal(cadre_show_count(b, sizeof b, 1557611200), "1,557,611,200");
    assert_string_equal(cadre_show_count(b, sizeof b, 999), "999");
    assert_string_equal(cadre_show_count(b, sizeof b, -1000), "-1,000");
    assert_string_equal(cadre_show_count(b, sizeof b, INT64_MIN), "-9,223,372,036,854,775,808");
}

static void whole_numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"12", 12},
                {"-7", -7},
                {"+7", 7},
                {"1e9", 1000000000},
                {"2.5e3", 2500},
                {"12.0", 12},
                {"007", 7},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    static const char *const bad[] = {
        "",    " 1",  "1 ",      "1x", "0x10", "1.5", "1e-3", "nan",
        "inf", "-",   "+",       "e5", "--1",  "- 1", "1e30", "9223372036854775808",
        "1,5", "1_0", "\xd9\xa1"};
    int64_t v = 99;
    for (int i = 0; i < CADRE_COUNT(good); i++) {
        assert_true(cadre_parse_i64(good[i].text, &v));
        assert_int_equal(v, good[i].value);
    }
    v = 99;
    for (int i = 0; i < CADRE_COUNT(bad); i++) {
        if (cadre_parse_i64(bad[i], &v)) fail_msg("'%s' was taken for a whole number", bad[i]);
        assert_int_equal(v, 99);
    }
}

static void real_numbers(void **state) {
    (void)state;
    static const char *const bad[] = {"",      " 1", "1 ", "1,5",   "nan", "inf", "-inf", "1e400",
                                      "0x1p3", "e5", ".",  "1.2.3", "1e",  "-",   "+-1"};
    double v = 0;
    assert_true(cadre_parse_f64("1e-3", &v) && v == 1e-3);
    assert_true(cadre_parse_f64("-.5", &v) && v == -0.5);
    assert_true(cadre_parse_f64("6E-4", &v) && v == 6e-4);
    assert_true(cadre_parse_f64("0.1", &v) && v == 0.1);
    for (int i = 0; i < CADRE_COUNT(bad); i++)
        if (cadre_parse_f64(bad[i], &v)) fail_msg("'%s' was taken for a number", bad[i]);
}

static void numbers_do_not_follow_the_locale(void **state) {
    (void)state;
    static const char *const comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    bool set = false;
    for (int i = 0; !set && i < CADRE_COUNT(comma); i++) set = setlocale(LC_ALL, comma[i]);
    if (!set) skip(); /* no locale with a decimal comma on this machine */
    double v = 0;
    bool point = cadre_parse_f64("0.25", &v) && v == 0.25, none = cadre_parse_f64("0,25", &v);
    setlocale(LC_ALL, "C");
    assert_true(point);
    assert_false(none);
}

static void sizes_and_times(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes, ms; /* -1: not one */
    } rows[] = {
        {"4096", 4096, 4096000},
        {"25MiB", 26214400, -1},
        {"1GB", 1000000000, -1},
        {"1e9", 1000000000, 1000000000000},
        {"1.5KiB", 1536, -1},
        {"64 KiB", 65536, -1},
        {"2gib", 2147483648, -1},
        {"30s", -1, 30000},
        {"10min", -1, 600000},
        {"1h", -1, 3600000},
        {"250ms", -1, 250},
        {"0.5s", -1, 500},
        {"2 h", -1, 7200000},
        {"1d", -1, 86400000},
        {"0", 0, 0},
        {"-1", -1, -1},
        {"-5s", -1, -1},
        {"MiB", -1, -1},
        {"10 parsecs", -1, -1},
        {"1e30", -1, -1},
        {"", -1, -1},
        {"5min ", -1, -1},
        {"1MiBx", -1, -1},
        {"9e18s", -1, -1},
    };
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        int64_t bytes = -1, ms = -1;
        bool b = cadre_parse_bytes(rows[i].text, &bytes);
        bool t = cadre_parse_duration_ms(rows[i].text, &ms);
        if (b != (rows[i].bytes >= 0) || bytes != rows[i].bytes)
            fail_msg("'%s' as bytes: %lld", rows[i].text, (long long)bytes);
        if (t != (rows[i].ms >= 0) || ms != rows[i].ms)
            fail_msg("'%s' as ms: %lld", rows[i].text, (long long)ms);
    }
}

static void truth(void **state) {
    (void)state;
    static const char *const yes[] = {"true", "yes", "on", "1", "True", "YES"};
    static const char *const no[] = {"false", "no", "off", "0", "False", "NO"};
    static const char *const neither[] = {"", "2", "y", "tru", " true", "null", "truefalse"};
    bool v = false;
    for (int i = 0; i < CADRE_COUNT(yes); i++) assert_true(cadre_parse_bool(yes[i], &v) && v);
    for (int i = 0; i < CADRE_COUNT(no); i++) assert_true(cadre_parse_bool(no[i], &v) && !v);
    for (int i = 0; i < CADRE_COUNT(neither); i++) assert_false(cadre_parse_bool(neither[i], &v));
}

static void nearest_names(void **state) {
    (void)state;
    static const char *const names[] = {"train", "eval", "generate", "checkpoint"};
    assert_int_equal(cadre_distance("", ""), 0);
    assert_int_equal(cadre_distance("kitten", "sitting"), 3);
    assert_int_equal(cadre_distance("sitting", "kitten"), 3);
    assert_int_equal(cadre_distance("abc", ""), 3);
    assert_int_equal(cadre_nearest("trian", names, 4), 0);
    assert_int_equal(cadre_nearest("genrate", names, 4), 2);
    assert_int_equal(cadre_nearest("chekpiont", names, 4), 3);
    assert_int_equal(cadre_nearest("zebra", names, 4), -1);
    assert_int_equal(cadre_nearest("x", names, 0), -1);
    char longer[500];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(cadre_nearest(longer, names, 4), -1);
    assert_true(cadre_distance("a", longer) >= 127);
}

static void patterns(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool match;
    } rows[] = {
        {"*", "", true},
        {"*", "abc", true},
        {"", "", true},
        {"", "a", false},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"a*c", "abbbc", true},
        {"a*c", "abbb", false},
        {"*.bias", "h.0.bias", true},
        {"*.bias", "h.0.bias.x", false},
        {"*a*b*", "xxaxxbxx", true},
        {"*a*b*", "xxbxxaxx", false},
        {"**x", "aax", true},
        {"h.?.w*", "h.1.weight", true},
        {"[a]", "a", false},
        {"a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    for (int i = 0; i < CADRE_COUNT(rows); i++)
        if (cadre_glob(rows[i].pattern, rows[i].text) != rows[i].match)
            fail_msg("'%s' and '%s'", rows[i].pattern, rows[i].text);
}

static void the_split_of_the_tree(void **state) {
    (void)state;
    static const int64_t want[] = {1, 2, 2, 4, 4, 4, 4, 8};
    for (int64_t n = 2; n < 10; n++) assert_int_equal(cadre_tree_split(n), want[n - 2]);
    assert_int_equal(cadre_tree_split(1025), 1024);
    assert_int_equal(cadre_tree_split(1024), 512);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_grow),
        cmocka_unit_test(the_first_failure_to_grow_sticks),
        cmocka_unit_test(numbers_are_shown_as_people_read_them),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(real_numbers),
        cmocka_unit_test(numbers_do_not_follow_the_locale),
        cmocka_unit_test(sizes_and_times),
        cmocka_unit_test(truth),
        cmocka_unit_test(nearest_names),
        cmocka_unit_test(patterns),
        cmocka_unit_test(the_split_of_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
