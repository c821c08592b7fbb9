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
/* Processors for rank `local_rank` of `local_ranks` on this machine: the threads of cores of its
 * own, contiguous in topology order, one of each core first. Fills at most `room` logical ids and
 * returns how many (0 when there are more ranks than processors: do not pin). */
int cadre_cpus_share(int local_rank, int local_ranks, int *ret_cpus, int room);
/* The arithmetic behind it. `places`: the usable processors in topology order (threads of a core
 * stand together); `limit`: how many may be busy at a time. */
typedef struct cadre_cpu_place {
    int cpu, core; /* logical id; the core's number, rising */
} cadre_cpu_place;
int cadre_cpus_deal(const cadre_cpu_place *places, int count, int limit, int local_rank,
                    int local_ranks, int *ret_cpus, int room);
/* Binds the calling thread; a failure is CADRE_ERESOURCE. */
cadre_status cadre_cpus_bind_self(const int *cpus, int n);
/* "Intel(R) Xeon(R) ...": the processor's name as the system gives it, "" when unknown. */
void cadre_cpus_model(char *ret_name, size_t room);

#endif
