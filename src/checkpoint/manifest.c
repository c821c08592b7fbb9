/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing and reading MANIFEST.json.
 */
#include "checkpoint/manifest.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

#define SELF_LINE ",\n \"self_xxh3\": \"%016" PRIx64 "\"\n}\n"

/* ---- to text ---- */

static json_t *hex(uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return json_string(text);
}

static json_t *sizes(const cadre_dims *dims, bool zeros) {
    json_t *list = json_array();
    for (int i = 0; i < dims->n; i++)
        json_array_append_new(list, json_integer(zeros ? 0 : dims->at[i]));
    return list;
}

static json_t *file_object(const cadre_manifest_file *f) {
    return json_pack("{s:s, s:I, s:o}", "name", f->name, "bytes", (json_int_t)f->bytes, "xxh3",
                     hex(f->xxh3));
}

static json_t *piece_object(const cadre_manifest_piece *p) {
    return json_pack("{s:s, s:s, s:o, s:{s:o, s:o}, s:[I, I], s:s, s:s}", "name", p->name, "dtype",
                     cadre_dtype_name(p->dtype), "shape", sizes(&p->dims, false), "box", "start",
                     sizes(&p->dims, true), "size", sizes(&p->dims, false), "range",
                     (json_int_t)p->first, (json_int_t)p->count, "file", p->file, "key", p->key);
}

static json_t *document_of(const cadre_manifest *m) {
    const cadre_checkpoint_head *h = &m->head;
    json_t *files = json_array(), *pieces = json_array();
    for (int i = 0; i < m->file_count; i++) json_array_append_new(files, file_object(&m->files[i]));
    for (int i = 0; i < m->piece_count; i++)
        json_array_append_new(pieces, piece_object(&m->pieces[i]));
    bool whole = (int)json_array_size(files) == m->file_count &&
                 (int)json_array_size(pieces) == m->piece_count;
    json_t *loss = isfinite(h->valid_loss) ? json_real(h->valid_loss) : json_null();
    json_t *root =
        json_pack("{s:i, s:s, s:I, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:s}", "schema", 1,
                  "cadre_version", cadre_version(), "step", (json_int_t)h->step, "samples",
                  (json_int_t)h->samples, "layout", h->layout ? h->layout : "", "valid_loss", loss,
                  "data_hash", hex(h->data_hash), "parameter_hash", hex(h->parameter_hash), "files",
                  files, "pieces", pieces, "settings", h->settings ? h->settings : "");
    if (whole) return root;
    json_decref(root);
    return NULL;
}

cadre_status cadre_manifest_text(const cadre_manifest *m, cadre_text *to) {
    json_t *root = document_of(m);
    char *json = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    CADRE_CHECK(json, CADRE_EINTERNAL,
                "the manifest of step %" PRId64 " cannot be written as JSON: a name, or the "
                "settings, may hold bytes that are no UTF-8",
                m->head.step);
    size_t length = strlen(json) - 2; /* without its "\n}" */
    cadre_text_add_bytes(to, json, length);
    cadre_text_add(to, SELF_LINE, cadre_hash(json, length, 0));
    free(json);
    return to->status;
}

/* ---- and back ---- */

/* The last line holds the hash of what stands before it; every byte counts. */
static cadre_status check_self(const char *text, size_t bytes) {
    char line[64];
    size_t tail = (size_t)snprintf(line, sizeof line, SELF_LINE, (uint64_t)0);
    CADRE_CHECK(bytes > tail, CADRE_EDATA, "%zu bytes are no manifest (truncated?)", bytes);
    size_t before = bytes - tail;
    snprintf(line, sizeof line, SELF_LINE, cadre_hash(text, before, 0));
    CADRE_CHECK(memcmp(text + before, line, tail) == 0, CADRE_EDATA,
                "truncated or altered: the checksum in its last line is not that of its %zu bytes",
                before);
    return CADRE_OK;
}

static cadre_status get_integer(const json_t *o, const char *key, int64_t *ret) {
    const json_t *value = json_object_get(o, key);
    CADRE_CHECK(json_is_integer(value) && json_integer_value(value) >= 0, CADRE_EDATA,
                "'%s' is missing or no count", key);
    *ret = json_integer_value(value);
    return CADRE_OK;
}

static cadre_status get_text(const json_t *o, const char *key, const char **ret) {
    *ret = json_string_value(json_object_get(o, key));
    CADRE_CHECK(*ret, CADRE_EDATA, "'%s' is missing or no text", key);
    return CADRE_OK;
}

