/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's memory as measured, to lay beside the plan: the largest of the samples that a run takes
 * at the boundaries of its actions, and what the counters of base/alloc.h said at that moment.
 */
#ifndef CADRE_TRAIN_MEMORY_H
#define CADRE_TRAIN_MEMORY_H

#include "base/alloc.h"

/* Local. This process's proportional set size in bytes: its own pages, and its share of those that
 * other ranks map too. 0 when the system does not say. */
int64_t cadre_memory_now(void);

/* Local. Bytes of memory that this machine has, or lets this process's control groups have (a
 * container, a job of Slurm's). */
double cadre_memory_of_machine(void);
/* Local. The least memory limit of this process's control groups (base/cgroup.h); INFINITY: none.
 */
double cadre_memory_of_groups(const char *list, const char *root);

typedef struct cadre_memory {
    int64_t peak; /* bytes; 0: never sampled */
    /* The parts of it, as counted; `other` is what nobody counts: code, stacks, the C library. */
    int64_t at_peak[CADRE_MEM_KINDS];
} cadre_memory;

/* Local. Walks this process's page tables: some milliseconds for gigabytes of small pages. */
void cadre_memory_sample(cadre_memory *m);

#endif
