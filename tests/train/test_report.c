/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rank's failure was the first cause, and the one report about it.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "train/report.h"

static cadre_rank_fate told(int order, cadre_status status, int cause, const char *text) {
    cadre_rank_fate f = {.started = true, .ended = true, .told = true, .order = order};
    f.code = cadre_exit_code(status);
    f.end.status = status;
    f.end.cause = cause;
    snprintf(f.end.text, sizeof f.end.text, "%s", text);
    return f;
}

static cadre_rank_fate died(int order, int signal, int code) {
    return (cadre_rank_fate){
        .started = true, .ended = true, .order = order, .signal = signal, .code = code};
}

static void first_causes(void **state) {
    (void)state;
    cadre_rank_fate f[3];
    /* Nobody failed; ended as agreed with a code. */
    f[0] = told(0, CADRE_OK, -1, "");
    f[1] = told(1, CADRE_OK, -1, "");
    f[1].code = 75;
    assert_int_equal(cadre_first_cause(f, 2), -1);
    /* The peers report before the death is seen. */
    f[0] = told(0, CADRE_EPEER, -1, "rank 1 ended");
    f[1] = died(1, SIGKILL, 0);
    f[2] = told(2, CADRE_EPEER, 1, "rank 1 ended");
    assert_int_equal(cadre_first_cause(f, 3), 1);
    /* A rank that fails by itself; the others repeat it. */
    f[0] = told(0, CADRE_EPEER, 2, "rank 2: no such file");
    f[1] = told(1, CADRE_EPEER, 2, "rank 2: no such file");
    f[2] = told(2, CADRE_EDATA, -1, "no such file");
    assert_int_equal(cadre_first_cause(f, 3), 2);
    /* All find the same fault: the first that said it. */
    f[0] = told(2, CADRE_EDATA, -1, "no such file");
    f[1] = told(0, CADRE_EDATA, -1, "no such file");
    assert_int_equal(cadre_first_cause(f, 2), 1);
    /* A time-out of one's own is nearer than the repetition of it. */
    f[0] = told(0, CADRE_EPEER, 1, "repeated");
    f[1] = told(1, CADRE_EPEER, -1, "waits for rank 0");
    assert_int_equal(cadre_first_cause(f, 2), 1);
    /* Whom the supervisor killed has not failed. */
    f[0] = died(1, SIGKILL, 0);
    f[0].killed = true;
    f[1] = died(0, 0, 3);
    assert_int_equal(cadre_first_cause(f, 2), 1);
    f[1] = died(0, 0, 0);
    assert_int_equal(cadre_first_cause(f, 2), -1);
}

static void report_texts(void **state) {
    (void)state;
    cadre_rank_fate f[2];
    cadre_text text = {0};
    const char *folder = temp_folder(), *log = "one\ntwo\nthree\nfour\nfive\nsix\n";
    free(temp_file(folder, "rank-001.log", log, strlen(log)));
    f[0] = told(0, CADRE_EPEER, 1, "all_reduce 'bucket 3' waits for rank 1");
    f[1] = died(1, SIGKILL, 0);
    cadre_failure_text(f, 2, 1, folder, &text);
    const char *parts[] = {"rank 1 of 2", "SIGKILL", "out-of-memory", "bucket 3",
                           "| three",     "| six",   "rank-001.log"};
    for (int i = 0; i < CADRE_COUNT(parts); i++) assert_non_null(strstr(text.at, parts[i]));
    assert_null(strstr(text.at, "| two"));
    cadre_text_clear(&text);
    f[1] = told(1, CADRE_ERESOURCE, -1, "the disk is full");
    cadre_failure_text(f, 2, 1, folder, &text);
    assert_string_equal(text.at, "rank 1: the disk is full");
    cadre_text_clear(&text);
    f[1] = told(1, CADRE_EDATA, -1, "x.txt is empty"); /* the same on every rank */
    cadre_failure_text(f, 2, 1, folder, &text);
    assert_string_equal(text.at, "x.txt is empty");
    cadre_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_causes),
        cmocka_unit_test(report_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
