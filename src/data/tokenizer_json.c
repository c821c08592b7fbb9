/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.json: which kind a file holds (its structure decides), and GPT-2's two files in its
 * form. Truncation, padding and the post-processor belong to how a caller uses tokens and are not
 * looked at; special tokens are decoded, but their text is encoded as any other.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"
#include "data/tokenizer_private.h"
#include "data/utf8.h"

/* ---- text to JSON and back ---- */

/* Whether the \u0000 at `at` is an escape: an even number of backslashes stands before it. */
static bool is_zero(const char *json, size_t bytes, size_t at) {
    size_t before = 0;
    if (at + 6 > bytes || memcmp(json + at, "\\u0000", 6) != 0) return false;
    while (before < at && json[at - 1 - before] == '\\') before++;
    return before % 2 == 0;
}

static void spell_zeros(const char *json, size_t bytes, cadre_text *to) {
    size_t from = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (json[i] != '\\' || !is_zero(json, bytes, i)) continue;
        cadre_text_add_bytes(to, json + from, i - from);
        cadre_text_add_bytes(to, CADRE_JSON_ZERO, strlen(CADRE_JSON_ZERO));
        from = i + 6;
    }
    cadre_text_add_bytes(to, json + from, bytes - from);
}

cadre_status cadre_json_load(json_t **ret_root, const char *json, size_t bytes, const char *label) {
    cadre_text spelt = {0};
    json_error_t error;
    if (memmem(json, bytes, "\\u0000", 6)) {
        spell_zeros(json, bytes, &spelt);
        json = spelt.at;
        bytes = spelt.length;
    }
    cadre_status st = spelt.status;
    json_t *root = st ? NULL : json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &error);
    cadre_text_free(&spelt);
    CADRE_TRY(st);
    CADRE_CHECK(root, CADRE_EDATA, "%s is no JSON: line %d: %s", label, error.line, error.text);
    *ret_root = root;
    return CADRE_OK;
}

static int add_dumped(const char *text, size_t bytes, void *to) {
    cadre_text_add_bytes(to, text, bytes);
    return ((cadre_text *)to)->status ? -1 : 0;
}

cadre_status cadre_json_add(cadre_text *to, const json_t *root) {
    int failed = json_dump_callback(root, add_dumped, to, JSON_INDENT(2));
    CADRE_TRY(to->status);
    CADRE_CHECK(!failed, CADRE_ERESOURCE, "no memory for a tokenizer.json");
    return CADRE_OK;
}

/* ---- what would change the ids ---- */

static bool is_type(const json_t *object, const char *type) {
    const char *is = json_string_value(json_object_get(object, "type"));
    return is && strcmp(is, type) == 0;
}

