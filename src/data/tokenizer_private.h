/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files tokenizer*.c share: the table of functions of a kind, and how each kind is made.
 */
#ifndef CADRE_DATA_TOKENIZER_PRIVATE_H
#define CADRE_DATA_TOKENIZER_PRIVATE_H

#include <jansson.h>

#include "data/tokenizer.h"

typedef struct cadre_tokenizer_row {
    const char *kind;
    cadre_status (*encode)(const cadre_tokenizer *t, const char *text, size_t bytes,
                           const char *label, cadre_tokens *ret_tokens);
    /* The bytes of an id in [0, vocab), borrowed; NULL: no such token. */
    const char *(*piece)(const cadre_tokenizer *t, int32_t id, size_t *ret_bytes);
    cadre_status (*to_json)(const cadre_tokenizer *t, cadre_text *to);
    void (*close)(cadre_tokenizer *t); /* frees what the kind holds and the object itself */
} cadre_tokenizer_row;

/* The head of each kind's object. */
struct cadre_tokenizer {
    const cadre_tokenizer_row *row;
    int64_t vocab;
};

/* Ids that grow in number. */
typedef struct cadre_id_list {
    int32_t *at;
    int64_t count, room;
} cadre_id_list;
cadre_status cadre_id_add(cadre_id_list *list, int32_t id);

/* ---- char and byte ---- */

/* The set of characters that texts have, collected text by text. */
typedef struct cadre_alphabet {
    uint64_t set[0x110000 / 64];
} cadre_alphabet;
/* Invalid UTF-8 and zero bytes are CADRE_EDATA with label and offset. */
cadre_status cadre_alphabet_add(cadre_alphabet *alphabet, const char *text, size_t bytes,
                                const char *label);
cadre_status cadre_char_open(cadre_tokenizer **ret_tokenizer, const cadre_alphabet *alphabet);
/* Character `points[i]` is id i. */
cadre_status cadre_char_open_points(cadre_tokenizer **ret_tokenizer, const uint32_t *points,
                                    int64_t count);
cadre_status cadre_byte_open(cadre_tokenizer **ret_tokenizer);

/* ---- byte-level BPE ---- */

/* The printable character that stands for each byte in vocabularies, as GPT-2 made it, and back
 * (-1: stands for none). */
uint32_t cadre_byte_point(int byte);
int cadre_point_byte(uint32_t point);

/* `root` is a tokenizer.json (borrowed), `json` its text (kept as it is and written again),
 * `label` its file. */
cadre_status cadre_bpe_open(cadre_tokenizer **ret_tokenizer, const json_t *root, const char *json,
                            size_t bytes, const char *label);
/* encoder.json and vocab.bpe (or vocab.json and merges.txt), put into the form of a tokenizer.json.
 */
cadre_status cadre_gpt2_files_open(cadre_tokenizer **ret_tokenizer, const char *vocab_path,
                                   const char *merges_path);
/* The text of `root` after `to`. */
cadre_status cadre_json_add(cadre_text *to, const json_t *root);
/* jansson has no keys with zero bytes; a zero byte of a string comes as these characters, which no
 * vocabulary has. */
#define CADRE_JSON_ZERO "\xEF\xBF\xBF\xEF\xBF\xBEZ"
cadre_status cadre_json_load(json_t **ret_root, const char *json, size_t bytes, const char *label);

#endif
