/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds without merges. `char`: a character (code point) is a token, ids in code-point order.
 * `byte`: a byte is a token, its value the id.
 *
 * As tokenizer.json both are BPE models without merges. `char` has no pre-tokenizer, so that every
 * character, blanks and line ends included, is looked up by itself, and the decoder Fuse, which
 * joins tokens with nothing between. `byte` has the byte-level pre-tokenizer and decoder without
 * their pattern and prefix.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "data/tokenizer_private.h"
#include "data/utf8.h"

enum { PAGE = 256, PAGES = 0x110000 / PAGE };

typedef struct char_tokenizer {
    cadre_tokenizer head;
    uint32_t *points; /* of each id */
    char (*pieces)[4];
    uint8_t *lengths;
    int16_t page[PAGES]; /* of a character's high bits, -1: none of them is known */
    int32_t *ids;        /* page x PAGE + low bits; -1: unknown */
} char_tokenizer;

cadre_status cadre_alphabet_add(cadre_alphabet *alphabet, const char *text, size_t bytes,
                                const char *label) {
    for (size_t i = 0; i < bytes;) {
        uint32_t point = 0;
        int length = cadre_utf8_next(text + i, bytes - i, &point);
        if (length == 0) return cadre_utf8_refuse(text, bytes, i, label);
        CADRE_CHECK(point != 0, CADRE_EDATA,
                    "%s has a zero byte at byte %zu: it is no text in UTF-8; data.tokenizer=byte "
                    "reads anything",
                    label, i);
        alphabet->set[point / 64] |= UINT64_C(1) << point % 64;
        i += (size_t)length;
    }
    return CADRE_OK;
}

/* ---- char ---- */

static int32_t char_id(const char_tokenizer *t, uint32_t point) {
    int page = t->page[point / PAGE];
    return page < 0 ? -1 : t->ids[page * PAGE + (int)(point % PAGE)];
}

static cadre_status refuse_char(const char_tokenizer *t, const char *text, size_t offset,
                                int length, uint32_t point, const char *label) {
    return CADRE_FAIL(CADRE_EDATA,
                      "%s has the character U+%04X (%.*s) at byte %zu, which is not among the %lld "
                      "characters that this tokenizer knows",
                      label, point, length, text + offset, offset, (long long)t->head.vocab);
}

static cadre_status char_encode(const cadre_tokenizer *head, const char *text, size_t bytes,
                                const char *label, cadre_tokens *ret_tokens) {
    const char_tokenizer *t = (const char_tokenizer *)head;
    size_t valid = cadre_utf8_valid(text, bytes);
    cadre_tokens tokens = {0};
    if (valid < bytes) return cadre_utf8_refuse(text, bytes, valid, label);
    CADRE_TRY(cadre_alloc_array(&tokens.ids, CADRE_MEM_LOADER, cadre_utf8_count(text, bytes),
                                sizeof *tokens.ids));
    for (size_t i = 0; i < bytes;) {
        uint32_t point = 0;
        int length = cadre_utf8_next(text + i, bytes - i, &point);
        int32_t id = char_id(t, point);
        if (id < 0) {
            cadre_tokens_free(&tokens);
            return refuse_char(t, text, i, length, point, label);
        }
        tokens.ids[tokens.count++] = id;
        i += (size_t)length;
    }
    *ret_tokens = tokens;
    return CADRE_OK;
}

static const char *char_piece(const cadre_tokenizer *head, int32_t id, size_t *ret_bytes) {
    const char_tokenizer *t = (const char_tokenizer *)head;
    *ret_bytes = t->lengths[id];
    return t->pieces[id];
}

/* A tokenizer.json with this vocabulary (taken) and no merges; the decoder has the pre-tokenizer's
 * form where there is one. */
static cadre_status plain_json(json_t *vocab, json_t *pre_tokenizer, json_t *decoder,
                               cadre_text *to) {
    json_t *root = json_pack(
        "{s:s, s:n, s:n, s:[], s:n, s:o?, s:n, s:o, s:{s:s, s:n, s:n, s:n, s:n, s:b, "
        "s:b, s:b, s:o, s:[]}}",
        "version", "1.0", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
        pre_tokenizer, "post_processor", "decoder", decoder, "model", "type", "BPE", "dropout",
        "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
        "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges");
    CADRE_CHECK(root, CADRE_ERESOURCE, "no memory for a tokenizer.json");
    cadre_status st = cadre_json_add(to, root);
    json_decref(root);
    return st;
}

static cadre_status char_to_json(const cadre_tokenizer *head, cadre_text *to) {
    const char_tokenizer *t = (const char_tokenizer *)head;
    json_t *vocab = json_object();
    int failed = vocab ? 0 : -1;
    for (int64_t i = 0; !failed && i < head->vocab; i++) {
        char key[5] = {0};
        memcpy(key, t->pieces[i], t->lengths[i]);
        failed = json_object_set_new(vocab, key, json_integer(i));
    }
    if (failed) json_decref(vocab);
    CADRE_CHECK(!failed, CADRE_ERESOURCE, "no memory for a tokenizer.json");
    return plain_json(vocab, NULL, json_pack("{s:s}", "type", "Fuse"), to);
}

