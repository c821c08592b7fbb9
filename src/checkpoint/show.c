/* SPDX-License-Identifier: Apache-2.0
 *
 * What `cadre checkpoint show` and `check` say, as text and as JSON.
 */
#include "checkpoint/manifest.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Appends the document and gives it back; NULL is a failure to build it. */
static cadre_status add_json(json_t *root, cadre_text *to) {
    char *json = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    CADRE_CHECK(json, CADRE_ERESOURCE, "no memory for a JSON document");
    cadre_text_add(to, "%s\n", json);
    free(json);
    return to->status;
}

static json_t *hex(uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return json_string(text);
}

/* Elements of the weights alone. */
static int64_t parameters(const cadre_manifest *m, int *ret_tensors) {
    int64_t sum = 0;
    *ret_tensors = 0;
    for (int i = 0; i < m->piece_count; i++) {
        if (strcmp(m->pieces[i].file, CADRE_MODEL_FILE) != 0) continue;
        sum += m->pieces[i].count;
        (*ret_tensors)++;
    }
    return sum;
}

static json_t *files_json(const cadre_manifest *m) {
    json_t *files = json_array();
    for (int i = 0; i < m->file_count; i++) {
        const cadre_manifest_file *f = &m->files[i];
        json_array_append_new(files, json_pack("{s:s, s:I, s:o}", "name", f->name, "bytes",
                                               (json_int_t)f->bytes, "xxh3", hex(f->xxh3)));
    }
    return files;
}

static json_t *tensors_json(const cadre_manifest *m) {
    json_t *tensors = json_array();
    for (int i = 0; i < m->piece_count; i++) {
        const cadre_manifest_piece *p = &m->pieces[i];
        json_t *shape = json_array();
        for (int d = 0; d < p->dims.n; d++)
            json_array_append_new(shape, json_integer(p->dims.at[d]));
        json_array_append_new(tensors, json_pack("{s:s, s:s, s:o, s:[I, I], s:s}", "name", p->name,
                                                 "dtype", cadre_dtype_name(p->dtype), "shape",
                                                 shape, "range", (json_int_t)p->first,
                                                 (json_int_t)p->count, "file", p->file));
    }
    return tensors;
}

static cadre_status show_json(const char *path, const cadre_manifest *m, cadre_text *to) {
    const cadre_checkpoint_head *h = &m->head;
    int tensors;
    json_int_t count = parameters(m, &tensors);
    json_t *loss = isfinite(h->valid_loss) ? json_real(h->valid_loss) : json_null();
    return add_json(json_pack("{s:i, s:s, s:s, s:I, s:I, s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:s}",
                              "schema", 1, "path", path, "cadre_version", m->version, "step",
                              (json_int_t)h->step, "samples", (json_int_t)h->samples, "layout",
                              h->layout, "valid_loss", loss, "parameters", count, "data_hash",
                              hex(h->data_hash), "parameter_hash", hex(h->parameter_hash), "files",
                              files_json(m), "tensors", tensors_json(m), "settings", h->settings),
                    to);
}

static cadre_status show_text(const char *path, const cadre_manifest *m, cadre_text *to) {
    const cadre_checkpoint_head *h = &m->head;
    char size[32], samples[32], count[32];
    int tensors;
    int64_t total = parameters(m, &tensors);
    cadre_text_add(to, "checkpoint  %s\n", path);
    cadre_text_add(to, "step        %" PRId64 ", %s samples\n", h->step,
                   cadre_show_count(samples, sizeof samples, h->samples));
    if (isfinite(h->valid_loss)) cadre_text_add(to, "validation  loss %.4f\n", h->valid_loss);
    cadre_text_add(to, "layout      %s\n", h->layout);
    cadre_text_add(to, "weights     %s parameters in %d tensors, hash %016" PRIx64 "\n",
                   cadre_show_count(count, sizeof count, total), tensors, h->parameter_hash);
    cadre_text_add(to, "written by  cadre %s\n", m->version);
    for (int i = 0; i < m->file_count; i++)
        cadre_text_add(
            to, "%-11s %-28s %12s  xxh3 %016" PRIx64 "\n", i ? "" : "files", m->files[i].name,
            cadre_show_bytes(size, sizeof size, (double)m->files[i].bytes), m->files[i].xxh3);
    return to->status;
}

