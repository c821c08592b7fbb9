/* SPDX-License-Identifier: Apache-2.0
 *
 * The object of byte-level BPE: bpe_open.c makes it out of a tokenizer.json, tokenizer_bpe.c
 * encodes and decodes with it.
 */
#ifndef CADRE_DATA_BPE_H
#define CADRE_DATA_BPE_H

#include "data/split.h"
#include "data/tokenizer_private.h"

typedef struct cadre_bpe_piece {
    int64_t at; /* in `bytes` */
    int32_t length;
    bool known; /* there is a token of this id */
} cadre_bpe_piece;

/* A pair of ids that is merged; `pair` = left << 32 | right. */
typedef struct cadre_bpe_merge {
    uint64_t pair;
    int32_t rank; /* -1: an empty slot */
    int32_t id;   /* of the two joined */
} cadre_bpe_merge;

typedef struct cadre_bpe {
    cadre_tokenizer head;
    cadre_text json;         /* the tokenizer.json */
    cadre_text bytes;        /* of all tokens, one after the other */
    cadre_bpe_piece *pieces; /* of each id */
    int32_t byte_id[256];    /* -1: no token for it */
    int32_t *words;          /* hash table of ids by their bytes; -1: empty; power of two slots */
    uint64_t word_mask;
    cadre_bpe_merge *merges; /* hash table by pair */
    uint64_t merge_mask;
    bool ignore_merges; /* a piece that is a token is that token, whatever the merges say */
    cadre_splitter *splitter;
} cadre_bpe;

extern const cadre_tokenizer_row cadre_bpe_row;

/* The id of the token with these bytes, -1: none. */
int32_t cadre_bpe_word(const cadre_bpe *t, const char *bytes, size_t n);
/* The slot of the pair, or the empty slot where it belongs. */
cadre_bpe_merge *cadre_bpe_slot(const cadre_bpe *t, uint64_t pair);
static inline uint64_t cadre_bpe_pair(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

#endif
