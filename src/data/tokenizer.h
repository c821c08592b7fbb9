/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to token ids and back. Three kinds: `char` (a code point is a token, ids in code-point order
 * over the whole text), `byte` (id = byte value) and byte-level BPE (GPT-2's files or a
 * tokenizer.json). Every kind is written as a tokenizer.json (BPE without merges for char and byte)
 * and read back from it with the same ids.
 */
#ifndef CADRE_DATA_TOKENIZER_H
#define CADRE_DATA_TOKENIZER_H

#include "base/text.h"

typedef struct cadre_tokenizer cadre_tokenizer;

typedef struct cadre_tokens {
    int32_t *ids; /* from cadre_alloc, CADRE_MEM_LOADER */
    int64_t count;
} cadre_tokens;

/* `spec` is "char", "byte", a tokenizer.json, or a folder with tokenizer.json or encoder.json +
 * vocab.bpe. `char` takes its alphabet from `text` (invalid UTF-8 is CADRE_EDATA: file `label`,
 * byte offset, the bytes), the others do not look at it. */
cadre_status cadre_tokenizer_open(cadre_tokenizer **ret_tokenizer, const char *spec,
                                  const char *text, size_t bytes, const char *label);
/* Whether a folder has a tokenizer that its path can be given for. */
bool cadre_tokenizer_is_in(const char *folder);
/* From the contents of a tokenizer.json. */
cadre_status cadre_tokenizer_from_json(cadre_tokenizer **ret_tokenizer, const char *json,
                                       size_t bytes, const char *label);
/* Appends the tokenizer.json. It loads in Hugging Face `tokenizers` and gives the same ids there.
 */
cadre_status cadre_tokenizer_to_json(const cadre_tokenizer *t, cadre_text *to);
int64_t cadre_tokenizer_vocab(const cadre_tokenizer *t);    /* number of ids: largest id + 1 */
const char *cadre_tokenizer_kind(const cadre_tokenizer *t); /* "char", "byte", "bpe" */
/* `label` for messages. A character that `char` does not know is CADRE_EDATA with its offset and
 * the character. */
cadre_status cadre_tokenizer_encode(const cadre_tokenizer *t, const char *text, size_t bytes,
                                    const char *label, cadre_tokens *ret_tokens);
void cadre_tokens_free(cadre_tokens *tokens);
/* Appends the bytes of one token (a BPE token may be part of a character); an unknown id is
 * CADRE_EDATA. */
cadre_status cadre_tokenizer_decode(const cadre_tokenizer *t, int32_t id, cadre_text *to);
void cadre_tokenizer_close(cadre_tokenizer **t);

#endif