cadre_status cadre_checkpoint_show(const char *path, bool json, cadre_text *to) {
    char found[CADRE_PATH];
    cadre_text skipped = {0};
    cadre_checkpoint *c = NULL;
    cadre_status st = cadre_checkpoint_find(path, found, &skipped);
    if (!st) st = cadre_checkpoint_open(&c, found, false);
    if (!st && !json && skipped.length) cadre_text_add(to, "passed over: %s", skipped.at);
    if (!st && json) st = show_json(found, cadre_checkpoint_manifest(c), to);
    if (!st && !json) st = show_text(found, cadre_checkpoint_manifest(c), to);
    cadre_checkpoint_close(&c);
    cadre_text_free(&skipped);
    return st;
}

/* ---- check ---- */

typedef struct verdict {
    int good, bad;
    char first[CADRE_ERROR_TEXT]; /* what is wrong with the first bad one */
    json_t *rows;                 /* NULL: as text */
    cadre_text *to;
} verdict;

static cadre_status check_one(verdict *v, const char *path) {
    cadre_checkpoint *c = NULL;
    cadre_status st = cadre_checkpoint_open(&c, path, true);
    if (st && st != CADRE_EDATA) return st;
    const char *why = st ? cadre_error_text() : "";
    int files = c ? cadre_checkpoint_manifest(c)->file_count : 0;
    if (v->rows)
        json_array_append_new(
            v->rows, json_pack("{s:s, s:b, s:s}", "path", path, "ok", !st, "problem", why));
    else if (st)
        cadre_text_add(v->to, "bad   %s: %s\n", path, why);
    else
        cadre_text_add(v->to, "good  %s: %d files, all sizes and checksums agree\n", path, files);
    if (st && v->bad++ == 0) snprintf(v->first, sizeof v->first, "%s", why);
    v->good += !st;
    cadre_checkpoint_close(&c);
    return CADRE_OK;
}

/* A checkpoint by itself; of a run folder, all of them. */
static cadre_status check_all(verdict *v, const char *path) {
    char folder[CADRE_PATH], one[CADRE_PATH];
    int64_t *steps = NULL;
    int count = 0;
    cadre_status st = CADRE_OK;
    if (cadre_path_is_folder(path)) CADRE_TRY(cadre_checkpoint_list(path, folder, &steps, &count));
    bool run = cadre_path_is_folder(path) && strcmp(folder, path) != 0;
    if (count == 0 && run) st = CADRE_FAIL(CADRE_EDATA, "%s holds no checkpoint", path);
    if (count == 0 && !run) st = check_one(v, path);
    for (int i = 0; !st && i < count; i++)
        st = check_one(v, cadre_checkpoint_name(one, folder, steps[i]));
    cadre_free(&steps);
    return st;
}

cadre_status cadre_checkpoint_check(const char *path, bool json, cadre_text *to) {
    verdict v = {.to = to, .rows = json ? json_array() : NULL};
    cadre_status st = check_all(&v, path);
    if (st)
        json_decref(v.rows);
    else if (json)
        st = add_json(json_pack("{s:i, s:b, s:i, s:i, s:o}", "schema", 1, "ok", v.bad == 0, "good",
                                v.good, "bad", v.bad, "checkpoints", v.rows),
                      to);
    CADRE_TRY(st);
    CADRE_CHECK(v.bad == 0, CADRE_EDATA, "%d of %d checkpoints damaged: %s", v.bad, v.good + v.bad,
                v.first);
    return to->status;
}
