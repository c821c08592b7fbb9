/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processors this process may use (affinity mask and cgroup quota), and a rank's share of
 * them by topology (hwloc).
 */
#ifndef CADRE_BASE_CPUS_H
#define CADRE_BASE_CPUS_H

#include <cadre/base.h>

/* Processors this process may run on, at least 1. */
int cadre_cpus_count(void);
/* Cores for rank `local_rank` of `local_ranks` on this machine: contiguous in topology order,
 * physical cores first. Fills at most `room` logical ids and returns how many (0 when there are
 * more ranks than cores: do not pin). */
int cadre_cpus_share(int local_rank, int local_ranks, int *ret_cpus, int room);
/* Binds the calling thread; a failure is CADRE_ERESOURCE. */
cadre_status cadre_cpus_bind_self(const int *cpus, int n);
/* "Intel(R) Xeon(R) ...": the processor's name as the system gives it, "" when unknown. */
void cadre_cpus_model(char *ret_name, size_t room);

#endif
