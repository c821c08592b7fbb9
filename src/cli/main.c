/* SPDX-License-Identifier: Apache-2.0
 *
 * The command `cadre`: finds the verb in the table, parses its words, runs it. One verb more is one
 * row and one file.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/cli.h"

static const cli_option generate_options[] = {
    {"--prompt", "TEXT", "text to go on from; without it a newline"},
    {"--tokens", "N", "tokens to say (200)"},
    {"--temperature", "X", "0: always the likeliest; higher: bolder (1)"},
    {"--top-k", "K", "draw among the K likeliest; 0: all (0)"},
    {"--seed", "S", "keys the draws (1)"},
    {NULL, NULL, NULL}};
static const cli_option plan_options[] = {
    {"--timeline", NULL, "draw the pipeline schedule (not built yet)"},
    {"--micro-batches", "M", "of the timeline"},
    {"--costs", "F=..,B=..,W=..,comm=..", "of the timeline"},
    {NULL, NULL, NULL}};
static const cli_option bench_options[] = {
    {"--bytes", "LIST", "sizes to measure, as 8KiB,1MiB,256MiB"},
    {"--seconds", "X", "of measuring for each row, about"},
    {"--repeat", "N", "samples of each row, in place of --seconds"},
    {"--model", "PRESET", "short for --model.preset"},
    {"--dtype", "f32|bf16", "short for --precision.compute"},
    {"--threads", "N", "short for --run.threads"},
    {"--micro-batch", "N", "short for --train.micro_batch"},
    {"--context", "N", "short for --train.context"},
    {"--independent", NULL, "the same work by worlds of one rank, in turn with the real one"},
    {NULL, NULL, NULL}};
static const cli_option data_options[] = {
    {"--tokenizer", "T",
     "pack: char, byte, a tokenizer.json, or a folder with it or with encoder.json and vocab.bpe"},
    {"--out", "FILE", "pack: the token file; X.tokenizer.json is written beside X.bin"},
    {"--dtype", "uint16|uint32", "show: the numbers of a file without header (uint16)"},
    {NULL, NULL, NULL}};
static const cli_option checkpoint_options[] = {
    {"--to", "PATH", "export: X.safetensors for the weights, or a folder for a whole model"},
    {NULL, NULL, NULL}};

const cli_verb cli_verbs[] = {
    {.name = "train",
     .usage = "train [RUN.yaml] [--ranks N] [--section.key=value ...]",
     .help = "trains a model, on as many ranks as asked for; the same command goes on from the "
             "last checkpoint",
     .examples = {"train --data.train=book.txt --ranks 2",
                  "train examples/shakespeare.yaml --train.steps=500 --optim.lr=5e-4"},
     .takes_settings = true,
     .takes_ranks = true,
     .most_words = 1,
     .run = cli_train},
    {.name = "eval",
     .usage = "eval CHECKPOINT [--data.valid=...] [--ranks N] [--json]",
     .help = "gives the exact loss over the whole validation set",
     .examples = {"eval runs/book", "eval runs/book --data.valid=other.txt --ranks 2 --json"},
     .takes_settings = true,
     .takes_ranks = true,
     .takes_json = true,
     .most_words = 1,
     .run = cli_eval},
    {.name = "generate",
     .usage = "generate CHECKPOINT [--prompt TEXT] [--tokens N] [--temperature X] [--top-k K] "
              "[--seed S]",
     .help = "lets a checkpoint, or the newest one of a run folder, speak",
     .examples = {"generate runs/book --prompt \"It was\" --tokens 400",
                  "generate runs/book/checkpoints/step-00000500 --temperature 0.8 --seed 7"},
     .options = generate_options,
     .most_words = 1,
     .run = cli_generate},
    {.name = "plan",
     .usage = "plan [RUN.yaml] [--ranks N] [--timeline] [--json]",
     .help = "says what a run would take: layout, batch arithmetic, memory, traffic; needs no data",
     .examples = {"plan examples/shakespeare.yaml --ranks 2",
                  "plan --model.preset=gpt2-124m --train.batch=64 --ranks 8 --json"},
     .options = plan_options,
     .takes_settings = true,
     .takes_ranks = true,
     .takes_json = true,
     .most_words = 1,
     .run = cli_plan},
    {.name = "bench",
     .usage = "bench NAME ... [--ranks N] [--json] [OPTIONS]",
     .help = "measures this machine, and Cadre beside what the machine could do",
     .examples = {"bench allreduce --ranks 2",
                  "bench step --model gpt2-124m --ranks 2 --threads 1"},
     .list = cli_bench_list,
     .options = bench_options,
     .takes_settings = true,
     .takes_ranks = true,
     .takes_json = true,
     .most_words = 16,
     .run = cli_bench},
    {.name = "run",
     .usage = "run [--ranks N] -- PROGRAM ARGS",
     .help = "starts a program of your own that calls libcadre, on N ranks of this machine",
     .examples = {"run --ranks 2 -- ./own_loop", "run --ranks 3 -- ./own_gradients --steps 100"},
     .takes_ranks = true,
     .takes_program = true,
     .run = cli_run},
    {.name = "checkpoint",
     .usage = "checkpoint show|check|export CHECKPOINT [--to PATH] [--json]",
     .help = "shows a checkpoint, checks every sum in it, or exports its weights",
     .examples = {"checkpoint show runs/book", "checkpoint export runs/book --to book.safetensors"},
     .options = checkpoint_options,
     .takes_json = true,
     .most_words = 2,
     .run = cli_checkpoint},
    {.name = "data",
     .usage = "data pack --tokenizer T --out FILE TEXT...    cadre data show FILE [--json]",
     .help = "packs text into a token file with its tokenizer beside it, or shows what one holds",
     .examples = {"data pack --tokenizer byte --out book.bin book.txt", "data show book.bin"},
     .options = data_options,
     .takes_json = true,
     .most_words = CLI_WORDS,
     .run = cli_data},
    {.name = "settings",
     .usage = "settings [PREFIX] [--json]",
     .help = "lists every setting with its default and what it is for",
     .examples = {"settings optim", "settings --json"},
     .takes_json = true,
     .most_words = 1,
     .run = cli_settings},
    {.name = "help",
     .usage = "help [VERB]",
     .help = "says what there is, or more about a verb",
     .examples = {"help", "help train"},
     .most_words = 1,
     .run = cli_help},
    {.name = "man",
     .usage = "man",
     .help = "prints the man page",
     .examples = {"man > cadre.1", "man | man -l -"},
     .run = cli_man,
     .hidden = true},
    {.name = "completion",
     .usage = "completion",
     .help = "prints the completion for bash",
     .examples = {"completion > cadre.bash", "completion | source /dev/stdin"},
     .run = cli_completion,
     .hidden = true},
    {.name = "verify",
     .usage = "verify RUN.yaml",
     .help = "compares layouts (not built yet)",
     .examples = {"verify run.yaml --ranks 1,2", "verify run.yaml --layouts \"dp=4; dp=2,tp=2\""},
     .run = cli_later,
     .hidden = true},
    {.name = "runs",
     .usage = "runs",
     .help = "reserved",
     .examples = {"runs", "runs --json"},
     .run = cli_later,
     .hidden = true},
    {.name = "report",
     .usage = "report",
     .help = "reserved",
     .examples = {"report runs/book", "report runs/book --json"},
     .run = cli_later,
     .hidden = true},
    {.name = "doctor",
     .usage = "doctor",
     .help = "reserved",
     .examples = {"doctor", "doctor --json"},
     .run = cli_later,
     .hidden = true},
};
const int cli_verb_count = CADRE_COUNT(cli_verbs);

/* The one place that reads the environment, with comm/launch.c. */
static cli_environment read_environment(char **all) {
    const char *color = getenv("NO_COLOR"), *resume = getenv("CADRE_RUN_RESUME");
    const char *report = getenv("CADRE_REPORT_FD");
    int64_t fd = -1;
    if (!report || !cadre_parse_i64(report, &fd) || fd < 3) fd = -1;
    return (cli_environment){
        .no_color = color && *color,
        .term = getenv("TERM"),
        .run_folder = getenv("CADRE_RUN_FOLDER"),
        .run_resume = resume && strcmp(resume, "1") == 0,
        .report_fd = (int)fd,
        .all = all,
    };
}

