/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-level BPE out of a tokenizer.json. What would change the ids and is not built is refused by
 * name.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "data/bpe.h"
#include "data/utf8.h"

enum { MOST_IDS = 1 << 24 };

static bool stands_for_itself(int byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

uint32_t cadre_byte_point(int byte) {
    uint32_t other = 256;
    if (stands_for_itself(byte)) return (uint32_t)byte;
    for (int b = 0; b < byte; b++) other += !stands_for_itself(b);
    return other;
}

int cadre_point_byte(uint32_t point) {
    if (point < 256) return stands_for_itself((int)point) ? (int)point : -1;
    for (int b = 0; b < 256; b++)
        if (!stands_for_itself(b) && point-- == 256) return b;
    return -1;
}

/* The bytes that a vocabulary's entry stands for after `to`; false, and the entry's own text, where
 * it has characters that stand for none. */
static bool add_bytes(cadre_text *to, const char *entry) {
    size_t length = strlen(entry), from = to->length;
    for (size_t i = 0; i < length;) {
        uint32_t point = 0;
        int n = cadre_utf8_next(entry + i, length - i, &point), byte = cadre_point_byte(point);
        if (n == 0 || byte < 0) {
            bool zero = strcmp(entry, CADRE_JSON_ZERO) == 0;
            to->length = from;
            cadre_text_add_bytes(to, zero ? "" : entry, zero ? 1 : length);
            return false;
        }
        char c = (char)byte;
        cadre_text_add_bytes(to, &c, 1);
        i += (size_t)n;
    }
    return true;
}

/* ---- vocabulary ---- */

static cadre_status take_id(const json_t *value, const char *entry, const char *label,
                            int64_t *ret_id) {
    CADRE_CHECK(json_is_integer(value) && json_integer_value(value) >= 0 &&
                    json_integer_value(value) < MOST_IDS,
                CADRE_EDATA, "%s: the id of '%.60s' is no whole number from 0 to %d", label, entry,
                MOST_IDS - 1);
    *ret_id = json_integer_value(value);
    return CADRE_OK;
}

static cadre_status count_ids(cadre_bpe *t, json_t *vocab, const json_t *added, const char *label) {
    const char *entry;
    json_t *value;
    size_t i;
    int64_t id = 0, count = 0;
    json_object_foreach(vocab, entry, value) {
        CADRE_TRY(take_id(value, entry, label, &id));
        if (id >= count) count = id + 1;
    }
    json_array_foreach(added, i, value) {
        CADRE_TRY(take_id(json_object_get(value, "id"), "an added token", label, &id));
        CADRE_CHECK(json_is_string(json_object_get(value, "content")), CADRE_EDATA,
                    "%s: the added token %" PRId64 " has no content", label, id);
        if (id >= count) count = id + 1;
    }
    CADRE_CHECK(count > 0, CADRE_EDATA, "%s has no tokens", label);
    t->head.vocab = count;
    return CADRE_OK;
}

/* False where the id is taken. */
static bool add_piece(cadre_bpe *t, int64_t id, size_t from) {
    if (t->pieces[id].known) return false;
    t->pieces[id] = (cadre_bpe_piece){
        .at = (int64_t)from, .length = (int32_t)(t->bytes.length - from), .known = true};
    return true;
}

static void index_word(cadre_bpe *t, int32_t id) {
    const cadre_bpe_piece *piece = &t->pieces[id];
    const char *bytes = t->bytes.at + piece->at;
    if (piece->length == 1) t->byte_id[(unsigned char)bytes[0]] = id;
    uint64_t i = cadre_hash(bytes, (size_t)piece->length, 0);
    while (t->words[i & t->word_mask] >= 0) i++;
    t->words[i & t->word_mask] = id;
}

static cadre_status take_vocab(cadre_bpe *t, json_t *vocab, const char *label) {
    const char *entry;
    json_t *value;
    json_object_foreach(vocab, entry, value) {
        int64_t id = json_integer_value(value);
        size_t from = t->bytes.length;
        bool stands = add_bytes(&t->bytes, entry);
        CADRE_TRY(t->bytes.status);
        CADRE_CHECK(add_piece(t, id, from), CADRE_EDATA,
                    "%s: two entries of the vocabulary have the id %" PRId64 ", one is '%.60s'",
                    label, id, entry);
        if (stands && t->bytes.length > from) index_word(t, (int32_t)id);
    }
    return CADRE_OK;
}

/* Their text stands for itself; an id that the vocabulary has already keeps its bytes. */
static cadre_status take_added(cadre_bpe *t, const json_t *added) {
    json_t *value;
    size_t i;
    json_array_foreach(added, i, value) {
        size_t from = t->bytes.length;
        int64_t id = json_integer_value(json_object_get(value, "id"));
        if (t->pieces[id].known) continue;
        const char *content = json_string_value(json_object_get(value, "content"));
        cadre_text_add_bytes(&t->bytes, content, strlen(content));
        CADRE_TRY(t->bytes.status);
        (void)add_piece(t, id, from);
    }
    return CADRE_OK;
}

static uint64_t slots_for(uint64_t n) {
    uint64_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    return slots;
}

static cadre_status open_vocab(cadre_bpe *t, json_t *vocab, const json_t *added,
                               const char *label) {
    CADRE_TRY(count_ids(t, vocab, added, label));
    uint64_t slots = slots_for(json_object_size(vocab));
    t->word_mask = slots - 1;
    CADRE_TRY(cadre_alloc_array(&t->pieces, CADRE_MEM_LOADER, t->head.vocab, sizeof *t->pieces));
    CADRE_TRY(cadre_alloc_array(&t->words, CADRE_MEM_LOADER, (int64_t)slots, sizeof *t->words));
    memset(t->words, -1, slots * sizeof *t->words);
    memset(t->byte_id, -1, sizeof t->byte_id);
    CADRE_TRY(take_vocab(t, vocab, label));
    return take_added(t, added);
}

/* ---- merges ---- */

/* "a b" or ["a", "b"]: the two parts' bytes, one after the other in `to`; `*ret_cut` between. */
static cadre_status merge_parts(const json_t *merge, size_t number, cadre_text *to, size_t *ret_cut,
                                const char *label) {
    const char *text = json_string_value(merge);
    const char *second = json_string_value(json_array_get(merge, 1));
    const char *blank = text ? strchr(text, ' ') : NULL;
    char *first = NULL;
    if (json_array_size(merge) == 2 && second && json_string_value(json_array_get(merge, 0)))
        CADRE_TRY(cadre_strdup(&first, json_string_value(json_array_get(merge, 0))));
    else if (blank && !strchr(blank + 1, ' '))
        CADRE_TRY(cadre_strdup(&first, text));
    CADRE_CHECK(first, CADRE_EDATA,
                "%s: merge %zu is neither two words in a string nor a list of two strings", label,
                number);
    if (blank) {
        first[blank - text] = '\0';
        second = blank + 1;
    }
    cadre_text_clear(to);
    (void)add_bytes(to, first);
    *ret_cut = to->length;
    (void)add_bytes(to, second);
    cadre_free(&first);
    return to->status;
}

static cadre_status take_merge(cadre_bpe *t, const json_t *merge, size_t number,
                               cadre_text *scratch, const char *label) {
    size_t cut = 0;
    CADRE_TRY(merge_parts(merge, number, scratch, &cut, label));
    const char *bytes = scratch->at;
    int32_t left = cadre_bpe_word(t, bytes, cut);
    int32_t right = cadre_bpe_word(t, bytes + cut, scratch->length - cut);
    int32_t both = cadre_bpe_word(t, bytes, scratch->length);
    CADRE_CHECK(left >= 0 && right >= 0 && both >= 0, CADRE_EDATA,
                "%s: merge %zu joins or makes a token that is not in the vocabulary", label,
                number);
    cadre_bpe_merge *slot = cadre_bpe_slot(t, cadre_bpe_pair(left, right));
    *slot = (cadre_bpe_merge){cadre_bpe_pair(left, right), (int32_t)number, both};
    return CADRE_OK;
}

static cadre_status open_merges(cadre_bpe *t, const json_t *merges, const char *label) {
    uint64_t slots = slots_for(json_array_size(merges));
    json_t *merge;
    size_t i;
    cadre_text scratch = {0};
    CADRE_CHECK(json_array_size(merges) < MOST_IDS, CADRE_EDATA, "%s has %zu merges; at most %d",
                label, json_array_size(merges), MOST_IDS);
    CADRE_TRY(cadre_alloc_array(&t->merges, CADRE_MEM_LOADER, (int64_t)slots, sizeof *t->merges));
    t->merge_mask = slots - 1;
    for (uint64_t s = 0; s < slots; s++) t->merges[s].rank = -1;
    cadre_status st = CADRE_OK;
    json_array_foreach(merges, i, merge) {
        st = take_merge(t, merge, i, &scratch, label);
        if (st) break;
    }
    cadre_text_free(&scratch);
    return st;
}

/* ---- splitting ---- */

static const char *type_of(const json_t *object) {
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "(none)";
}

static cadre_status add_split(cadre_bpe *t, const json_t *step, const char *label) {
    const json_t *pattern = json_object_get(step, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *behavior = json_string_value(json_object_get(step, "behavior"));
    CADRE_CHECK(regex, CADRE_EDATA,
                "%s: the pre-tokenizer Split has a pattern that is no Regex, which is not "
                "supported",
                label);
    CADRE_CHECK(behavior && strcmp(behavior, "Isolated") == 0, CADRE_EDATA,
                "%s: the pre-tokenizer Split has the behavior %s, which is not supported; Isolated "
                "is",
                label, behavior ? behavior : "(none)");
    return cadre_splitter_add(t->splitter, regex, label);
}

/* Tokenizers take a missing use_regex for true. */
static cadre_status add_byte_level(cadre_bpe *t, const json_t *step, const char *label) {
    CADRE_CHECK(!json_is_true(json_object_get(step, "add_prefix_space")), CADRE_EDATA,
                "%s: add_prefix_space of the pre-tokenizer ByteLevel is not supported", label);
    if (json_is_false(json_object_get(step, "use_regex"))) return CADRE_OK;
    return cadre_splitter_add(t->splitter, cadre_split_gpt2, label);
}

static cadre_status add_step(cadre_bpe *t, const json_t *step, bool last, const char *label) {
    const char *type = type_of(step);
    bool byte_level = strcmp(type, "ByteLevel") == 0;
    CADRE_CHECK(byte_level == last, CADRE_EDATA,
                "%s: the pre-tokenizer is not byte-level: ByteLevel has to be its last step, where "
                "%s stands",
                label, type);
    if (byte_level) return add_byte_level(t, step, label);
    if (strcmp(type, "Split") == 0) return add_split(t, step, label);
    if (strcmp(type, "Digits") == 0)
        return cadre_splitter_add(
            t->splitter,
            json_is_true(json_object_get(step, "individual_digits")) ? "\\p{N}" : "\\p{N}+", label);
    return CADRE_FAIL(CADRE_EDATA, "%s: the pre-tokenizer %s is not supported", label, type);
}

static cadre_status open_splitter(cadre_bpe *t, const json_t *pre, const char *label) {
    CADRE_TRY(cadre_splitter_open(&t->splitter));
    if (strcmp(type_of(pre), "Sequence") != 0) return add_step(t, pre, true, label);
    const json_t *steps = json_object_get(pre, "pretokenizers");
    size_t count = json_array_size(steps);
    CADRE_CHECK(count > 0, CADRE_EDATA, "%s: the pre-tokenizer Sequence has no steps", label);
    for (size_t i = 0; i < count; i++)
        CADRE_TRY(add_step(t, json_array_get(steps, i), i + 1 == count, label));
    return CADRE_OK;
}

/* ---- the whole ---- */

/* The token for what is unknown is never used where every byte has a token. */
static cadre_status check_unknown(const cadre_bpe *t, const json_t *model, const char *label) {
    const json_t *unknown = json_object_get(model, "unk_token");
    bool whole = true;
    for (int i = 0; i < 256; i++) whole = whole && t->byte_id[i] >= 0;
    CADRE_CHECK(whole || !unknown || json_is_null(unknown), CADRE_EDATA,
                "%s: unk_token with a vocabulary that lacks single bytes is not supported", label);
    return CADRE_OK;
}

static cadre_status fill(cadre_bpe *t, const json_t *root, const char *json, size_t bytes,
                         const char *label) {
    const json_t *model = json_object_get(root, "model");
    t->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    cadre_text_add_bytes(&t->json, json, bytes);
    CADRE_TRY(t->json.status);
    CADRE_TRY(open_splitter(t, json_object_get(root, "pre_tokenizer"), label));
    CADRE_TRY(open_vocab(t, json_object_get(model, "vocab"), json_object_get(root, "added_tokens"),
                         label));
    CADRE_TRY(check_unknown(t, model, label));
    return open_merges(t, json_object_get(model, "merges"), label);
}

cadre_status cadre_bpe_open(cadre_tokenizer **ret_tokenizer, const json_t *root, const char *json,
                            size_t bytes, const char *label) {
    cadre_bpe *t = NULL;
    CADRE_TRY(cadre_alloc(&t, CADRE_MEM_LOADER, sizeof *t));
    t->head.row = &cadre_bpe_row;
    cadre_status st = fill(t, root, json, bytes, label);
    if (st) {
        t->head.row->close(&t->head);
        return st;
    }
    *ret_tokenizer = &t->head;
    return CADRE_OK;
}
