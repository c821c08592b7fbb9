/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cadre_log_sink *sink;
static void *sink_self;

void cadre_log_to(cadre_log_sink *to, void *self) {
    pthread_mutex_lock(&lock);
    sink = to;
    sink_self = self;
    pthread_mutex_unlock(&lock);
}

void cadre_log(cadre_log_level level, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    if (sink) sink(sink_self, level, line);
    pthread_mutex_unlock(&lock);
}