static void char_close(cadre_tokenizer *head) {
    char_tokenizer *t = (char_tokenizer *)head;
    cadre_free(&t->ids);
    cadre_free(&t->lengths);
    cadre_free(&t->pieces);
    cadre_free(&t->points);
    cadre_free(&t);
}

static const cadre_tokenizer_row char_row = {"char", char_encode, char_piece, char_to_json,
                                             char_close};

static cadre_status index_points(char_tokenizer *t) {
    int pages = 0;
    memset(t->page, -1, sizeof t->page);
    for (int64_t i = 0; i < t->head.vocab; i++) {
        int16_t *page = &t->page[t->points[i] / PAGE];
        if (*page < 0) *page = (int16_t)pages++;
        t->lengths[i] = (uint8_t)cadre_utf8_put(t->pieces[i], t->points[i]);
    }
    CADRE_TRY(cadre_alloc_array(&t->ids, CADRE_MEM_LOADER, (int64_t)pages * PAGE, sizeof *t->ids));
    memset(t->ids, -1, (size_t)pages * PAGE * sizeof *t->ids);
    for (int64_t i = 0; i < t->head.vocab; i++)
        t->ids[t->page[t->points[i] / PAGE] * PAGE + (int)(t->points[i] % PAGE)] = (int32_t)i;
    return CADRE_OK;
}

cadre_status cadre_char_open_points(cadre_tokenizer **ret_tokenizer, const uint32_t *points,
                                    int64_t count) {
    char_tokenizer *t = NULL;
    CADRE_TRY(cadre_alloc(&t, CADRE_MEM_LOADER, sizeof *t));
    t->head.row = &char_row;
    t->head.vocab = count;
    cadre_status st = cadre_alloc_array(&t->points, CADRE_MEM_LOADER, count, sizeof *t->points);
    if (!st) st = cadre_alloc_array(&t->pieces, CADRE_MEM_LOADER, count, sizeof *t->pieces);
    if (!st) st = cadre_alloc_array(&t->lengths, CADRE_MEM_LOADER, count, sizeof *t->lengths);
    if (!st && count) memcpy(t->points, points, (size_t)count * sizeof *points);
    if (!st) st = index_points(t);
    if (st) {
        char_close(&t->head);
        return st;
    }
    *ret_tokenizer = &t->head;
    return CADRE_OK;
}

cadre_status cadre_char_open(cadre_tokenizer **ret_tokenizer, const cadre_alphabet *alphabet) {
    uint32_t *points = NULL;
    int64_t count = 0;
    for (int i = 0; i < CADRE_COUNT(alphabet->set); i++)
        count += __builtin_popcountll(alphabet->set[i]);
    CADRE_TRY(cadre_alloc_array(&points, CADRE_MEM_OTHER, count, sizeof *points));
    count = 0;
    for (uint32_t p = 0; p < 0x110000; p++)
        if (alphabet->set[p / 64] >> p % 64 & 1) points[count++] = p;
    cadre_status st = cadre_char_open_points(ret_tokenizer, points, count);
    cadre_free(&points);
    return st;
}

/* ---- byte ---- */

typedef struct byte_tokenizer {
    cadre_tokenizer head;
    char pieces[256];
} byte_tokenizer;

static cadre_status byte_encode(const cadre_tokenizer *t, const char *text, size_t bytes,
                                const char *label, cadre_tokens *ret_tokens) {
    cadre_tokens tokens = {0};
    (void)t;
    (void)label;
    CADRE_TRY(cadre_alloc_array(&tokens.ids, CADRE_MEM_LOADER, (int64_t)bytes, sizeof *tokens.ids));
    for (size_t i = 0; i < bytes; i++) tokens.ids[i] = (unsigned char)text[i];
    tokens.count = (int64_t)bytes;
    *ret_tokens = tokens;
    return CADRE_OK;
}

static const char *byte_piece(const cadre_tokenizer *head, int32_t id, size_t *ret_bytes) {
    *ret_bytes = 1;
    return &((const byte_tokenizer *)head)->pieces[id];
}

static json_t *byte_level(void) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                     "trim_offsets", 1, "use_regex", 0);
}

static cadre_status byte_to_json(const cadre_tokenizer *t, cadre_text *to) {
    json_t *vocab = json_object();
    int failed = vocab ? 0 : -1;
    for (int i = 0; !failed && i < t->vocab; i++) {
        char key[5] = {0};
        (void)cadre_utf8_put(key, cadre_byte_point(i));
        failed = json_object_set_new(vocab, key, json_integer(i));
    }
    if (failed) json_decref(vocab);
    CADRE_CHECK(!failed, CADRE_ERESOURCE, "no memory for a tokenizer.json");
    return plain_json(vocab, byte_level(), byte_level(), to);
}

static void byte_close(cadre_tokenizer *t) {
    cadre_free(&t);
}

static const cadre_tokenizer_row byte_row = {"byte", byte_encode, byte_piece, byte_to_json,
                                             byte_close};

cadre_status cadre_byte_open(cadre_tokenizer **ret_tokenizer) {
    byte_tokenizer *t = NULL;
    CADRE_TRY(cadre_alloc(&t, CADRE_MEM_LOADER, sizeof *t));
    t->head = (cadre_tokenizer){.row = &byte_row, .vocab = 256};
    for (int i = 0; i < 256; i++) t->pieces[i] = (char)i;
    *ret_tokenizer = &t->head;
    return CADRE_OK;
}
