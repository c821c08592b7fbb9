/* SPDX-License-Identifier: Apache-2.0
 *
 * Fault injection for tests: make the k-th fallible thing (allocation, message, file write) of this
 * process fail. Off by default and then one relaxed load.
 */
#ifndef CADRE_BASE_FAULT_H
#define CADRE_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

void cadre_fault_at(int64_t k); /* the k-th fault point from now fails, k >= 0; negative: off */
bool cadre_fault_hit(void);     /* whether it came to that since cadre_fault_at */
bool cadre_fault_here(void);    /* a fault point asks: do I fail? */

#endif
