/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre checkpoint: what is in one, whether it is whole, and its weights as files of their own.
 */
#include <string.h>

#include "base/status.h"
#include "cli/cli.h"

static int show(const cli_call *call, const char *path) {
    cadre_text to = {0};
    char found[CADRE_PATH];
    cadre_status st = cadre_checkpoint_find(path, found, NULL);
    if (!st) st = cadre_checkpoint_show(found, call->json, &to);
    if (!st) return cli_print(call, &to);
    cadre_text_free(&to);
    return cli_fail(call, st);
}

/* A checkpoint that was looked at and is bad is an answer, exit code 1; none there is a failure. */
static int check(const cli_call *call, const char *path) {
    cadre_text to = {0};
    cadre_status st = cadre_path_is_folder(path)
                          ? cadre_checkpoint_check(path, call->json, &to)
                          : CADRE_FAIL(CADRE_EDATA, "%s: there is no such folder", path);
    bool answered = cadre_path_is_folder(path);
    int code = st ? cli_fail(call, st) : 0;
    int printed = cli_print(call, &to);
    if (st == CADRE_EDATA && answered) code = 1;
    return code ? code : printed;
}

static int export_to(const cli_call *call, const char *path, const char *target) {
    char found[CADRE_PATH];
    cadre_status st = CADRE_OK;
    if (!target)
        st = CADRE_FAIL(CADRE_EUSAGE, "checkpoint export takes --to X.safetensors or --to FOLDER");
    if (!st) st = cadre_checkpoint_find(path, found, NULL);
    if (!st) st = cadre_checkpoint_export(found, target);
    if (st) return cli_fail(call, st);
    cli_remark(call, "wrote %s from %s", target, found);
    return 0;
}

int cli_checkpoint(const cli_call *call) {
    static const char *const actions[] = {"show", "check", "export"};
    const char *action = call->word_count ? call->words[0] : "";
    cadre_status st = CADRE_OK;
    int known = -1;
    for (int i = 0; i < CADRE_COUNT(actions); i++)
        if (strcmp(action, actions[i]) == 0) known = i;
    if (known < 0)
        st = CADRE_FAIL(CADRE_EUSAGE,
                        "checkpoint takes show, check or export: cadre checkpoint show "
                        "runs/NAME");
    else if (call->word_count != 2)
        st = CADRE_FAIL(CADRE_EUSAGE, "checkpoint %s takes one checkpoint or run folder", action);
    else if (known != 2 && cli_value(call, "--to"))
        st = CADRE_FAIL(CADRE_EUSAGE, "--to belongs to checkpoint export");
    if (st) return cli_fail(call, st);
    const char *path = call->words[1];
    if (known == 2) return export_to(call, path, cli_value(call, "--to"));
    return known == 1 ? check(call, path) : show(call, path);
}
