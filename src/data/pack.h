/* SPDX-License-Identifier: Apache-2.0
 *
 * Token files made and looked at: what `cadre data pack` and `cadre data show` do.
 */
#ifndef CADRE_DATA_PACK_H
#define CADRE_DATA_PACK_H

#include "base/file.h"
#include "base/settings.h"

typedef struct cadre_packed {
    int64_t tokens, text_bytes;
    char tokenizer[CADRE_PATH]; /* the file written beside the tokens */
} cadre_packed;

/* Reads `texts` (files, and folders as their files by name), joined in order, as one text, and
 * writes its tokens to `target` in llm.c's format (tokens_file.h, uint16; no end-of-text token is
 * added) and the tokenizer beside it, X.tokenizer.json for X.bin. `tokenizer` as data.tokenizer.
 * A failure to write leaves both files as they were; an interruption may leave a tokenizer without
 * tokens (the old ones go before their tokenizer does), never tokens beside another's. Token files
 * among the texts, a target that is one of the inputs, more than 65,536 ids or 2^31 - 1 tokens:
 * CADRE_EUSAGE or CADRE_EDATA with numbers. */
cadre_status cadre_data_pack(const char *tokenizer, const cadre_list *texts, const char *target,
                             cadre_packed *ret_packed);

/* Appends what a token file holds: format, count, largest id, vocabulary, SHA-256 of the ids
 * without the header, the first ids and their text where a tokenizer lies beside it. `wide`: the
 * numbers of a file without header are uint32. */
cadre_status cadre_data_show(const char *path, bool wide, bool json, cadre_text *to);

#endif