static const cli_verb *find_verb(const char *name) {
    for (int i = 0; i < cli_verb_count; i++)
        if (strcmp(cli_verbs[i].name, name) == 0) return &cli_verbs[i];
    return NULL;
}

static int unknown_verb(const cli_call *call, const char *name) {
    const char *names[64];
    int n = 0;
    for (int i = 0; i < cli_verb_count; i++)
        if (!cli_verbs[i].hidden) names[n++] = cli_verbs[i].name;
    int nearest = cadre_nearest(name, names, n);
    return cli_fail(
        call,
        nearest >= 0
            ? CADRE_FAIL(CADRE_EUSAGE, "unknown verb %s; did you mean %s?", name, names[nearest])
            : CADRE_FAIL(CADRE_EUSAGE, "unknown verb %s; `cadre help` lists them", name));
}

int main(int argc, char **argv, char **environment) {
    const cli_environment env = read_environment(environment);
    cli_call call;
    memset(&call, 0, sizeof call);
    call.env = &env;
    call.argc = argc;
    call.argv = argv;
    if (argc < 2) {
        cli_usage(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0) {
        printf("cadre %s\n", cadre_version());
        return 0;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
    const cli_verb *verb = find_verb(name);
    if (!verb) return unknown_verb(&call, name);
    cadre_status st = CADRE_OK;
    if (verb->run == cli_later)
        call.verb = verb; /* whatever follows */
    else
        st = cli_parse(&call, verb, argc - 2, argv + 2);
    if (st) return cli_fail(&call, st);
    if (call.help) {
        cli_verb_usage(verb, stdout);
        return 0;
    }
    return verb->run(&call);
}
