/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre bench: runs rows of the table of benches (insight/bench.h), each on ranks of its own, one
 * after the other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/cli.h"
#include "insight/bench.h"

/* Options that are short for a setting. */
static const char *const short_for[][2] = {{"--model", "model.preset"},
                                           {"--dtype", "precision.compute"},
                                           {"--threads", "run.threads"},
                                           {"--micro-batch", "train.micro_batch"},
                                           {"--context", "train.context"}};

void cli_bench_list(FILE *to) {
    fprintf(to, "\nbenches:\n");
    for (int i = 0; i < cadre_bench_kind_count; i++)
        fprintf(to, "  %-11s %s\n  %-11s  %s--ranks (%d)\n", cadre_bench_kinds[i].name,
                cadre_bench_kinds[i].help, "", cadre_bench_kinds[i].options + 1,
                cadre_bench_kinds[i].ranks);
}

static bool takes(const cadre_bench_kind *kind, const char *option) {
    char word[64];
    snprintf(word, sizeof word, " %s ", option);
    return strstr(kind->options, word) != NULL;
}

/* Names that there are, options that one of them takes. */
static cadre_status check_words(const cli_call *call) {
    const cadre_bench_kind *kind[CLI_WORDS];
    for (int i = 0; i < call->word_count; i++)
        CADRE_TRY(cadre_bench_find(call->words[i], &kind[i]));
    CADRE_CHECK(!call->json || call->word_count == 1, CADRE_EUSAGE,
                "--json prints one document; name one bench, not %d", call->word_count);
    for (const cli_option *o = call->verb->options; o->name; o++) {
        bool taken = cli_value(call, o->name) == NULL;
        for (int i = 0; i < call->word_count; i++) taken = taken || takes(kind[i], o->name);
        CADRE_CHECK(taken, CADRE_EUSAGE,
                    "bench %s takes no %s; `cadre bench --help` lists which does", call->words[0],
                    o->name);
    }
    return CADRE_OK;
}

static cadre_status read_options(const cli_call *call, cadre_bench_opts *opts,
                                 cadre_settings **ret_set) {
    CADRE_TRY(cli_real(call, "--seconds", 0.001, 3600, 0, &opts->seconds));
    CADRE_TRY(cli_integer(call, "--repeat", 1, 1000000, 0, &opts->repeat));
    opts->bytes = cli_value(call, "--bytes");
    opts->folder = call->env->run_folder;
    opts->independent = cli_value(call, "--independent") != NULL;
    CADRE_TRY(cli_open_settings(call, NULL, ret_set));
    for (int i = 0; i < CADRE_COUNT(short_for); i++) {
        const char *value = cli_value(call, short_for[i][0]);
        if (value) CADRE_TRY(cadre_settings_set(*ret_set, short_for[i][1], value));
    }
    opts->set = *ret_set;
    return CADRE_OK;
}

/* ---- a rank ---- */

/* The environment of other programs: without our launch. */
static cadre_status environment_of_peers(const cli_call *call, char ***ret_all) {
    int count = 0, at = 0;
    while (call->env->all[count]) count++;
    CADRE_TRY(cadre_alloc_array(ret_all, CADRE_MEM_OTHER, count + 1, sizeof **ret_all));
    for (int i = 0; i < count; i++)
        if (strncmp(call->env->all[i], "CADRE_", 6) != 0) (*ret_all)[at++] = call->env->all[i];
    return CADRE_OK;
}

static cadre_status finish(const cli_call *call, const cadre_bench_kind *kind,
                           cadre_bench_opts *opts, cadre_bench *bench) {
    char **environment = NULL;
    if (!kind->finish) return CADRE_OK;
    CADRE_TRY(environment_of_peers(call, &environment));
    opts->environment = environment;
    cadre_status st = kind->finish(bench, opts);
    cadre_free(&environment);
    return st;
}

