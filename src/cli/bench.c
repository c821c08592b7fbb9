/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre bench: how fast this machine and Cadre are; all_reduce so far, beside the machine's limit
 * and the peers that are installed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cpus.h"
#include "base/status.h"
#include "cli/cli.h"

static cadre_status check_names(const cli_call *call) {
    static const char *const later[] = {"gemm", "memory", "step", "checkpoint", "zero"};
    static const char *const all[] = {"allreduce", "gemm", "memory", "step", "checkpoint", "zero"};
    for (int i = 0; i < call->word_count; i++) {
        const char *name = call->words[i];
        for (int k = 0; k < CADRE_COUNT(later); k++)
            CADRE_CHECK(strcmp(name, later[k]) != 0, CADRE_EUSAGE,
                        "bench %s is not built yet; `cadre bench allreduce` is", name);
        if (strcmp(name, "allreduce") == 0) continue;
        int nearest = cadre_nearest(name, all, CADRE_COUNT(all));
        return CADRE_FAIL(CADRE_EUSAGE, "no bench is called %s; did you mean %s?", name,
                          nearest >= 0 ? all[nearest] : "allreduce");
    }
    return CADRE_OK;
}

/* The environment of other programs: without our launch. */
static cadre_status environment_of_peers(const cli_call *call, char ***ret_all) {
    int count = 0, at = 0;
    while (call->env->all[count]) count++;
    CADRE_TRY(cadre_alloc_array(ret_all, CADRE_MEM_OTHER, count + 1, sizeof **ret_all));
    for (int i = 0; i < count; i++)
        if (strncmp(call->env->all[i], "CADRE_", 6) != 0) (*ret_all)[at++] = call->env->all[i];
    return CADRE_OK;
}

static cadre_status show(const cli_call *call, const cadre_bench *bench, cadre_text *to) {
    CADRE_TRY(cadre_bench_show(bench, call->json, to));
    return to->status;
}

static cadre_status measure(const cli_call *call, const cadre_bench_allreduce_opts *opts,
                            cadre_comm **world, cadre_bench *bench) {
    int cpus[1024], rank = cadre_comm_local_rank(*world), size = cadre_comm_size(*world);
    int machine = cadre_cpus_count();
    int n = cadre_cpus_share(rank, cadre_comm_local_size(*world), cpus, CADRE_COUNT(cpus));
    if (n > 0) (void)cadre_cpus_bind_self(cpus, n);
    cadre_status st = cadre_bench_allreduce(*world, opts, bench);
    if (st) {
        cadre_error error;
        cadre_error_save(&error);
        cadre_comm_abort(*world, &error);
        return cadre_error_restore(&error);
    }
    bench->cpus = machine; /* before this rank was bound to its share */
    cadre_comm_close(world);
    if (rank != 0) return CADRE_OK;
    char **environment = NULL;
    CADRE_TRY(environment_of_peers(call, &environment));
    st = cadre_bench_peers(bench, opts, size, NULL, environment);
    cadre_free(&environment);
    return st;
}

static int bench_rank(const cli_call *call, const cadre_launch *launch) {
    cadre_bench_allreduce_opts opts = {.bytes = cli_value(call, "--bytes")};
    cadre_bench bench;
    cadre_comm *world = NULL;
    cadre_text to = {0};
    memset(&bench, 0, sizeof bench);
    cli_take_signals();
    cadre_status st = cli_real(call, "--seconds", 0.001, 3600, 0, &opts.seconds);
    if (!st) st = cli_open_world(call, &world);
    if (!st) st = measure(call, &opts, &world, &bench);
    if (!st && launch->rank == 0) st = show(call, &bench, &to);
    int code = !st ? cli_print(call, &to) : 0;
    code = cli_rank_end(call, launch, world, st, code);
    cadre_text_free(&to);
    cadre_bench_free(&bench);
    cadre_comm_close(&world);
    return code;
}

int cli_bench(const cli_call *call) {
    cadre_launch launch;
    bool am_rank = false;
    int ranks = 2;
    double seconds;
    cadre_status st = cli_am_rank(&launch, &am_rank);
    if (!st && am_rank) return bench_rank(call, &launch);
    if (!st) st = check_names(call);
    if (!st) st = cli_real(call, "--seconds", 0.001, 3600, 0, &seconds);
    if (!st) st = cli_ranks(call, 2, &ranks);
    if (st) return cli_fail(call, st);
    return cli_supervise(call, ranks, NULL, NULL);
}
