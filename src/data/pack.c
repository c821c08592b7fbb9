/* SPDX-License-Identifier: Apache-2.0
 *
 * Text into a token file with its tokenizer beside it, and what a token file holds.
 */
#include "data/pack.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "data/files.h"
#include "data/tokenizer_private.h"
#include "data/tokens_file.h"
#include "data/utf8.h"

enum { MOST_IDS = 65536, SHOWN = 16 };

/* ---- pack ---- */

/* What lies at the target may be an earlier packing, but none of what is read. */
static cadre_status check_target(const char *target, const char *tokenizer,
                                 const cadre_paths *texts) {
    bool tokens = false;
    CADRE_CHECK(target[0] && strlen(target) < CADRE_PATH - 64, CADRE_EUSAGE,
                "'%s' is no name to write tokens to", target);
    CADRE_CHECK(!cadre_path_is_folder(target), CADRE_EUSAGE,
                "%s is a folder; tokens go into a file, as in --out book.bin", target);
    CADRE_CHECK(access(target, F_OK) != 0 || cadre_path_is_file(target), CADRE_EUSAGE,
                "--out %s is no regular file and would be replaced; give the path of a file",
                target);
    CADRE_CHECK(!cadre_path_same(target, tokenizer), CADRE_EUSAGE,
                "%s is the tokenizer itself; name another file for the tokens", target);
    for (int i = 0; i < texts->count; i++)
        CADRE_CHECK(!cadre_path_same(target, texts->at[i]), CADRE_EUSAGE,
                    "%s is one of the texts; name another file for the tokens", target);
    CADRE_TRY(cadre_paths_are_tokens(texts, CADRE_DATA_AUTO, &tokens));
    CADRE_CHECK(!tokens, CADRE_EDATA,
                "%s is a token file already (its name ends in .bin, or it has llm.c's header); "
                "text is packed",
                texts->at[0]);
    return CADRE_OK;
}

/* Header and ids in one piece of memory, `*ret_bytes` long. */
static cadre_status lay_out(const cadre_tokens *tokens, uint16_t **ret_file, size_t *ret_bytes) {
    size_t head = CADRE_TOKEN_HEADER / sizeof **ret_file;
    CADRE_TRY(cadre_alloc_array(ret_file, CADRE_MEM_LOADER, (int64_t)head + tokens->count,
                                sizeof **ret_file));
    uint16_t *ids = *ret_file + head;
    cadre_token_file_header(*ret_file, (int32_t)tokens->count);
    for (int64_t i = 0; i < tokens->count; i++) ids[i] = (uint16_t)tokens->ids[i];
    *ret_bytes = CADRE_TOKEN_HEADER + (size_t)tokens->count * sizeof *ids;
    return CADRE_OK;
}

/* An interruption between the steps leaves a tokenizer without tokens. */
static cadre_status put_in_place(const char *tokens, const char *target, const char *tokenizer,
                                 const char *tokenizer_target) {
    CADRE_CHECK(unlink(target) == 0 || errno == ENOENT, CADRE_ERESOURCE, "cannot replace %s: %s",
                target, strerror(errno));
    CADRE_TRY(cadre_fsync_folder_of(target)); /* in this order on the disk too */
    CADRE_CHECK(rename(tokenizer, tokenizer_target) == 0, CADRE_ERESOURCE, "cannot replace %s: %s",
                tokenizer_target, strerror(errno));
    CADRE_CHECK(rename(tokens, target) == 0, CADRE_ERESOURCE, "cannot replace %s: %s", target,
                strerror(errno));
    return cadre_fsync_folder_of(target);
}

/* Both are whole on the disk under other names before the old tokens go, and these go first: tokens
 * never lie beside a tokenizer that is not theirs. */
static cadre_status replace_both(const char *target, const void *file, size_t bytes,
                                 const char *tokenizer_path, const cadre_text *json) {
    char tokens[CADRE_PATH], tokenizer[CADRE_PATH];
    snprintf(tokens, sizeof tokens, "%s.new-%d", target, (int)getpid());
    snprintf(tokenizer, sizeof tokenizer, "%s.new-%d", tokenizer_path, (int)getpid());
    CADRE_TRY(cadre_file_replace(tokens, file, bytes));
    cadre_status st = cadre_file_replace(tokenizer, json->at, json->length);
    if (!st) st = put_in_place(tokens, target, tokenizer, tokenizer_path);
    if (!st) return CADRE_OK;
    unlink(tokens);
    unlink(tokenizer);
    return st;
}

