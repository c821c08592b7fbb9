/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting text into the pieces that byte-level BPE works on: regular expressions (PCRE2), one after
 * the other, each cutting the pieces of the one before. What matches is a piece, and so is what
 * stands between two matches.
 */
#ifndef CADRE_DATA_SPLIT_H
#define CADRE_DATA_SPLIT_H

#include "base/status.h"

typedef struct cadre_splitter cadre_splitter;

extern const char *const cadre_split_gpt2; /* GPT-2's pattern */

cadre_status cadre_splitter_open(cadre_splitter **ret_splitter);
/* A pattern that cannot be compiled is CADRE_EDATA, naming `label`. */
cadre_status cadre_splitter_add(cadre_splitter *s, const char *pattern, const char *label);

typedef cadre_status cadre_piece_fn(void *self, const char *piece, size_t bytes);
/* Calls `fn` for each piece in order; together they are the text. Text that is not valid UTF-8 is
 * cut there: a run of invalid bytes is a piece. Any number of threads may run one splitter. */
cadre_status cadre_splitter_run(const cadre_splitter *s, const char *text, size_t bytes,
                                const char *label, cadre_piece_fn *fn, void *self);
void cadre_splitter_close(cadre_splitter **s);

#endif
