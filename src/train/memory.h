/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_TRAIN_MEMORY_H
#define CADRE_TRAIN_MEMORY_H

#include <stdint.h>

/* Local. This process's proportional set size in bytes: its own pages, and its share of those that
 * other ranks map too. 0 when the system does not say. */
int64_t cadre_memory_now(void);

#endif
