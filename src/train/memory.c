/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory as the system counts it. Ranks read each other's gradients in place, so the resident set
 * counts those pages once a rank; the proportional set (Pss) counts them once in all.
 */
#include "train/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/file.h"

int64_t cadre_memory_now(void) {
    FILE *from = fopen("/proc/self/smaps_rollup", "re");
    if (!from) return 0;
    char line[256];
    int64_t kib = 0;
    while (fgets(line, sizeof line, from))
        if (sscanf(line, "Pss: %" SCNd64, &kib) == 1) break;
    fclose(from);
    return kib * 1024;
}

static double limit_in(const char *folder, const char *name) {
    char path[2 * CADRE_PATH + 32];
    double limit = INFINITY;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *from = fopen(path, "re");
    if (!from) return limit;
    if (fscanf(from, "%lf", &limit) != 1) limit = INFINITY; /* "max" */
    fclose(from);
    return limit;
}

/* A folder holds the file of one version of control groups. */
static double limit_of(const char *folder) {
    return fmin(limit_in(folder, "memory.max"), limit_in(folder, "memory.limit_in_bytes"));
}

double cadre_memory_of_groups(const char *list, const char *root) {
    return cadre_cgroup_least(list, root, "memory", limit_of);
}

double cadre_memory_of_machine(void) {
    double all = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return fmin(all, cadre_memory_of_groups(CADRE_CGROUP_LIST, CADRE_CGROUP_ROOT));
}

void cadre_memory_sample(cadre_memory *m) {
    int64_t now = cadre_memory_now(), counted = 0;
    if (now <= m->peak) return;
    m->peak = now;
    for (int i = 0; i < CADRE_MEM_KINDS; i++) {
        m->at_peak[i] = cadre_mem_live((cadre_mem)i);
        counted += i == CADRE_MEM_OTHER ? 0 : m->at_peak[i];
    }
    m->at_peak[CADRE_MEM_OTHER] = now - counted;
}