static cadre_status write_tokens(const cadre_tokenizer *tokenizer, const cadre_tokens *tokens,
                                 const char *target, cadre_packed *packed) {
    uint16_t *file = NULL;
    size_t bytes = 0;
    cadre_text json = {0};
    CADRE_CHECK(tokens->count <= INT32_MAX, CADRE_EDATA,
                "%" PRId64 " tokens: the header of a token file counts to %d; pack the texts into "
                "several files",
                tokens->count, INT32_MAX);
    CADRE_CHECK(tokens->count > 0, CADRE_EDATA, "the texts have no tokens");
    cadre_status st = lay_out(tokens, &file, &bytes);
    if (!st) st = cadre_tokenizer_to_json(tokenizer, &json);
    if (!st)
        st = replace_both(target, file, bytes, cadre_tokenizer_beside(packed->tokenizer, target),
                          &json);
    cadre_text_free(&json);
    cadre_free(&file);
    if (!st) packed->tokens = tokens->count;
    return st;
}

static cadre_status pack_text(const cadre_tokenizer *tokenizer, const char *spec,
                              const cadre_paths *texts, const char *target, cadre_packed *packed) {
    cadre_file_text text = {0};
    cadre_tokens tokens = {0};
    int64_t vocab = cadre_tokenizer_vocab(tokenizer);
    CADRE_CHECK(vocab <= MOST_IDS, CADRE_EUSAGE,
                "the tokenizer %s has %" PRId64 " ids; token files hold numbers of 16 bits, for at "
                "most %d",
                spec, vocab, (int)MOST_IDS);
    CADRE_TRY(cadre_file_text_open(&text, texts));
    packed->text_bytes = (int64_t)text.bytes;
    cadre_status st = cadre_tokenizer_encode(tokenizer, text.at, text.bytes, texts->at[0], &tokens);
    if (!st) st = write_tokens(tokenizer, &tokens, target, packed);
    cadre_tokens_free(&tokens);
    cadre_file_text_close(&text);
    return st;
}

cadre_status cadre_data_pack(const char *tokenizer, const cadre_list *texts, const char *target,
                             cadre_packed *ret_packed) {
    cadre_paths paths = {0};
    const cadre_paths *lists[] = {&paths};
    cadre_tokenizer *t = NULL;
    cadre_packed packed = {0};
    CADRE_TRY(cadre_paths_open(&paths, texts));
    cadre_status st = check_target(target, tokenizer, &paths);
    if (!st) st = cadre_paths_tokenizer(&t, tokenizer, lists, 1);
    if (!st) st = pack_text(t, tokenizer, &paths, target, &packed);
    cadre_tokenizer_close(&t);
    cadre_paths_close(&paths);
    if (!st) *ret_packed = packed;
    return st;
}

/* ---- show ---- */

typedef struct shown {
    const char *path;
    bool header;
    cadre_run_of_tokens run;
    char beside[CADRE_PATH];
    cadre_tokenizer *tokenizer; /* NULL: none beside it */
    cadre_text text;            /* of the first ids */
    char sum[65];
} shown;

static size_t id_bytes(const shown *s) {
    return s->run.wide ? 4 : 2;
}

static int first_ids(const shown *s) {
    return s->run.count < SHOWN ? (int)s->run.count : SHOWN;
}

static cadre_status read_beside(shown *s) {
    cadre_map map;
    if (!cadre_path_is_file(cadre_tokenizer_beside(s->beside, s->path))) return CADRE_OK;
    CADRE_TRY(cadre_map_open(&map, s->beside));
    cadre_status st =
        cadre_tokenizer_from_json(&s->tokenizer, (const char *)map.data, map.bytes, s->beside);
    cadre_map_close(&map);
    CADRE_TRY(st);
    int64_t vocab = cadre_tokenizer_vocab(s->tokenizer);
    CADRE_CHECK(s->run.largest < vocab, CADRE_EDATA,
                "%s has the token %" PRId32 ", out of range of %s, whose ids end before %" PRId64,
                s->path, s->run.largest, s->beside, vocab);
    for (int i = 0; i < first_ids(s); i++)
        CADRE_TRY(cadre_tokenizer_decode(s->tokenizer, cadre_token_at(&s->run, i), &s->text));
    return CADRE_OK;
}

static cadre_status look(shown *s, const cadre_map *map, bool wide) {
    cadre_token_file file;
    s->header = cadre_token_file_has_header(map->data, map->bytes);
    CADRE_TRY(cadre_token_file_read(&file, map->data, map->bytes, wide, s->path));
    s->run = (cadre_run_of_tokens){.data = file.data, .wide = file.wide, .count = file.count};
    CADRE_TRY(cadre_run_largest(&s->run, s->path));
    cadre_sha256(s->sum, file.data, (size_t)file.count * id_bytes(s));
    return read_beside(s);
}

