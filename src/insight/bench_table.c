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

static const cadre_bench_column gemm_columns[] = {{"phase", "product", 's', -8, 0},
                                                  {"rows", "rows", 'i', 6, 0},
                                                  {"in", "in", 'i', 6, 0},
                                                  {"out", "out", 'i', 6, 0},
                                                  {"calls", "calls", 'i', 5, 0},
                                                  {"us.median", "median us", 'f', 10, 1},
                                                  {"us.min", "min us", 'f', 10, 1},
                                                  {"us.max", "max us", 'f', 10, 1},
                                                  {"gflop_per_s", "GFLOP/s", 'f', 8, 1},
                                                  {"of_limit", "of limit", '%', 8, 0},
                                                  {"best_layout", "best", 's', -7, 0},
                                                  {"best_gflop_per_s", "GFLOP/s", 'f', 8, 1},
                                                  {NULL}};

static const cadre_bench_column step_columns[] = {{"who", "who", 's', -11, 0},
                                                  {"model", "model", 's', -10, 0},
                                                  {"dtype", "dtype", 's', -5, 0},
                                                  {"ranks", "ranks", 'i', 5, 0},
                                                  {"threads", "threads", 'i', 7, 0},
                                                  {"micro_batch", "micro", 'i', 5, 0},
                                                  {"context", "context", 'i', 7, 0},
                                                  {"step_ms.median", "median ms", 'f', 10, 2},
                                                  {"step_ms.min", "min ms", 'f', 10, 2},
                                                  {"step_ms.max", "max ms", 'f', 10, 2},
                                                  {"tokens_per_s", "tok/s", 'f', 9, 0},
                                                  {"of_gemm_limit", "of limit", '%', 8, 1},
                                                  {"of_independent", "of indep.", '%', 9, 1},
                                                  {"of_alone", "of alone", '%', 8, 1},
                                                  {NULL}};

static const cadre_bench_column checkpoint_columns[] = {{"op", "op", 's', -6, 0},
                                                        {"who", "who", 's', -6, 0},
                                                        {"ranks", "ranks", 'i', 5, 0},
                                                        {"bytes", "bytes", 'b', 10, 0},
                                                        {"ms.median", "median ms", 'f', 12, 2},
                                                        {"ms.min", "min ms", 'f', 12, 2},
                                                        {"ms.max", "max ms", 'f', 12, 2},
                                                        {"gb_per_s", "GB/s", 'f', 8, 2},
                                                        {"of_limit", "of limit", '%', 9, 0},
                                                        {NULL}};

#define MODEL_OPTIONS " --model --dtype --threads --micro-batch --context"

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
    {.name = "gemm",
     .help = "each matrix product of a model's step, beside the fastest product of this machine",
     .options = MODEL_OPTIONS " --seconds --repeat ",
     .ranks = 1,
     .columns = gemm_columns,
     .run = cadre_bench_gemm},
    {.name = "step",
     .help = "a model's training step taken apart, beside the time of its products alone",
     .options = MODEL_OPTIONS " --independent --seconds --repeat ",
     .ranks = 1,
     .columns = step_columns,
     .run = cadre_bench_step,
     .notes = cadre_bench_step_notes},
    {.name = "checkpoint",
     .help = "saving and loading a model in training, beside the same bytes plainly",
     .options = MODEL_OPTIONS " --seconds --repeat ",
     .ranks = 1,
     .writes = true,
     .columns = checkpoint_columns,
     .run = cadre_bench_checkpoint},
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