static cadre_status measure(const cli_call *call, const cadre_bench_kind *kind,
                            cadre_bench_opts *opts, cadre_comm **world, cadre_bench *bench) {
    int rank = cadre_comm_rank(*world);
    CADRE_TRY(cadre_bench_open(bench, kind, *world));
    cadre_status st = kind->run(*world, opts, bench);
    if (st) {
        cadre_error error;
        cadre_error_save(&error);
        cadre_comm_abort(*world, &error);
        return cadre_error_restore(&error);
    }
    cadre_comm_close(world);
    return rank == 0 ? finish(call, kind, opts, bench) : CADRE_OK;
}

static int bench_rank(const cli_call *call, const cadre_launch *launch) {
    const cadre_bench_kind *kind = NULL;
    cadre_bench_opts opts = {0};
    cadre_settings *set = NULL;
    cadre_bench bench = {0};
    cadre_comm *world = NULL;
    cadre_text to = {0};
    cli_take_signals();
    cadre_status st = check_words(call);
    if (!st && call->word_count != 1)
        st = CADRE_FAIL(CADRE_EUSAGE, "name one bench where a launcher starts the ranks");
    if (!st) st = cadre_bench_find(call->words[0], &kind);
    if (!st) st = read_options(call, &opts, &set);
    if (!st) st = cli_open_world(call, &world);
    if (!st) st = measure(call, kind, &opts, &world, &bench);
    if (!st && launch->rank == 0) st = cadre_bench_show(&bench, call->json, &to);
    int code = !st ? cli_print(call, &to) : 0;
    code = cli_rank_end(call, launch, world, st, code);
    cadre_text_free(&to);
    cadre_bench_close(&bench);
    cadre_settings_close(&set);
    cadre_comm_close(&world);
    return code;
}

/* ---- the supervisor ---- */

/* What a bench writes is the supervisor's to remove: it lives longer than ranks that are killed. */
static int supervise(const cli_call *call, const cadre_bench_kind *kind, int ranks) {
    char variable[64] = "CADRE_RUN_FOLDER=cadre-bench-XXXXXX";
    char *folder = strchr(variable, '=') + 1, *more[] = {variable, NULL};
    if (!kind->writes) return cli_supervise(call, ranks, NULL, NULL);
    if (!mkdtemp(folder))
        return cli_fail(call, CADRE_FAIL(CADRE_ERESOURCE,
                                         "cannot make a folder in the current "
                                         "one: %s",
                                         strerror(errno)));
    int code = cli_supervise(call, ranks, NULL, more);
    cadre_status st = cadre_remove_tree(folder);
    return st && code == 0 ? cli_fail(call, st) : code;
}

/* The same command line with one name of a bench alone. */
static int start(const cli_call *call, int which) {
    const cadre_bench_kind *kind = NULL;
    cli_call one = *call;
    int ranks = 0, n = 0;
    cadre_status st = cadre_bench_find(call->words[which], &kind);
    if (!st) st = cli_ranks(call, kind->ranks, &ranks);
    if (!st) st = cadre_alloc_array(&one.argv, CADRE_MEM_OTHER, call->argc + 1, sizeof *one.argv);
    if (st) return cli_fail(call, st);
    for (int i = 0; i < call->argc; i++) {
        bool other = false;
        for (int k = 0; k < call->word_count; k++)
            other = other || (k != which && call->argv[i] == call->words[k]);
        if (!other) one.argv[n++] = call->argv[i];
    }
    one.argc = n;
    int code = supervise(&one, kind, ranks);
    cadre_free(&one.argv);
    return code;
}

int cli_bench(const cli_call *call) {
    cadre_launch launch;
    cadre_bench_opts opts = {0};
    cadre_settings *set = NULL;
    bool am_rank = false;
    int ranks, code = 0;
    cadre_status st = cli_am_rank(&launch, &am_rank);
    if (!st && am_rank) return bench_rank(call, &launch);
    if (!st && call->word_count == 0) {
        cli_verb_usage(call->verb, stderr);
        return 2;
    }
    if (!st) st = check_words(call);
    if (!st) st = cli_ranks(call, 1, &ranks);
    if (!st) st = read_options(call, &opts, &set);
    cadre_settings_close(&set);
    if (st) return cli_fail(call, st);
    for (int i = 0; i < call->word_count && code == 0; i++) {
        if (i > 0) printf("\n");
        fflush(stdout);
        code = start(call, i);
    }
    return code;
}