/* Bytes of the text up to the first that is no character: the last token may end inside one. */
static size_t readable(const shown *s) {
    return s->text.length ? cadre_utf8_valid(s->text.at, s->text.length) : 0;
}

static cadre_status show_json(const shown *s, cadre_text *to) {
    json_t *ids = json_array(), *root;
    for (int i = 0; i < first_ids(s); i++)
        json_array_append_new(ids, json_integer(cadre_token_at(&s->run, i)));
    root = json_pack("{s:i, s:s, s:s, s:s, s:I, s:i, s:s, s:o}", "schema", 1, "path", s->path,
                     "format", s->header ? "llm.c" : "headerless", "dtype",
                     s->run.wide ? "uint32" : "uint16", "tokens", (json_int_t)s->run.count,
                     "largest_id", (int)s->run.largest, "sha256", s->sum, "first_ids", ids);
    if (root && s->tokenizer)
        json_object_update_new(root,
                               json_pack("{s:s, s:s, s:I, s:s%}", "tokenizer", s->beside,
                                         "tokenizer_kind", cadre_tokenizer_kind(s->tokenizer),
                                         "vocab", (json_int_t)cadre_tokenizer_vocab(s->tokenizer),
                                         "text", s->text.at ? s->text.at : "", readable(s)));
    CADRE_CHECK(root, CADRE_ERESOURCE, "no memory for a JSON document");
    cadre_status st = cadre_json_add(to, root);
    json_decref(root);
    cadre_text_add(to, "\n");
    return st ? st : to->status;
}

/* U+0080 to U+009F, which some terminals obey as they do escape sequences. */
static bool is_c1(const unsigned char *at, size_t left) {
    return left > 1 && at[0] == 0xC2 && at[1] >= 0x80 && at[1] <= 0x9F;
}

/* As between quotation marks in a program: one line, nothing that moves a terminal. `text` is
 * UTF-8. */
static void add_quoted(cadre_text *to, const char *text, size_t bytes) {
    cadre_text_add(to, "\"");
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n')
            cadre_text_add(to, "\\n");
        else if (c == '"' || c == '\\')
            cadre_text_add(to, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            cadre_text_add(to, "\\x%02x", c);
        else if (is_c1((const unsigned char *)text + i, bytes - i))
            cadre_text_add(to, "\\u%04x", (unsigned char)text[++i]);
        else
            cadre_text_add_bytes(to, &text[i], 1);
    }
    cadre_text_add(to, "\"\n");
}

static cadre_status show_text(const shown *s, cadre_text *to) {
    char count[32];
    cadre_text_add(to, "tokens      %s, %s\n", s->path,
                   s->run.wide ? (s->header ? "llm.c's format for uint32" : "uint32 without header")
                               : (s->header ? "llm.c's format" : "uint16 without header"));
    cadre_text_add(to, "count       %s, largest id %" PRId32 "\n",
                   cadre_show_count(count, sizeof count, s->run.count), s->run.largest);
    if (s->tokenizer)
        cadre_text_add(to, "tokenizer   %s, %s, vocabulary %s\n", s->beside,
                       cadre_tokenizer_kind(s->tokenizer),
                       cadre_show_count(count, sizeof count, cadre_tokenizer_vocab(s->tokenizer)));
    else
        cadre_text_add(to, "tokenizer   none beside it\n");
    cadre_text_add(to, "sha256      %s of the ids, little endian, without header\n", s->sum);
    cadre_text_add(to, "first ids  ");
    for (int i = 0; i < first_ids(s); i++)
        cadre_text_add(to, " %" PRId32, cadre_token_at(&s->run, i));
    cadre_text_add(to, "\n");
    if (s->tokenizer) {
        cadre_text_add(to, "their text  ");
        add_quoted(to, s->text.at, readable(s));
    }
    return to->status;
}

cadre_status cadre_data_show(const char *path, bool wide, bool json, cadre_text *to) {
    bool tokens = false;
    cadre_map map;
    shown s = {.path = path};
    const cadre_paths one = {.at = (char *[]){(char *)path}, .count = 1};
    CADRE_TRY(cadre_paths_are_tokens(&one, CADRE_DATA_AUTO, &tokens));
    CADRE_CHECK(tokens, CADRE_EDATA,
                "%s is no token file: its name does not end in .bin and it has no header of "
                "llm.c; `cadre data pack` makes one of text",
                path);
    CADRE_TRY(cadre_map_open(&map, path));
    cadre_status st = look(&s, &map, wide);
    if (!st) st = json ? show_json(&s, to) : show_text(&s, to);
    cadre_text_free(&s.text);
    cadre_tokenizer_close(&s.tokenizer);
    cadre_map_close(&map);
    return st;
}
