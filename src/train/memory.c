/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory as the system counts it. Ranks read each other's gradients in place, so the resident set
 * counts those pages once a rank; the proportional set (Pss) counts them once in all.
 */
#include "train/memory.h"

#include <inttypes.h>
#include <stdio.h>

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
