/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory as the system counts it. Ranks read each other's gradients in place, so the resident set
 * counts those pages once a rank; the proportional set (Pss) counts them once in all.
 */
#include "train/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* The number in a file, INFINITY where there is none ("max", no file). */
static double limit_in(const char *path) {
    double limit = INFINITY;
    FILE *from = fopen(path, "re");
    if (!from) return limit;
    if (fscanf(from, "%lf", &limit) != 1) limit = INFINITY;
    fclose(from);
    return limit;
}

/* The least limit of a group and of all around it. */
static double limit_around(const char *root, const char *part, char *group, const char *file) {
    char path[2 * CADRE_PATH];
    double least = INFINITY;
    for (;;) {
        snprintf(path, sizeof path, "%s%s%s/%s", root, part, group, file);
        least = fmin(least, limit_in(path));
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

double cadre_memory_of_groups(const char *list, const char *root) {
    char line[CADRE_PATH];
    double least = INFINITY;
    FILE *from = fopen(list, "re");
    if (!from) return least;
    while (
        fgets(line, sizeof line, from)) { /* ID:CONTROLLERS:GROUP, version 2 has no controllers */
        line[strcspn(line, "\n")] = 0;
        char *kinds = strchr(line, ':'), *group = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        if (!kinds[1])
            least = fmin(least, limit_around(root, "", group, "memory.max"));
        else if (strstr(kinds, "memory"))
            least = fmin(least, limit_around(root, "/memory", group, "memory.limit_in_bytes"));
    }
    fclose(from);
    return least;
}

double cadre_memory_of_machine(void) {
    double all = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return fmin(all, cadre_memory_of_groups("/proc/self/cgroup", "/sys/fs/cgroup"));
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
