/* SPDX-License-Identifier: Apache-2.0
 *
 * A corpus: one long run of tokens for training and one for validation, the same on every rank,
 * read from text or token files as the settings say.
 *
 * Text: files joined in order; with `valid_fraction` f the training text is the first floor(n (1 -
 * f)) characters (code points; bytes for `byte` and BPE when the text is not valid UTF-8), before
 * tokenizing; the `char` alphabet is that of all text, training and validation. Token files: llm.c
 * (header of 1,024 bytes, magic 20240520, version 1, count) or headerless uint16/uint32
 * (`data.dtype`). X.tokenizer.json beside X.bin is taken up.
 */
#ifndef CADRE_DATA_CORPUS_H
#define CADRE_DATA_CORPUS_H

#include "data/settings.h"
#include "data/tokenizer.h"

typedef struct cadre_run_of_tokens {
    const void *data; /* uint16 or int32, see `wide` */
    bool wide;
    int64_t count;
    int64_t text_bytes; /* UTF-8 bytes these tokens stand for; 0: not known (token files without a
                           tokenizer) */
    int32_t largest;    /* largest id; checked against the vocabulary before training */
} cadre_run_of_tokens;

typedef struct cadre_corpus cadre_corpus;

/* Empty or missing files, bad headers, odd sizes, a validation part below 2 tokens: CADRE_EDATA
 * naming file and numbers. Nothing to train on, both valid and valid_fraction: CADRE_EUSAGE. */
cadre_status cadre_corpus_open(cadre_corpus **ret_corpus, const cadre_data_cfg *cfg);
/* Only a validation run, with a given tokenizer (NULL for token files), for `cadre eval`-like uses.
 * Takes nothing. */
cadre_status cadre_corpus_open_valid(cadre_corpus **ret_corpus, const cadre_data_cfg *cfg,
                                     const cadre_tokenizer *tokenizer);
const cadre_run_of_tokens *cadre_corpus_train(const cadre_corpus *c);
const cadre_run_of_tokens *cadre_corpus_valid(const cadre_corpus *c); /* count 0: none */
const cadre_tokenizer *
cadre_corpus_tokenizer(const cadre_corpus *c);     /* NULL: token file without one */
int64_t cadre_corpus_vocab(const cadre_corpus *c); /* the tokenizer's, else largest id + 1 */
uint64_t cadre_corpus_hash(
    const cadre_corpus *c); /* of the training ids: a resume checks that the data is the same */
int32_t cadre_token_at(const cadre_run_of_tokens *r, int64_t i);
void cadre_corpus_close(cadre_corpus **c);

#endif
