/* SPDX-License-Identifier: Apache-2.0
 *
 * What every test program uses: cmocka in the right order of includes, temporary folders,
 * comparisons of arrays.
 */
#ifndef CADRE_TESTS_CHECK_H
#define CADRE_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/status.h"

/* Fails the test with the status's own sentence and trail. Main thread only. */
#define OK(call) check_ok((call), #call, __FILE__, __LINE__)
void check_ok(cadre_status status, const char *call, const char *file, int line);
/* The call fails with this class, and its sentence contains `part`. Main thread only. */
#define FAILS(call, status, part) check_fails((call), (status), (part), #call, __FILE__, __LINE__)
void check_fails(cadre_status got, cadre_status want, const char *part, const char *call,
                 const char *file, int line);

/* ||a - b|| / ||b|| in double; 0 when both are zero. */
double relative_gap_f32(const float *a, const float *b, int64_t n);
double relative_gap_f64(const double *a, const double *b, int64_t n);

/* A new folder under TMPDIR, removed at exit. */
const char *temp_folder(void);
/* Writes a small file into `folder`; returns its path in a buffer of its own. */
char *temp_file(const char *folder, const char *name, const void *data, size_t bytes);
/* The path of ../shared/data/NAME, or NULL when it is not there: then call skip() and it is
 * counted. */
const char *shared_data(const char *name);

#endif