static cadre_status get_hex(const json_t *o, const char *key, uint64_t *ret) {
    const char *text;
    CADRE_TRY(get_text(o, key, &text));
    CADRE_CHECK(strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16, CADRE_EDATA,
                "'%s' is no hash of 16 hex digits: '%s'", key, text);
    *ret = strtoull(text, NULL, 16);
    return CADRE_OK;
}

static cadre_status get_file(const json_t *o, cadre_manifest_file *ret) {
    CADRE_TRY(get_text(o, "name", &ret->name));
    CADRE_CHECK(ret->name[0] && ret->name[0] != '.' && !strchr(ret->name, '/'), CADRE_EDATA,
                "'%s' is no name of a file in this folder", ret->name);
    CADRE_TRY(get_integer(o, "bytes", &ret->bytes));
    return get_hex(o, "xxh3", &ret->xxh3);
}

static cadre_status get_dims(const json_t *list, const char *name, cadre_dims *ret) {
    int64_t count = 1;
    CADRE_CHECK(json_is_array(list) && json_array_size(list) <= CADRE_DIMS_MAX, CADRE_EDATA,
                "piece '%s' has no shape of at most %d dims", name, CADRE_DIMS_MAX);
    ret->n = (int32_t)json_array_size(list);
    for (int i = 0; i < ret->n; i++) {
        const json_t *dim = json_array_get(list, (size_t)i);
        ret->at[i] = json_integer_value(dim);
        CADRE_CHECK(json_is_integer(dim) && ret->at[i] >= 0 &&
                        !__builtin_mul_overflow(count, ret->at[i], &count),
                    CADRE_EDATA, "piece '%s': dim %d of its shape is no size", name, i);
    }
    return CADRE_OK;
}

static cadre_status get_dtype(const json_t *o, cadre_dtype *ret) {
    const char *text;
    CADRE_TRY(get_text(o, "dtype", &text));
    for (int i = 0; i < CADRE_DTYPES; i++) {
        if (strcmp(text, cadre_dtype_name((cadre_dtype)i)) != 0) continue;
        *ret = (cadre_dtype)i;
        return CADRE_OK;
    }
    return CADRE_FAIL(CADRE_EDATA, "unknown dtype '%s'", text);
}

static cadre_status get_piece(const json_t *o, cadre_manifest_piece *ret) {
    CADRE_TRY(get_text(o, "name", &ret->name));
    CADRE_TRY(get_dtype(o, &ret->dtype));
    CADRE_TRY(get_dims(json_object_get(o, "shape"), ret->name, &ret->dims));
    const json_t *box = json_object_get(o, "box"), *range = json_object_get(o, "range");
    cadre_dims start, size;
    CADRE_TRY(get_dims(json_object_get(box, "start"), ret->name, &start));
    CADRE_TRY(get_dims(json_object_get(box, "size"), ret->name, &size));
    bool whole = cadre_dims_equal(&size, &ret->dims);
    for (int i = 0; i < start.n; i++) whole = whole && start.at[i] == 0;
    CADRE_CHECK(whole, CADRE_EDATA,
                "piece '%s' is a box inside its tensor; this version reads whole boxes", ret->name);
    ret->first = json_integer_value(json_array_get(range, 0));
    ret->count = json_integer_value(json_array_get(range, 1));
    int64_t of = cadre_dims_count(&ret->dims);
    CADRE_CHECK(json_array_size(range) == 2 && ret->first >= 0 && ret->count >= 0 &&
                    ret->count <= of && ret->first <= of - ret->count,
                CADRE_EDATA,
                "piece '%s': range [%" PRId64 ", %" PRId64 "] lies outside its %" PRId64
                " elements",
                ret->name, ret->first, ret->count, of);
    CADRE_TRY(get_text(o, "file", &ret->file));
    return get_text(o, "key", &ret->key);
}

static cadre_status get_head(const json_t *root, cadre_manifest *m) {
    int64_t schema = 0;
    CADRE_TRY(get_integer(root, "schema", &schema));
    CADRE_CHECK(schema == 1, CADRE_EDATA, "schema %" PRId64 "; this version reads schema 1",
                schema);
    CADRE_TRY(get_text(root, "cadre_version", &m->version));
    CADRE_TRY(get_integer(root, "step", &m->head.step));
    CADRE_TRY(get_integer(root, "samples", &m->head.samples));
    CADRE_TRY(get_text(root, "layout", &m->head.layout));
    CADRE_TRY(get_text(root, "settings", &m->head.settings));
    CADRE_TRY(get_hex(root, "data_hash", &m->head.data_hash));
    CADRE_TRY(get_hex(root, "parameter_hash", &m->head.parameter_hash));
    const json_t *loss = json_object_get(root, "valid_loss");
    CADRE_CHECK(json_is_number(loss) || json_is_null(loss), CADRE_EDATA,
                "'valid_loss' is no number and not null");
    m->head.valid_loss = json_is_null(loss) ? NAN : json_number_value(loss);
    return CADRE_OK;
}

