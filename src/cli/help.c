/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre help, the man page and the completion: all out of the tables of verbs and settings.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "cli/cli.h"

int cli_help(const cli_call *call) {
    if (call->word_count == 0) {
        cli_usage(stdout);
        return 0;
    }
    const char *names[64];
    for (int i = 0; i < cli_verb_count; i++) names[i] = cli_verbs[i].name;
    for (int i = 0; i < cli_verb_count; i++)
        if (strcmp(names[i], call->words[0]) == 0) {
            cli_verb_usage(&cli_verbs[i], stdout);
            return 0;
        }
    int nearest = cadre_nearest(call->words[0], names, cli_verb_count);
    return cli_fail(call, nearest >= 0
                              ? CADRE_FAIL(CADRE_EUSAGE, "no verb is called %s; did you mean %s?",
                                           call->words[0], names[nearest])
                              : CADRE_FAIL(CADRE_EUSAGE, "no verb is called %s", call->words[0]));
}

typedef cadre_status page_fn(const cadre_verb_help *verbs, int count, const cadre_settings *set,
                             cadre_text *to);

static int print_page(const cli_call *call, page_fn *page) {
    cadre_verb_help verbs[64];
    cadre_settings *set = NULL;
    cadre_text to = {0};
    int n = 0;
    for (int i = 0; i < cli_verb_count; i++)
        if (!cli_verbs[i].hidden)
            verbs[n++] =
                (cadre_verb_help){cli_verbs[i].name, cli_verbs[i].usage, cli_verbs[i].help};
    cadre_status st = cadre_settings_open(&set, NULL);
    if (!st) st = page(verbs, n, set, &to);
    int code = st ? cli_fail(call, st) : cli_print(call, &to);
    cadre_text_free(&to);
    cadre_settings_close(&set);
    return code;
}

int cli_man(const cli_call *call) {
    return print_page(call, cadre_man_page);
}

int cli_completion(const cli_call *call) {
    return print_page(call, cadre_completion);
}

int cli_later(const cli_call *call) {
    return cli_fail(call, CADRE_FAIL(CADRE_EUSAGE,
                                     "cadre %s is a reserved verb and not built yet; `cadre help` "
                                     "lists what there is",
                                     call->verb->name));
}
