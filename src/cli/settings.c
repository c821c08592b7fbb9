/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre settings: the table, with defaults and help.
 */
#include "base/status.h"
#include "cli/cli.h"

int cli_settings(const cli_call *call) {
    cadre_settings *set = NULL;
    cadre_text to = {0};
    cadre_status st = cadre_settings_open(&set, NULL);
    if (!st)
        st = cadre_settings_text(set, call->word_count ? call->words[0] : NULL, call->json, &to);
    int code = st ? cli_fail(call, st) : cli_print(call, &to);
    cadre_text_free(&to);
    cadre_settings_close(&set);
    return code;
}
