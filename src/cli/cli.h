/* SPDX-License-Identifier: Apache-2.0
 *
 * The command: a table of verbs, one file each. A verb gets a parsed call and returns an exit code.
 */
#ifndef CADRE_CLI_CLI_H
#define CADRE_CLI_CLI_H

#include "base/settings.h"
#include "checkpoint/checkpoint.h"
#include "comm/launch.h"
#include "insight/insight.h"

enum { CLI_OPTIONS = 12, CLI_WORDS = 256 };

/* An option of a verb besides -q, -v, --help and the settings. */
typedef struct cli_option {
    const char *name;  /* "--prompt" */
    const char *value; /* "TEXT"; NULL: a flag */
    const char *help;  /* one sentence without its full stop */
} cli_option;

/* What the program knows about its surroundings; read once, in main. */
typedef struct cli_environment {
    bool no_color;
    const char *term;
    const char *run_folder; /* CADRE_RUN_FOLDER: of a run or a bench, as the supervisor chose it */
    bool run_resume;        /* CADRE_RUN_RESUME=1 */
    int report_fd;          /* CADRE_REPORT_FD; -1: none */
    char **all;
} cli_environment;

struct cli_verb;
typedef struct cli_call {
    const struct cli_verb *verb;
    const cli_environment *env;
    int argc;
    char **argv; /* of the whole command */
    bool quiet, verbose, json, help;
    const char *ranks;                /* --ranks N; NULL: not given */
    const char *options[CLI_OPTIONS]; /* value of each option of the verb, "" for a flag; NULL */
    const char *words[CLI_WORDS];     /* what is no option */
    int word_count;
    const char *settings[CLI_WORDS]; /* "section.key=value" */
    int setting_count;
    char **rest; /* after "--"; NULL: none */
} cli_call;

typedef struct cli_verb {
    const char *name, *usage, *help;
    const char *examples[3];
    const cli_option *options; /* ends with a NULL name; NULL: none */
    bool takes_settings, takes_ranks, takes_json;
    bool takes_program; /* behind -- */
    int most_words;
    int (*run)(const cli_call *call);
    bool hidden;
    void (*list)(FILE *to); /* more for its help; NULL: nothing */
} cli_verb;
extern const cli_verb cli_verbs[];
extern const int cli_verb_count;

int cli_train(const cli_call *call);
int cli_eval(const cli_call *call);
int cli_generate(const cli_call *call);
int cli_plan(const cli_call *call);
int cli_bench(const cli_call *call);
void cli_bench_list(FILE *to);
int cli_run(const cli_call *call);
int cli_checkpoint(const cli_call *call);
int cli_data(const cli_call *call);
int cli_settings(const cli_call *call);
int cli_help(const cli_call *call);
int cli_man(const cli_call *call);
int cli_completion(const cli_call *call);
int cli_later(const cli_call *call); /* reserved verbs */

/* args.c: fills the call from what follows the verb; CADRE_EUSAGE with a sentence. */
cadre_status cli_parse(cli_call *call, const cli_verb *verb, int count, char **words);
/* The value of an option of the verb, or NULL. */
const char *cli_value(const cli_call *call, const char *name);
/* A whole number option within a range; `fallback` when it is not given. */
cadre_status cli_integer(const cli_call *call, const char *name, int64_t low, int64_t high,
                         int64_t fallback, int64_t *ret_value);
cadre_status cli_real(const cli_call *call, const char *name, double low, double high,
                      double fallback, double *ret_value);
/* Defaults, the run file (NULL: none), --ranks and the settings of the call. */
cadre_status cli_open_settings(const cli_call *call, const char *run_file,
                               cadre_settings **ret_set);
/* --ranks alone, for verbs without run.* settings of their own. */
cadre_status cli_ranks(const cli_call *call, int fallback, int *ret_ranks);

/* say.c: prints `cadre: SENTENCE` of this thread's failure and returns its exit code. */
int cli_fail(const cli_call *call, cadre_status status);
/* Prints a text, frees it, and returns the exit code of how that went. */
int cli_print(const cli_call *call, cadre_text *text);
void cli_remark(const cli_call *call, const char *format, ...) CADRE_PRINTF(2, 3);
void cli_usage(FILE *to); /* of the command */
void cli_verb_usage(const cli_verb *verb, FILE *to);
/* The command line quoted for a shell, without the program: "train run.yaml --ranks 2". */
void cli_arguments(const cli_call *call, cadre_text *to);

/* ranks.c: starting ranks of this program, and being one. */

/* Whether this process is a rank that somebody started. */
cadre_status cli_am_rank(cadre_launch *ret_launch, bool *ret_yes);
/* Starts `ranks` processes of the same command line, watches them, reports; returns the exit code.
 * `folder` (NULL: none): the run folder, whose logs/ takes what they say; `more` are further
 * variables for them, ended by NULL. */
int cli_supervise(const cli_call *call, int ranks, const char *folder, char *const *more);
/* A rank's end: reported to the supervisor, or printed when there is none. */
int cli_rank_end(const cli_call *call, const cadre_launch *launch, cadre_comm *world,
                 cadre_status status, int code);
/* Watches the supervisor from now on: when it dies, the rank ends too. */
void cli_watch_supervisor(const cadre_launch *launch);
/* Lets in the signals that the supervisor held back, with their default actions. */
void cli_take_signals(void);
/* Collective: opens the world with the comm.* settings of the call. */
cadre_status cli_open_world(const cli_call *call, cadre_comm **ret_world);
cadre_comm_opts cli_comm_opts(const cadre_comm_cfg *cfg);

/* model.c: a model out of a checkpoint or a Hugging Face folder, for eval and generate. */
typedef struct cli_model {
    char path[CADRE_PATH];
    cadre_checkpoint *checkpoint; /* NULL: a Hugging Face folder */
    cadre_settings *set;          /* model.* out of config.json */
    cadre_model *model;
    cadre_tokenizer *tokenizer; /* NULL: none */
    cadre_pool *pool;
    cadre_queue *queue;
    struct cadre_plain_store *store;
    cadre_tape *tape;
} cli_model;
cadre_status cli_model_open(const cli_call *call, const char *path, int threads, cli_model *ret);
void cli_model_close(cli_model *m);

#endif
