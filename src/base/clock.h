/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_BASE_CLOCK_H
#define CADRE_BASE_CLOCK_H

#include <cadre/base.h>

int64_t cadre_now_ns(void);   /* monotonic */
double cadre_unix_time(void); /* seconds since 1970 */
static inline bool cadre_past(cadre_deadline d) {
    return cadre_now_ns() >= d;
}
void cadre_sleep_ms(int64_t ms);

#endif
