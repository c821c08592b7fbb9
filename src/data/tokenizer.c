/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kind of tokenizer a name or path means, and the calls that every kind answers.
 */
#include "data/tokenizer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"
#include "data/tokenizer_private.h"

cadre_status cadre_id_add(cadre_id_list *list, int32_t id) {
    if (list->count == list->room) {
        int64_t room = list->room ? 2 * list->room : 1024;
        CADRE_TRY(cadre_realloc(&list->at, CADRE_MEM_LOADER, (size_t)room * sizeof *list->at));
        list->room = room;
    }
    list->at[list->count++] = id;
    return CADRE_OK;
}

static cadre_status open_char(cadre_tokenizer **ret_tokenizer, const char *text, size_t bytes,
                              const char *label) {
    cadre_alphabet *alphabet = NULL;
    CADRE_TRY(cadre_alloc(&alphabet, CADRE_MEM_OTHER, sizeof *alphabet));
    cadre_status st = cadre_alphabet_add(alphabet, text, bytes, label);
    if (!st) st = cadre_char_open(ret_tokenizer, alphabet);
    cadre_free(&alphabet);
    return st;
}

static cadre_status open_json_file(cadre_tokenizer **ret_tokenizer, const char *path) {
    cadre_map map;
    CADRE_TRY(cadre_map_open(&map, path));
    cadre_status st =
        cadre_tokenizer_from_json(ret_tokenizer, (const char *)map.data, map.bytes, path);
    cadre_map_close(&map);
    return st;
}

/* GPT-2's two files, under both pairs of names. */
static const char *const file_pairs[][2] = {{"encoder.json", "vocab.bpe"},
                                            {"vocab.json", "merges.txt"}};

static bool has_pair(const char *folder, int i, char vocab[CADRE_PATH], char merges[CADRE_PATH]) {
    return cadre_path_is_file(cadre_join(vocab, CADRE_PATH, folder, file_pairs[i][0])) &&
           cadre_path_is_file(cadre_join(merges, CADRE_PATH, folder, file_pairs[i][1]));
}

bool cadre_tokenizer_is_in(const char *folder) {
    char path[CADRE_PATH], merges[CADRE_PATH];
    if (cadre_path_is_file(cadre_join(path, sizeof path, folder, "tokenizer.json"))) return true;
    return has_pair(folder, 0, path, merges) || has_pair(folder, 1, path, merges);
}

static cadre_status open_folder(cadre_tokenizer **ret_tokenizer, const char *folder) {
    char path[CADRE_PATH], merges[CADRE_PATH];
    if (cadre_path_is_file(cadre_join(path, sizeof path, folder, "tokenizer.json")))
        return open_json_file(ret_tokenizer, path);
    for (int i = 0; i < CADRE_COUNT(file_pairs); i++)
        if (has_pair(folder, i, path, merges))
            return cadre_gpt2_files_open(ret_tokenizer, path, merges);
    return CADRE_FAIL(CADRE_EDATA,
                      "the folder %s has no tokenizer: tokenizer.json, or encoder.json and "
                      "vocab.bpe, are looked for",
                      folder);
}

cadre_status cadre_tokenizer_open(cadre_tokenizer **ret_tokenizer, const char *spec,
                                  const char *text, size_t bytes, const char *label) {
    if (strcmp(spec, "char") == 0) return open_char(ret_tokenizer, text, bytes, label);
    if (strcmp(spec, "byte") == 0) return cadre_byte_open(ret_tokenizer);
    if (cadre_path_is_folder(spec)) return open_folder(ret_tokenizer, spec);
    CADRE_CHECK(cadre_path_is_file(spec), CADRE_EDATA,
                "data.tokenizer=%s is no file and no folder; it takes char, byte, a tokenizer.json "
                "or a folder with one",
                spec);
    return open_json_file(ret_tokenizer, spec);
}

cadre_status cadre_tokenizer_to_json(const cadre_tokenizer *t, cadre_text *to) {
    CADRE_TRY(t->row->to_json(t, to));
    return to->status;
}

int64_t cadre_tokenizer_vocab(const cadre_tokenizer *t) {
    return t->vocab;
}

const char *cadre_tokenizer_kind(const cadre_tokenizer *t) {
    return t->row->kind;
}

cadre_status cadre_tokenizer_encode(const cadre_tokenizer *t, const char *text, size_t bytes,
                                    const char *label, cadre_tokens *ret_tokens) {
    return t->row->encode(t, text, bytes, label, ret_tokens);
}

void cadre_tokens_free(cadre_tokens *tokens) {
    cadre_free(&tokens->ids);
    tokens->count = 0;
}

cadre_status cadre_tokenizer_decode(const cadre_tokenizer *t, int32_t id, cadre_text *to) {
    size_t bytes = 0;
    const char *piece = id >= 0 && id < t->vocab ? t->row->piece(t, id, &bytes) : NULL;
    CADRE_CHECK(piece, CADRE_EDATA,
                "token %d is unknown to this tokenizer of kind %s, whose ids end before %lld", id,
                t->row->kind, (long long)t->vocab);
    cadre_text_add_bytes(to, piece, bytes);
    return to->status;
}

void cadre_tokenizer_close(cadre_tokenizer **t) {
    if (*t) (*t)->row->close(*t);
    *t = NULL;
}
