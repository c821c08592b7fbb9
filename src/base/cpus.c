/* SPDX-License-Identifier: Apache-2.0
 *
 * Processors: how many (affinity mask, cgroup quota), and which ones are a rank's.
 */
#include "base/cpus.h"

#include <errno.h>
#include <hwloc.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/file.h"
#include "base/status.h"

/* The quota of one cgroup in processors, rounded up. */
static double quota_of(const char *folder) {
    char path[2 * CADRE_PATH + 16];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *from = fopen(path, "re");
    if (!from) return INFINITY;
    long long most = 0, period = 0;
    int got = fscanf(from, "%lld %lld", &most, &period);
    fclose(from);
    return got == 2 && most > 0 && period > 0 ? (double)((most + period - 1) / period) : INFINITY;
}

int cadre_cpus_count(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                            : (int)sysconf(_SC_NPROCESSORS_ONLN);
    double limit = cadre_cgroup_least(CADRE_CGROUP_LIST, CADRE_CGROUP_ROOT, NULL, quota_of);
    if (limit < count) count = (int)limit;
    return count > 0 ? count : 1;
}

static int places_of(hwloc_topology_t topology, const cpu_set_t *allowed,
                     cadre_cpu_place *ret_places, int room) {
    int count = 0;
    for (unsigned i = 0; count < room; i++) {
        hwloc_obj_t cpu = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, i);
        if (!cpu) break;
        if (cpu->os_index >= CPU_SETSIZE || !CPU_ISSET(cpu->os_index, allowed)) continue;
        hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, cpu);
        ret_places[count++] = (cadre_cpu_place){.cpu = (int)cpu->os_index,
                                                .core = (int)(core ? core->logical_index : i)};
    }
    return count;
}

/* Where each core's places begin; returns the number of cores. */
static int core_starts(const cadre_cpu_place *places, int count, int *ret_starts) {
    int cores = 0;
    for (int i = 0; i < count; i++)
        if (i == 0 || places[i].core != places[i - 1].core) ret_starts[cores++] = i;
    ret_starts[cores] = count;
    return cores;
}

int cadre_cpus_deal(const cadre_cpu_place *places, int count, int limit, int local_rank,
                    int local_ranks, int *ret_cpus, int room) {
    int starts[CPU_SETSIZE + 1];
    if (count > CPU_SETSIZE) count = CPU_SETSIZE;
    if (limit > count) limit = count;
    if (local_ranks < 1 || local_rank < 0 || local_rank >= local_ranks || local_ranks > limit)
        return 0;
    int most = limit / local_ranks, got = 0, cores = core_starts(places, count, starts);
    if (most > room) most = room;
    if (local_ranks > cores) { /* ranks share cores: each has a run of their threads */
        for (int i = 0; i < most; i++) ret_cpus[i] = places[local_rank * most + i].cpu;
        return most;
    }
    int each = cores / local_ranks, first = local_rank * each;
    for (int sibling = 0, before = -1; got < most && got != before; sibling++) {
        before = got;
        for (int c = first; c < first + each && got < most; c++)
            if (starts[c] + sibling < starts[c + 1])
                ret_cpus[got++] = places[starts[c] + sibling].cpu;
    }
    return got;
}

int cadre_cpus_share(int local_rank, int local_ranks, int *ret_cpus, int room) {
    cadre_cpu_place places[CPU_SETSIZE];
    cpu_set_t allowed;
    hwloc_topology_t topology;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || hwloc_topology_init(&topology) != 0)
        return 0;
    int count =
        hwloc_topology_load(topology) == 0 ? places_of(topology, &allowed, places, CPU_SETSIZE) : 0;
    hwloc_topology_destroy(topology);
    return cadre_cpus_deal(places, count, cadre_cpus_count(), local_rank, local_ranks, ret_cpus,
                           room);
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
        snprintf(ret_name, room, "%s", name + 1 + strspn(name + 1, " "));
        break;
    }
    if (from) fclose(from);
}
