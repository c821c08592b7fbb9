/* SPDX-License-Identifier: Apache-2.0
 *
 * Log lines go to the sink that the program installed; without one they go nowhere. Any thread.
 */
#ifndef CADRE_BASE_LOG_H
#define CADRE_BASE_LOG_H

#include <cadre/base.h>

typedef enum cadre_log_level {
    CADRE_LOG_DEBUG,
    CADRE_LOG_INFO,
    CADRE_LOG_WARN,
    CADRE_LOG_ERROR
} cadre_log_level;
typedef void cadre_log_sink(void *self, cadre_log_level level,
                            const char *line); /* one whole line without its end */

void cadre_log_to(cadre_log_sink *sink, void *self); /* NULL: nowhere */
void cadre_log(cadre_log_level level, const char *format, ...) CADRE_PRINTF(2, 3);

#endif
