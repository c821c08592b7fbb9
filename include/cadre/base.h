/* SPDX-License-Identifier: Apache-2.0
 *
 * Cadre, base: what every other part of the interface speaks in: statuses, deadlines, settings.
 *
 * Contracts of the whole library:
 *   - Every function that can fail returns a cadre_status. Nothing in the library exits, aborts or
 * prints on its own.
 *   - `ret_` arguments are written on success only. `close` takes the address, accepts NULL, leaves
 * NULL.
 *   - One object belongs to one thread at a time, except where a function says otherwise.
 *   - "Collective over X" means: every rank of X must make the call, in the same order. "Local"
 * means: no rank waits.
 */
#ifndef CADRE_BASE_H
#define CADRE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define CADRE_API __attribute__((visibility("default")))
#define CADRE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CADRE_API
#define CADRE_PRINTF(text, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CADRE_VERSION_MAJOR 0
#define CADRE_VERSION_MINOR 1
#define CADRE_VERSION_PATCH 0

/* Local. "0.1.0". */
CADRE_API const char *cadre_version(void);

/* ---- status ---- */

/* 0 is success, negative values are the classes of fault, CADRE_PENDING comes from cadre_work_test
 * alone. */
typedef int cadre_status;

#define CADRE_OK 0
#define CADRE_PENDING 1
#define CADRE_EUSAGE                                                                               \
    (-1) /* a call, a setting or a combination of settings that cannot be; exit code 2 */
#define CADRE_EDATA (-2)     /* data or a checkpoint that cannot be read; 3 */
#define CADRE_EPEER (-3)     /* another rank failed, is late, or called something else; 4 */
#define CADRE_ENUMERIC (-4)  /* a value that is not finite; 5 */
#define CADRE_ERESOURCE (-5) /* memory, disk, permission; 6 */
#define CADRE_EINTERNAL (-6) /* a fault of Cadre itself; 70 */

/* Local, any thread. The sentence of this thread's last failure; "" when there was none. Valid
 * until the next failure. */
CADRE_API const char *cadre_error_text(void);

/* Local, any thread. Writes the sentence, then the trail (file, line, function), innermost first.
 */
CADRE_API void cadre_error_print(FILE *to);

/* Local. The process exit code that belongs to a status: 0 for CADRE_OK, 2 for CADRE_EUSAGE, and so
 * on. */
CADRE_API int cadre_exit_code(cadre_status status);

/* ---- deadlines ---- */

/* A moment on the monotonic clock, in nanoseconds. No wait in Cadre is without one. */
typedef int64_t cadre_deadline;

/* Local, any thread. The moment `ms` milliseconds from now. */
CADRE_API cadre_deadline cadre_in_ms(int64_t ms);

/* ---- settings: one table for the file, the command line, the help and this interface ---- */

typedef struct cadre_settings cadre_settings;

/* Local. All settings at their defaults; then those of the YAML file `run_file` (NULL: defaults
 * alone). */
CADRE_API cadre_status cadre_settings_open(cadre_settings **ret_set, const char *run_file);

/* Local. Sets `name` ("optim.lr") from text, as on the command line; an unknown name is
 * CADRE_EUSAGE and names the nearest. */
CADRE_API cadre_status cadre_settings_set(cadre_settings *set, const char *name, const char *value);

/* Local. The value as text, NULL when unset or unknown. Valid until the setting is changed. */
CADRE_API const char *cadre_settings_get(const cadre_settings *set, const char *name);

CADRE_API void cadre_settings_close(cadre_settings **set);

#ifdef __cplusplus
}
#endif
#endif
