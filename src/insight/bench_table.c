/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of benches.
 */
#include <string.h>

#include "insight/bench.h"

static const cadre_bench_column allreduce_columns[] = {
    {"bytes", "bytes", 'b', 10, 0},         {"who", "who", 's', -9, 0},
    {"us.median", "median us", 'f', 12, 2}, {"us.min", "min us", 'f', 12, 2},
    {"us.max", "max us", 'f', 12, 2},       {"gb_per_s", "GB/s", 'f', 8, 2},
    {"of_limit", "of limit", '%', 9, 0},    {NULL}};

static const cadre_bench_column memory_columns[] = {{"op", "op", 's', -6, 0},
                                                    {"ranks", "ranks", 'i', 5, 0},
                                                    {"bytes", "bytes", 'b', 10, 0},
                                                    {"ms.median", "median ms", 'f', 12, 2},
                                                    {"ms.min", "min ms", 'f', 12, 2},
                                                    {"ms.max", "max ms", 'f', 12, 2},
                                                    {"gb_per_s", "GB/s", 'f', 8, 2},
                                                    {"of_alone", "of alone", '%', 9, 0},
                                                    {NULL}};

const cadre_bench_kind cadre_bench_kinds[] = {
    {.name = "allreduce",
     .help = "sums over the ranks, beside the machine's limit and the peers that are installed",
     .options = " --bytes --seconds --repeat ",
     .ranks = 2,
     .columns = allreduce_columns,
     .run = cadre_bench_allreduce,
     .finish = cadre_bench_peers},
    {.name = "memory",
     .help = "copy and add far beyond the caches, by one rank and by more at once",
     .options = " --bytes --seconds --repeat --threads ",
     .ranks = 2,
     .columns = memory_columns,
     .run = cadre_bench_memory},
};
const int cadre_bench_kind_count = CADRE_COUNT(cadre_bench_kinds);

cadre_status cadre_bench_find(const char *name, const cadre_bench_kind **ret_kind) {
    const char *names[CADRE_COUNT(cadre_bench_kinds)];
    char list[256] = "";
    for (int i = 0; i < cadre_bench_kind_count; i++) {
        names[i] = cadre_bench_kinds[i].name;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
        if (strcmp(name, names[i]) != 0) continue;
        *ret_kind = &cadre_bench_kinds[i];
        return CADRE_OK;
    }
    int nearest = cadre_nearest(name, names, cadre_bench_kind_count);
    if (nearest >= 0)
        return CADRE_FAIL(CADRE_EUSAGE, "no bench is called %s; did you mean %s?", name,
                          names[nearest]);
    return CADRE_FAIL(CADRE_EUSAGE, "no bench is called %s; there are %s", name, list);
}
