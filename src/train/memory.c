/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory as the system counts it. Ranks read each other's gradients in place, so the resident set
 * counts those pages once a rank; the proportional set (Pss) counts them once in all.
 */
#include "train/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

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

double cadre_memory_of_machine(void) {
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
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
