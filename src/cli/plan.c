/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre plan: the dry run. Layout, batch arithmetic, memory and traffic of a run, with no data and
 * no rank started.
 */
#include "base/status.h"
#include "cli/cli.h"

static int show(const cli_call *call, const cadre_plan *plan, const cadre_settings *set) {
    cadre_text to = {0};
    cadre_status st =
        call->json ? cadre_plan_json(plan, set, &to) : cadre_plan_text(plan, set, NULL, &to);
    if (!st) return cli_print(call, &to);
    cadre_text_free(&to);
    return cli_fail(call, st);
}

int cli_plan(const cli_call *call) {
    cadre_settings *set = NULL;
    cadre_plan plan;
    cadre_status st = CADRE_OK;
    if (cli_value(call, "--timeline") || cli_value(call, "--micro-batches") ||
        cli_value(call, "--costs"))
        st = CADRE_FAIL(CADRE_EUSAGE, "plan --timeline draws pipeline schedules, which are not "
                                      "built yet; leave it out");
    if (!st) st = cli_open_settings(call, call->word_count ? call->words[0] : NULL, &set);
    if (!st) st = cadre_plan_make(set, &plan);
    int code = st ? cli_fail(call, st) : show(call, &plan, set);
    cadre_settings_close(&set);
    return code;
}
