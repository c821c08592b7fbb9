/* SPDX-License-Identifier: Apache-2.0
 *
 * One failure a thread: its class, its sentence, and the places it passed through.
 */
#include "base/status.h"

#include <stdarg.h>
#include <string.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)

static _Thread_local cadre_error last;

const char *cadre_version(void) {
    return STRING(CADRE_VERSION_MAJOR) "." STRING(CADRE_VERSION_MINOR) "." STRING(
        CADRE_VERSION_PATCH);
}

static void add_site(const char *file, int line, const char *function) {
    if (last.sites < CADRE_ERROR_TRAIL)
        last.trail[last.sites++] =
            (cadre_error_site){.file = file, .function = function, .line = line};
}

cadre_status cadre_fail_at(const char *file, int line, const char *function, cadre_status status,
                           const char *format, ...) {
    char text[CADRE_ERROR_TEXT]; /* the arguments may point into the old sentence */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(last.text, text, sizeof text);
    last.status = status;
    last.sites = 0;
    add_site(file, line, function);
    return status;
}

cadre_status cadre_pass_at(const char *file, int line, const char *function, cadre_status status) {
    add_site(file, line, function);
    return status;
}

cadre_status cadre_error_prefix(cadre_status status, const char *format, ...) {
    char text[CADRE_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, "%s", last.text);
    memcpy(last.text, text, sizeof text);
    return status;
}

void cadre_error_save(cadre_error *ret_error) {
    *ret_error = last;
}

cadre_status cadre_error_restore(const cadre_error *error) {
    last = *error;
    return error->status;
}

const char *cadre_error_text(void) {
    return last.text;
}

void cadre_error_print(FILE *to) {
    if (last.status == CADRE_OK) return;
    fprintf(to, "cadre: %s\n", last.text);
    for (int i = 0; i < last.sites; i++)
        fprintf(to, "  %s %s:%d in %s\n", i == 0 ? "at" : "by", last.trail[i].file,
                last.trail[i].line, last.trail[i].function);
}

/* The classes of fault, by -status; the one list of names and exit codes. */
static const struct {
    const char *name;
    int exit_code;
} classes[] = {
    {"ok", 0},      {"usage", 2},    {"data", 3},      {"peer", 4},
    {"numeric", 5}, {"resource", 6}, {"internal", 70},
};

static int class_of(cadre_status status) {
    if (status >= 0) return 0;
    return -status < CADRE_COUNT(classes) ? -status : CADRE_COUNT(classes) - 1;
}

const char *cadre_class_name(cadre_status status) {
    return classes[class_of(status)].name;
}

int cadre_exit_code(cadre_status status) {
    return classes[class_of(status)].exit_code;
}
