/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpus.h"

#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* The cgroup's quota in processors, rounded up; 0: none. */
static int quota(void) {
    FILE *from = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!from) return 0;
    long long most = 0, period = 0;
    int got = fscanf(from, "%lld %lld", &most, &period);
    fclose(from);
    return got == 2 && most > 0 && period > 0 ? (int)((most + period - 1) / period) : 0;
}

int cadre_cpus_count(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    int limit = quota();
    if (limit > 0 && limit < count) count = limit;
    return count > 0 ? count : 1;
}

/* Logical ids this process may use in topology order: one a core first, then the cores' further
 * threads. */
static int in_order(int *ret_cpus, int room) {
    cpu_set_t allowed;
    hwloc_topology_t topology;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || hwloc_topology_init(&topology) != 0)
        return 0;
    int count = 0;
    if (hwloc_topology_load(topology) == 0) {
        int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE), found = 1;
        for (int sibling = 0; found; sibling++) {
            found = 0;
            for (int c = 0; c < cores; c++) {
                hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)c);
                int cpu = hwloc_bitmap_first(core->cpuset);
                for (int k = 0; k < sibling && cpu >= 0; k++)
                    cpu = hwloc_bitmap_next(core->cpuset, cpu);
                if (cpu < 0) continue;
                found = 1;
                if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed) && count < room)
                    ret_cpus[count++] = cpu;
            }
        }
    }
    hwloc_topology_destroy(topology);
    return count;
}

int cadre_cpus_share(int local_rank, int local_ranks, int *ret_cpus, int room) {
    int all[CPU_SETSIZE];
    int usable = in_order(all, CPU_SETSIZE), limit = cadre_cpus_count();
    if (usable > limit) usable = limit;
    if (local_ranks < 1 || local_ranks > usable) return 0;
    int each = usable / local_ranks, count = each < room ? each : room;
    for (int i = 0; i < count; i++) ret_cpus[i] = all[local_rank * each + i];
    return count;
}

cadre_status cadre_cpus_bind_self(const int *cpus, int n) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < n; i++) CPU_SET(cpus[i], &set);
    CADRE_CHECK(sched_setaffinity(0, sizeof set, &set) == 0, CADRE_ERESOURCE,
                "cannot bind to processor %d: %s", n > 0 ? cpus[0] : -1, strerror(errno));
    return CADRE_OK;
}

void cadre_cpus_model(char *ret_name, size_t room) {
    char line[512];
    if (room > 0) ret_name[0] = '\0';
    FILE *from = fopen("/proc/cpuinfo", "re");
    while (from && fgets(line, sizeof line, from)) {
        if (strncmp(line, "model name", 10) != 0) continue;
        const char *name = strchr(line, ':');
        if (!name) break;
        line[strcspn(line, "\n")] = '\0';
        snprintf(ret_name, room, "%s", name + 2);
        break;
    }
    if (from) fclose(from);
}
