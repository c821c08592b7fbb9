/* SPDX-License-Identifier: Apache-2.0
 *
 * Failing with a sentence and a trail. The trail belongs to the thread that failed;
 * cadre_error_save and cadre_error_restore carry it to another thread (a pool, a progress thread, a
 * rank as a thread).
 */
#ifndef CADRE_BASE_STATUS_H
#define CADRE_BASE_STATUS_H

#include <cadre/base.h>

enum { CADRE_ERROR_TEXT = 1024, CADRE_ERROR_TRAIL = 16 };

typedef struct cadre_error_site {
    const char *file, *function;
    int line;
} cadre_error_site;

/* A failure as a value. */
typedef struct cadre_error {
    cadre_status status;
    int sites; /* of the trail, innermost first */
    cadre_error_site trail[CADRE_ERROR_TRAIL];
    char text[CADRE_ERROR_TEXT];
} cadre_error;

/* First cause: formats the sentence, starts a new trail, returns `status`. */
cadre_status cadre_fail_at(const char *file, int line, const char *function, cadre_status status,
                           const char *format, ...) CADRE_PRINTF(5, 6);
/* Passing on: adds a line to the trail, returns `status`. */
cadre_status cadre_pass_at(const char *file, int line, const char *function, cadre_status status);
/* Puts words before the sentence, as in "runs/a.yaml line 3: " + sentence; keeps the trail; returns
 * `status`. */
cadre_status cadre_error_prefix(cadre_status status, const char *format, ...) CADRE_PRINTF(2, 3);

void cadre_error_save(cadre_error *ret_error);
cadre_status cadre_error_restore(const cadre_error *error); /* returns its status */
const char *cadre_class_name(cadre_status status); /* "usage", "data", "resource", "peer", ... */

#define CADRE_FAIL(status, ...) cadre_fail_at(__FILE__, __LINE__, __func__, (status), __VA_ARGS__)
#define CADRE_CHECK(condition, status, ...)                                                        \
    do {                                                                                           \
        if (!(condition)) return CADRE_FAIL(status, __VA_ARGS__);                                  \
    } while (0)
#define CADRE_TRY(call)                                                                            \
    do {                                                                                           \
        cadre_status try_status_ = (call);                                                         \
        if (try_status_ < 0) return cadre_pass_at(__FILE__, __LINE__, __func__, try_status_);      \
    } while (0)

#define CADRE_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

#endif
