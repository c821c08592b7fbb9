/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

void check_ok(cadre_status status, const char *call, const char *file, int line) {
    if (status >= 0) return;
    cadre_error_print(stderr);
    print_error("%s failed: %s\n", call, cadre_error_text());
    _fail(file, line);
}

void check_fails(cadre_status got, cadre_status want, const char *part, const char *call,
                 const char *file, int line) {
    if (got == want && strstr(cadre_error_text(), part)) return;
    print_error("%s gave status %d \"%s\"; expected %d with \"%s\"\n", call, got,
                got < 0 ? cadre_error_text() : "", want, part);
    _fail(file, line);
}

static double gap(double difference, double norm) {
    if (difference == 0) return 0;
    return norm > 0 ? sqrt(difference / norm) : INFINITY;
}

double relative_gap_f32(const float *a, const float *b, int64_t n) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return gap(difference, norm);
}

double relative_gap_f64(const double *a, const double *b, int64_t n) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return gap(difference, norm);
}

static char folders[16][CADRE_PATH];
static int folder_count;

static void remove_folders(void) {
    for (int i = 0; i < folder_count; i++) (void)cadre_remove_tree(folders[i]);
}

const char *temp_folder(void) {
    const char *tmp = getenv("TMPDIR");
    if (folder_count == CADRE_COUNT(folders)) abort();
    char *path = folders[folder_count];
    snprintf(path, CADRE_PATH, "%s/cadre-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(path)) abort();
    if (folder_count++ == 0) atexit(remove_folders);
    return path;
}

char *temp_file(const char *folder, const char *name, const void *data, size_t bytes) {
    char *path = malloc(CADRE_PATH);
    if (!path) abort();
    cadre_join(path, CADRE_PATH, folder, name);
    FILE *to = fopen(path, "wb");
    if (!to || fwrite(data, 1, bytes, to) != bytes || fclose(to) != 0) abort();
    return path;
}

const char *shared_data(const char *name) {
    static char path[CADRE_PATH];
    snprintf(path, sizeof path, "%s/../shared/data/%s", CADRE_SOURCE_DIR, name);
    return access(path, R_OK) == 0 ? path : NULL;
}
