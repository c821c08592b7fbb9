/* SPDX-License-Identifier: Apache-2.0
 *
 * What the command says: failures and remarks on standard error, results on standard output.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/status.h"
#include "cli/cli.h"

int cli_fail(const cli_call *call, cadre_status status) {
    fprintf(stderr, "cadre: %s\n", cadre_error_text());
    if (call->verbose) cadre_error_print(stderr);
    return cadre_exit_code(status);
}

int cli_print(const cli_call *call, cadre_text *text) {
    cadre_status st = text->status;
    if (!st && text->length) {
        size_t n = fwrite(text->at, 1, text->length, stdout);
        if (n != text->length || fflush(stdout) != 0)
            st =
                CADRE_FAIL(CADRE_ERESOURCE, "cannot write to standard output: %s", strerror(errno));
    }
    cadre_text_free(text);
    return st ? cli_fail(call, st) : 0;
}

void cli_remark(const cli_call *call, const char *format, ...) {
    if (call->quiet) return;
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

void cli_usage(FILE *to) {
    fprintf(to, "usage: cadre VERB ...    trains neural networks on many ranks in step\n\n"
                "examples:\n"
                "  cadre train --data.train=book.txt --ranks 2     train on your own text\n"
                "  cadre generate runs/book --prompt \"It was\"      let it speak\n"
                "  cadre plan --model.preset=gpt2-124m --ranks 8   what a run would take\n\n"
                "verbs:\n");
    for (int i = 0; i < cli_verb_count; i++)
        if (!cli_verbs[i].hidden) fprintf(to, "  %-11s %s\n", cli_verbs[i].name, cli_verbs[i].help);
    fprintf(to, "\n`cadre help VERB` says more; `cadre settings` lists every setting.\n");
}

void cli_verb_usage(const cli_verb *verb, FILE *to) {
    fprintf(to, "examples:\n");
    for (int i = 0; i < CADRE_COUNT(verb->examples) && verb->examples[i]; i++)
        fprintf(to, "  cadre %s\n", verb->examples[i]);
    fprintf(to, "\nusage: cadre %s\n\n%s.\n", verb->usage, verb->help);
    if (verb->options) fprintf(to, "\noptions:\n");
    for (const cli_option *o = verb->options; o && o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        fprintf(to, "  %-22s %s\n", left, o->help);
    }
    if (verb->takes_ranks)
        fprintf(to, "  %-22s %s\n", "--ranks N", "ranks to start on this machine");
    if (verb->takes_json)
        fprintf(to, "  %-22s %s\n", "--json", "one JSON document on standard output");
    if (verb->takes_settings)
        fprintf(to, "  %-22s %s\n", "--section.key=VALUE",
                "any setting; `cadre settings` lists them");
    fprintf(to, "  %-22s %s\n  %-22s %s\n", "-q", "errors alone", "-v",
            "with an error, where it came from");
    if (verb->list) verb->list(to);
}

void cli_arguments(const cli_call *call, cadre_text *to) {
    for (int i = 1; i < call->argc; i++) {
        if (i > 1) cadre_text_add(to, " ");
        cadre_text_add_shell(to, call->argv[i]);
    }
}