static cadre_status get_lists(const json_t *root, cadre_manifest *m) {
    const json_t *files = json_object_get(root, "files"), *pieces = json_object_get(root, "pieces");
    CADRE_CHECK(json_is_array(files) && json_is_array(pieces), CADRE_EDATA,
                "'files' or 'pieces' is no list");
    m->file_count = (int)json_array_size(files);
    m->piece_count = (int)json_array_size(pieces);
    CADRE_TRY(cadre_alloc_array(&m->files, CADRE_MEM_OTHER, m->file_count, sizeof *m->files));
    CADRE_TRY(cadre_alloc_array(&m->pieces, CADRE_MEM_OTHER, m->piece_count, sizeof *m->pieces));
    for (int i = 0; i < m->file_count; i++)
        CADRE_TRY(get_file(json_array_get(files, (size_t)i), &m->files[i]));
    for (int i = 0; i < m->piece_count; i++)
        CADRE_TRY(get_piece(json_array_get(pieces, (size_t)i), &m->pieces[i]));
    return cadre_manifest_order(m->pieces, m->piece_count);
}

static cadre_status read_document(cadre_manifest *m, const char *text, size_t bytes) {
    CADRE_TRY(check_self(text, bytes));
    json_error_t why;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    CADRE_CHECK(root, CADRE_EDATA, "no JSON: %s in line %d", why.text, why.line);
    m->document = root;
    CADRE_TRY(get_head(root, m));
    return get_lists(root, m);
}

cadre_status cadre_manifest_read(cadre_manifest *ret_manifest, const char *text, size_t bytes,
                                 const char *label) {
    cadre_manifest m = {0};
    cadre_status st = read_document(&m, text, bytes);
    if (st) {
        cadre_manifest_free(&m);
        return cadre_error_prefix(st, "%s: ", label);
    }
    *ret_manifest = m;
    return CADRE_OK;
}

void cadre_manifest_free(cadre_manifest *m) {
    cadre_free(&m->files);
    cadre_free(&m->pieces);
    json_decref(m->document);
    *m = (cadre_manifest){0};
}

/* ---- every tensor exactly once ---- */

static int by_name_and_place(const void *a, const void *b) {
    const cadre_manifest_piece *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order) return order;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->count < y->count ? -1 : x->count > y->count;
}

/* The pieces of one tensor, from `pieces` on; how many there are goes into `ret_count`. */
static cadre_status check_tensor(const cadre_manifest_piece *pieces, int count, int *ret_count) {
    const cadre_manifest_piece *head = pieces;
    int64_t at = 0;
    int i = 0;
    for (; i < count && strcmp(pieces[i].name, head->name) == 0; i++) {
        const cadre_manifest_piece *p = &pieces[i];
        CADRE_CHECK(p->dtype == head->dtype && cadre_dims_equal(&p->dims, &head->dims), CADRE_EDATA,
                    "tensor '%s' is described twice, with different shapes or types", p->name);
        CADRE_CHECK(p->first >= at, CADRE_EDATA,
                    "tensor '%s': elements from %" PRId64 " on are held twice", p->name, p->first);
        CADRE_CHECK(p->first == at, CADRE_EDATA,
                    "tensor '%s': elements %" PRId64 " to %" PRId64 " are held by nobody", p->name,
                    at, p->first - 1);
        at += p->count;
    }
    int64_t of = cadre_dims_count(&head->dims);
    CADRE_CHECK(at == of, CADRE_EDATA,
                "tensor '%s': elements %" PRId64 " to %" PRId64 " are held by nobody", head->name,
                at, of - 1);
    *ret_count = i;
    return CADRE_OK;
}

cadre_status cadre_manifest_order(cadre_manifest_piece *pieces, int count) {
    if (count) qsort(pieces, (size_t)count, sizeof *pieces, by_name_and_place);
    for (int i = 0, held = 0; i < count; i += held)
        CADRE_TRY(check_tensor(pieces + i, count - i, &held));
    return CADRE_OK;
}