static bool is_unset(const json_t *value) {
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

static cadre_status check_features(const json_t *root, const char *label) {
    static const char *const model_features[] = {"dropout", "continuing_subword_prefix",
                                                 "end_of_word_suffix", "byte_fallback"};
    const json_t *model = json_object_get(root, "model"), *added;
    const json_t *normalizer = json_object_get(root, "normalizer");
    CADRE_CHECK(json_is_object(model), CADRE_EDATA, "%s has no model: it is no tokenizer.json",
                label);
    const char *type = json_string_value(json_object_get(model, "type"));
    CADRE_CHECK(type && strcmp(type, "BPE") == 0, CADRE_EDATA,
                "%s has a model of type %s, which is not supported; byte-level BPE is", label,
                type ? type : "(none)");
    CADRE_CHECK(is_unset(normalizer), CADRE_EDATA,
                "%s has a normalizer, which is not supported: it would change the text", label);
    for (int i = 0; i < CADRE_COUNT(model_features); i++)
        CADRE_CHECK(is_unset(json_object_get(model, model_features[i])), CADRE_EDATA,
                    "%s: model.%s is set, which is not supported", label, model_features[i]);
    CADRE_CHECK(json_is_object(json_object_get(model, "vocab")), CADRE_EDATA,
                "%s has no model.vocab", label);
    CADRE_CHECK(json_is_array(json_object_get(model, "merges")), CADRE_EDATA,
                "%s has no list model.merges", label);
    added = json_object_get(root, "added_tokens");
    CADRE_CHECK(is_unset(added) || json_is_array(added), CADRE_EDATA, "%s: added_tokens is no list",
                label);
    return CADRE_OK;
}

/* ---- our own two kinds ---- */

/* One entry of a vocabulary of n single characters; each id is there once. */
static cadre_status take_point(const char *entry, const json_t *value, uint32_t *points, int64_t n,
                               const char *label) {
    uint32_t point = 0;
    size_t length = strlen(entry);
    int first = length ? cadre_utf8_next(entry, length, &point) : 0;
    int64_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    CADRE_CHECK(first && (size_t)first == length, CADRE_EDATA,
                "%s: '%.60s' is no single character, which a vocabulary without merges and "
                "pre-tokenizer takes",
                label, entry);
    CADRE_CHECK(id >= 0 && id < n && points[id] == 0, CADRE_EDATA,
                "%s: the id of '%s' is not one of 0 to %" PRId64 ", each once", label, entry,
                n - 1);
    points[id] = point;
    return CADRE_OK;
}

static cadre_status open_char(cadre_tokenizer **ret_tokenizer, json_t *vocab, const char *label) {
    uint32_t *points = NULL;
    const char *entry;
    json_t *value;
    int64_t n = (int64_t)json_object_size(vocab);
    CADRE_CHECK(n > 0, CADRE_EDATA, "%s has no tokens", label);
    CADRE_TRY(cadre_alloc_array(&points, CADRE_MEM_OTHER, n, sizeof *points));
    cadre_status st = CADRE_OK;
    json_object_foreach(vocab, entry, value) {
        st = take_point(entry, value, points, n, label);
        if (st) break;
    }
    if (!st) st = cadre_char_open_points(ret_tokenizer, points, n);
    cadre_free(&points);
    return st;
}

static bool is_byte(const json_t *root, const json_t *vocab) {
    const json_t *pre = json_object_get(root, "pre_tokenizer");
    bool same = is_type(pre, "ByteLevel") && json_is_false(json_object_get(pre, "use_regex")) &&
                !json_is_true(json_object_get(pre, "add_prefix_space")) &&
                json_object_size(vocab) == 256 &&
                json_array_size(json_object_get(root, "added_tokens")) == 0;
    for (int i = 0; same && i < 256; i++) {
        char key[5] = {0};
        (void)cadre_utf8_put(key, cadre_byte_point(i));
        const json_t *id = json_object_get(vocab, key);
        same = json_is_integer(id) && json_integer_value(id) == i;
    }
    return same;
}

static cadre_status open_root(cadre_tokenizer **ret_tokenizer, const json_t *root, const char *json,
                              size_t bytes, const char *label) {
    CADRE_TRY(check_features(root, label));
    const json_t *model = json_object_get(root, "model");
    json_t *vocab = json_object_get(model, "vocab");
    bool merges = json_array_size(json_object_get(model, "merges")) > 0;
    bool added = json_array_size(json_object_get(root, "added_tokens")) > 0;
    if (!is_unset(json_object_get(root, "pre_tokenizer"))) {
        if (!merges && is_byte(root, vocab)) return cadre_byte_open(ret_tokenizer);
        return cadre_bpe_open(ret_tokenizer, root, json, bytes, label);
    }
    CADRE_CHECK(!merges && !added, CADRE_EDATA,
                "%s has no pre-tokenizer, but merges or added tokens; byte-level BPE has the "
                "pre-tokenizer ByteLevel",
                label);
    return open_char(ret_tokenizer, vocab, label);
}

cadre_status cadre_tokenizer_from_json(cadre_tokenizer **ret_tokenizer, const char *json,
                                       size_t bytes, const char *label) {
    json_t *root = NULL;
    CADRE_TRY(cadre_json_load(&root, json, bytes, label));
    cadre_status st = open_root(ret_tokenizer, root, json, bytes, label);
    json_decref(root);
    return st;
}

/* ---- GPT-2's files ---- */

/* A line a merge; a first line "#version" is none. */
static cadre_status read_merges(json_t *merges, const char *text, size_t bytes, const char *label) {
    const char *end = text + bytes;
    for (const char *line = text; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        size_t length = (size_t)(stop - line);
        if (length && line[length - 1] == '\r') length--;
        bool head = line == text && length >= 8 && memcmp(line, "#version", 8) == 0;
        if (length && !head)
            CADRE_CHECK(json_array_append_new(merges, json_stringn(line, length)) == 0, CADRE_EDATA,
                        "%s: the line of merge %zu is no text", label, json_array_size(merges));
        line = stop + 1;
    }
    return CADRE_OK;
}

/* `vocab` and `merges` are borrowed. */
static cadre_status open_parts(cadre_tokenizer **ret_tokenizer, json_t *vocab, json_t *merges,
                               const char *label) {
    json_t *root = json_pack(
        "{s:s, s:n, s:n, s:[], s:n, s:{s:s, s:b, s:b, s:b}, s:n, s:{s:s, s:b, s:b, s:b}, "
        "s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:O, s:O}}",
        "version", "1.0", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
        "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1,
        "post_processor", "decoder", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
        "use_regex", 1, "model", "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix",
        "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab,
        "merges", merges);
    CADRE_CHECK(root, CADRE_ERESOURCE, "no memory for a tokenizer.json");
    cadre_text json = {0};
    cadre_status st = cadre_json_add(&json, root);
    if (!st) st = check_features(root, label);
    if (!st) st = cadre_bpe_open(ret_tokenizer, root, json.at, json.length, label);
    cadre_text_free(&json);
    json_decref(root);
    return st;
}

cadre_status cadre_gpt2_files_open(cadre_tokenizer **ret_tokenizer, const char *vocab_path,
                                   const char *merges_path) {
    cadre_map vocab_map = {0}, merges_map = {0};
    json_t *vocab = NULL, *merges = json_array();
    cadre_status st = cadre_map_open(&vocab_map, vocab_path);
    if (!st) st = cadre_map_open(&merges_map, merges_path);
    if (!st)
        st = cadre_json_load(&vocab, (const char *)vocab_map.data, vocab_map.bytes, vocab_path);
    if (!st && !json_is_object(vocab))
        st = CADRE_FAIL(CADRE_EDATA, "%s is no object of tokens and ids", vocab_path);
    if (!st) st = read_merges(merges, (const char *)merges_map.data, merges_map.bytes, merges_path);
    if (!st) st = open_parts(ret_tokenizer, vocab, merges, vocab_path);
    json_decref(merges);
    json_decref(vocab);
    cadre_map_close(&merges_map);
    cadre_map_close(&vocab_map);
    return st;
}
