/* SPDX-License-Identifier: Apache-2.0
 *
 * Statuses: the sentence, the trail, the classes, one failure a thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

static cadre_status innermost(int n) {
    CADRE_CHECK(n < 3, CADRE_EDATA, "%d is more than %d", n, 2);
    return CADRE_OK;
}

static cadre_status middle(int n) {
    CADRE_TRY(innermost(n));
    return CADRE_OK;
}

static cadre_status outer(int n) {
    CADRE_TRY(middle(n));
    return CADRE_OK;
}

static void a_failure_has_a_sentence_and_a_trail(void **state) {
    (void)state;
    cadre_error e;
    OK(outer(2));
    FAILS(outer(7), CADRE_EDATA, "7 is more than 2");
    cadre_error_save(&e);
    assert_int_equal(e.status, CADRE_EDATA);
    assert_int_equal(e.sites, 3);
    assert_string_equal(e.trail[0].function, "innermost");
    assert_string_equal(e.trail[1].function, "middle");
    assert_string_equal(e.trail[2].function, "outer");
    assert_true(e.trail[0].line > 0);
    /* from the tree's root: no machine's paths in messages */
    assert_string_equal(e.trail[0].file, "tests/base/test_status.c");
}

static cadre_status still_going(void) {
    return CADRE_PENDING;
}

static cadre_status asks(bool *ret_went_on) {
    CADRE_TRY(still_going());
    *ret_went_on = true;
    return CADRE_OK;
}

static void pending_is_not_a_failure(void **state) {
    (void)state;
    bool went_on = false;
    OK(asks(&went_on));
    assert_true(went_on);
}

static void a_prefix_keeps_the_trail(void **state) {
    (void)state;
    cadre_status st = outer(9);
    assert_int_equal(cadre_error_prefix(st, "%s line %d: ", "run.yaml", 3), CADRE_EDATA);
    assert_string_equal(cadre_error_text(), "run.yaml line 3: 9 is more than 2");
    cadre_error e;
    cadre_error_save(&e);
    assert_int_equal(e.sites, 3);
}

static void arguments_may_be_the_old_sentence(void **state) {
    (void)state;
    (void)CADRE_FAIL(CADRE_EDATA, "cause");
    (void)CADRE_FAIL(CADRE_EUSAGE, "because of %s", cadre_error_text());
    assert_string_equal(cadre_error_text(), "because of cause");
}

static void long_sentences_and_trails_are_cut(void **state) {
    (void)state;
    char text[4 * CADRE_ERROR_TEXT];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    cadre_status st = CADRE_FAIL(CADRE_EUSAGE, "%s", text);
    assert_int_equal(strlen(cadre_error_text()), CADRE_ERROR_TEXT - 1);
    cadre_error_prefix(st, "%s", text);
    assert_int_equal(strlen(cadre_error_text()), CADRE_ERROR_TEXT - 1);
    for (int i = 0; i < 100; i++) (void)cadre_pass_at("f.c", i, "f", st);
    cadre_error e;
    cadre_error_save(&e);
    assert_int_equal(e.sites, CADRE_ERROR_TRAIL);
    assert_string_equal(e.trail[0].function, "long_sentences_and_trails_are_cut");
}

static void *fails_elsewhere(void *arg) {
    char *ret_first = arg;
    snprintf(ret_first, 16, "%s", cadre_error_text());
    (void)CADRE_FAIL(CADRE_EPEER, "another thread");
    return NULL;
}

static void each_thread_has_its_own(void **state) {
    (void)state;
    char first[16] = "?";
    pthread_t thread;
    (void)CADRE_FAIL(CADRE_EUSAGE, "mine");
    assert_int_equal(pthread_create(&thread, NULL, fails_elsewhere, first), 0);
    pthread_join(thread, NULL);
    assert_string_equal(first, "");
    assert_string_equal(cadre_error_text(), "mine");
}

static void *restores(void *arg) {
    cadre_error *e = arg;
    bool same =
        cadre_error_restore(e) == CADRE_ENUMERIC && strcmp(cadre_error_text(), "carried over") == 0;
    return same ? arg : NULL;
}

static void a_failure_travels_between_threads(void **state) {
    (void)state;
    cadre_error e;
    pthread_t thread;
    void *same = NULL;
    (void)CADRE_FAIL(CADRE_ENUMERIC, "carried over");
    cadre_error_save(&e);
    assert_int_equal(pthread_create(&thread, NULL, restores, &e), 0);
    pthread_join(thread, &same);
    assert_non_null(same);
}

static void printing_shows_sentence_and_trail(void **state) {
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    assert_non_null(to);
    (void)outer(5);
    cadre_error_print(to);
    fclose(to);
    assert_ptr_equal(strstr(text, "cadre: 5 is more than 2\n"), text);
    const char *inner = strstr(text, "in innermost"), *last = strstr(text, "in outer");
    assert_non_null(inner);
    assert_true(last > inner);
    free(text);
}

static void classes_have_names_and_exit_codes(void **state) {
    (void)state;
    static const struct {
        cadre_status status;
        int code;
        const char *name;
    } all[] = {
        {CADRE_OK, 0, "ok"},
        {CADRE_EUSAGE, 2, "usage"},
        {CADRE_EDATA, 3, "data"},
        {CADRE_EPEER, 4, "peer"},
        {CADRE_ENUMERIC, 5, "numeric"},
        {CADRE_ERESOURCE, 6, "resource"},
        {CADRE_EINTERNAL, 70, "internal"},
    };
    for (int i = 0; i < CADRE_COUNT(all); i++) {
        assert_int_equal(cadre_exit_code(all[i].status), all[i].code);
        assert_string_equal(cadre_class_name(all[i].status), all[i].name);
    }
    assert_int_equal(cadre_exit_code(CADRE_PENDING), 0);
    assert_int_equal(cadre_exit_code(-1000), 70);
    assert_string_equal(cadre_version(), "0.1.0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_has_a_sentence_and_a_trail),
        cmocka_unit_test(pending_is_not_a_failure),
        cmocka_unit_test(a_prefix_keeps_the_trail),
        cmocka_unit_test(arguments_may_be_the_old_sentence),
        cmocka_unit_test(long_sentences_and_trails_are_cut),
        cmocka_unit_test(each_thread_has_its_own),
        cmocka_unit_test(a_failure_travels_between_threads),
        cmocka_unit_test(printing_shows_sentence_and_trail),
        cmocka_unit_test(classes_have_names_and_exit_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
