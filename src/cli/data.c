/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre data: text packed into a token file, and what a token file holds.
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "cli/cli.h"
#include "data/pack.h"

static int show(const cli_call *call, const char *path) {
    const char *dtype = cli_value(call, "--dtype");
    bool wide = dtype && strcmp(dtype, "uint32") == 0;
    cadre_text to = {0};
    cadre_status st = CADRE_OK;
    if (dtype && !wide && strcmp(dtype, "uint16") != 0)
        st = CADRE_FAIL(CADRE_EUSAGE, "--dtype %s: it takes uint16 or uint32", dtype);
    if (!st) st = cadre_data_show(path, wide, call->json, &to);
    if (!st) return cli_print(call, &to);
    cadre_text_free(&to);
    return cli_fail(call, st);
}

static int pack(const cli_call *call) {
    const char *tokenizer = cli_value(call, "--tokenizer"), *target = cli_value(call, "--out");
    const cadre_list texts = {.count = call->word_count - 1, .at = call->words + 1};
    cadre_packed packed;
    cadre_status st = CADRE_OK;
    int64_t start = cadre_now_ns();
    if (!tokenizer)
        st = CADRE_FAIL(CADRE_EUSAGE, "data pack takes --tokenizer: char, byte, a tokenizer.json, "
                                      "or a folder with it or with encoder.json and vocab.bpe");
    else if (!target)
        st = CADRE_FAIL(CADRE_EUSAGE, "data pack takes --out FILE, as in --out book.bin");
    else if (texts.count == 0)
        st = CADRE_FAIL(CADRE_EUSAGE, "data pack takes texts: cadre data pack --tokenizer byte "
                                      "--out book.bin book.txt");
    if (!st) st = cadre_data_pack(tokenizer, &texts, target, &packed);
    if (st) return cli_fail(call, st);
    double seconds = (double)(cadre_now_ns() - start) * 1e-9;
    char size[32], took[32];
    cli_remark(call, "packed %s into %" PRId64 " tokens, %.2f bytes a token, in %s",
               cadre_show_bytes(size, sizeof size, (double)packed.text_bytes), packed.tokens,
               (double)packed.text_bytes / (double)packed.tokens,
               cadre_show_seconds(took, sizeof took, seconds));
    cli_remark(call, "wrote %s and %s; to train on it: cadre train --data.train=%s", target,
               packed.tokenizer, target);
    return call->json ? show(call, target) : 0;
}

int cli_data(const cli_call *call) {
    const char *action = call->word_count ? call->words[0] : "";
    bool packing = strcmp(action, "pack") == 0;
    cadre_status st = CADRE_OK;
    if (packing && cli_value(call, "--dtype"))
        st = CADRE_FAIL(CADRE_EUSAGE, "--dtype belongs to data show; pack writes uint16");
    else if (packing)
        return pack(call);
    else if (strcmp(action, "show") != 0)
        st = CADRE_FAIL(CADRE_EUSAGE, "data takes pack or show: cadre data show book.bin");
    else if (call->word_count != 2)
        st = CADRE_FAIL(CADRE_EUSAGE, "data show takes one token file: cadre data show book.bin");
    else if (cli_value(call, "--tokenizer") || cli_value(call, "--out"))
        st = CADRE_FAIL(CADRE_EUSAGE, "--tokenizer and --out belong to data pack");
    return st ? cli_fail(call, st) : show(call, call->words[1]);
}
