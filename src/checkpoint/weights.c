/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights by name out of one safetensors file or several.
 */
#include "checkpoint/weights.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "checkpoint/manifest.h"

#define INDEX_FILE "model.safetensors.index.json"
#define PREFIX "transformer."
#define HEAD "lm_head.weight"
#define EMBEDDING PREFIX "wte.weight"

enum { SLICE = 1 << 16, MOST_FILES = 10000 };

typedef struct part {
    const char *name;
    cadre_safetensors *file;
} part;

typedef struct entry {
    const char *name;
    const cadre_stored *stored;
    const part *part;
    bool used;
} entry;

struct cadre_weights {
    char folder[CADRE_PATH];
    json_t *index; /* owns the names of several files; NULL: one file */
    part *parts;
    int part_count;
    entry *entries; /* by name */
    int entry_count;
};

/* ---- finding ---- */

static bool holds(const char *folder, const char *name) {
    char path[CADRE_PATH];
    return cadre_path_is_file(cadre_join(path, sizeof path, folder, name));
}

static cadre_status check_foreign(const char *folder) {
    bool weights = holds(folder, CADRE_MODEL_FILE) || holds(folder, INDEX_FILE);
    CADRE_CHECK(weights || !holds(folder, "pytorch_model.bin"), CADRE_EDATA,
                "%s has its weights in pytorch_model.bin, which is not read; save it as "
                "safetensors",
                folder);
    CADRE_CHECK(weights, CADRE_EDATA, "%s has a config.json, but neither %s nor %s", folder,
                CADRE_MODEL_FILE, INDEX_FILE);
    return CADRE_OK;
}

cadre_status cadre_weights_find(const char *path, bool deep, char ret_folder[CADRE_PATH],
                                bool *ret_checkpoint, cadre_text *skipped) {
    const char *slash = strrchr(path, '/');
    int64_t step;
    CADRE_CHECK(strlen(path) < CADRE_PATH, CADRE_EUSAGE, "path too long: %s", path);
    bool named = cadre_checkpoint_step(slash ? slash + 1 : path, &step);
    bool foreign = !named && !holds(path, CADRE_MANIFEST_NAME) && holds(path, "config.json");
    if (ret_checkpoint) *ret_checkpoint = !foreign;
    if (!foreign) return cadre_checkpoint_find_as(path, deep, ret_folder, skipped);
    CADRE_TRY(check_foreign(path));
    strcpy(ret_folder, path);
    return CADRE_OK;
}

/* ---- opening ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

static cadre_status open_part(cadre_weights *w, const char *name) {
    char path[CADRE_PATH];
    part *p = &w->parts[w->part_count];
    CADRE_TRY(cadre_safetensors_open(&p->file, cadre_join(path, sizeof path, w->folder, name)));
    p->name = name;
    w->part_count++;
    return CADRE_OK;
}

static cadre_status open_single(cadre_weights *w) {
    CADRE_TRY(cadre_alloc_array(&w->parts, CADRE_MEM_OTHER, 1, sizeof *w->parts));
    CADRE_TRY(open_part(w, CADRE_MODEL_FILE));
    const part *p = &w->parts[0];
    int count = cadre_safetensors_count(p->file);
    CADRE_TRY(cadre_alloc_array(&w->entries, CADRE_MEM_OTHER, count, sizeof *w->entries));
    for (int i = 0; i < count; i++) {
        const cadre_stored *s = cadre_safetensors_at(p->file, i);
        w->entries[w->entry_count++] = (entry){.name = s->name, .stored = s, .part = p};
    }
    return CADRE_OK;
}

static part *part_named(cadre_weights *w, const char *name) {
    for (int i = 0; i < w->part_count; i++)
        if (strcmp(w->parts[i].name, name) == 0) return &w->parts[i];
    return NULL;
}

/* The index may come from anywhere: it names files beside it, nothing else. */
static cadre_status take_mapped(cadre_weights *w, const char *tensor, const json_t *file) {
    const char *name = json_string_value(file);
    CADRE_CHECK(name && name[0] && name[0] != '.' && !strchr(name, '/'), CADRE_EDATA,
                "%s/%s: the file of tensor '%.200s' is no name of a file beside it", w->folder,
                INDEX_FILE, tensor);
    part *p = part_named(w, name);
    if (!p) {
        CADRE_CHECK(w->part_count < MOST_FILES, CADRE_EDATA, "%s/%s names more than %d files",
                    w->folder, INDEX_FILE, (int)MOST_FILES);
        CADRE_TRY(open_part(w, name));
        p = &w->parts[w->part_count - 1];
    }
    const cadre_stored *s = cadre_safetensors_find(p->file, tensor);
    CADRE_CHECK(s, CADRE_EDATA, "%s/%s has no tensor '%.200s', which %s places there", w->folder,
                name, tensor, INDEX_FILE);
    w->entries[w->entry_count++] = (entry){.name = tensor, .stored = s, .part = p};
    return CADRE_OK;
}

static cadre_status read_index(cadre_weights *w) {
    char path[CADRE_PATH];
    cadre_map map;
    json_error_t why;
    CADRE_TRY(cadre_map_open(&map, cadre_join(path, sizeof path, w->folder, INDEX_FILE)));
    w->index = json_loadb((const char *)map.data, map.bytes, JSON_REJECT_DUPLICATES, &why);
    cadre_map_close(&map);
    CADRE_CHECK(w->index, CADRE_EDATA, "%s line %d: %s", path, why.line, why.text);
    return CADRE_OK;
}

static cadre_status open_sharded(cadre_weights *w) {
    const char *tensor;
    json_t *file;
    CADRE_TRY(read_index(w));
    json_t *map = json_object_get(w->index, "weight_map");
    int64_t count = (int64_t)json_object_size(map);
    CADRE_CHECK(count > 0, CADRE_EDATA, "%s/%s has no weight_map of tensors and files", w->folder,
                INDEX_FILE);
    CADRE_TRY(cadre_alloc_array(&w->entries, CADRE_MEM_OTHER, count, sizeof *w->entries));
    CADRE_TRY(cadre_alloc_array(&w->parts, CADRE_MEM_OTHER, count < MOST_FILES ? count : MOST_FILES,
                                sizeof *w->parts));
    json_object_foreach(map, tensor, file) CADRE_TRY(take_mapped(w, tensor, file));
    return CADRE_OK;
}

cadre_status cadre_weights_open(cadre_weights **ret_weights, const char *folder) {
    cadre_weights *w = NULL;
    CADRE_CHECK(strlen(folder) < CADRE_PATH, CADRE_EUSAGE, "path too long: %s", folder);
    CADRE_TRY(cadre_alloc(&w, CADRE_MEM_OTHER, sizeof *w));
    strcpy(w->folder, folder);
    cadre_status st = holds(folder, CADRE_MODEL_FILE) || !holds(folder, INDEX_FILE)
                          ? open_single(w)
                          : open_sharded(w);
    if (!st && w->entry_count)
        qsort(w->entries, (size_t)w->entry_count, sizeof *w->entries, by_name);
    if (st)
        cadre_weights_close(&w);
    else
        *ret_weights = w;
    return st;
}

void cadre_weights_close(cadre_weights **w) {
    if (!*w) return;
    for (int i = 0; i < (*w)->part_count; i++) cadre_safetensors_close(&(*w)->parts[i].file);
    cadre_free(&(*w)->entries);
    cadre_free(&(*w)->parts);
    json_decref((*w)->index);
    cadre_free(w);
}

/* ---- reading ---- */

static entry *find(const cadre_weights *w, const char *name) {
    const entry key = {.name = name};
    if (w->entry_count == 0) return NULL;
    return bsearch(&key, w->entries, (size_t)w->entry_count, sizeof key, by_name);
}

/* Under its name, or without the prefix, as the model without its head is saved. */
static entry *find_either(const cadre_weights *w, const char *name) {
    entry *e = find(w, name);
    if (!e && strncmp(name, PREFIX, strlen(PREFIX)) == 0) e = find(w, name + strlen(PREFIX));
    return e;
}

static cadre_status read_one(const cadre_weights *w, const cadre_piece *p) {
    char is[96], asked[96];
    entry *e = find_either(w, p->name);
    CADRE_CHECK(e, CADRE_EDATA, "%s has no tensor '%s'", w->folder, p->name);
    const char *file = e->part->name;
    CADRE_CHECK(cadre_dims_equal(&e->stored->dims, &p->dims), CADRE_EDATA,
                "%s/%s: tensor '%s' has shape %s; %s is wanted", w->folder, file, e->name,
                cadre_dims_text(is, sizeof is, &e->stored->dims),
                cadre_dims_text(asked, sizeof asked, &p->dims));
    e->used = true;
    cadre_status st =
        cadre_safetensors_numbers(e->part->file, e->stored, p->first, p->count, p->dtype, p->data);
    return st ? cadre_error_prefix(st, "%s/%s: ", w->folder, file) : CADRE_OK;
}

/* Two tensors of numbers, slice by slice. */
static cadre_status same_numbers(const entry *a, const entry *b, bool *ret_same) {
    float *x = NULL;
    int64_t count = cadre_dims_count(&a->stored->dims);
    *ret_same = cadre_dims_equal(&a->stored->dims, &b->stored->dims);
    CADRE_TRY(cadre_alloc_array(&x, CADRE_MEM_OTHER, 2 * SLICE, sizeof *x));
    cadre_status st = CADRE_OK;
    for (int64_t at = 0; !st && *ret_same && at < count; at += SLICE) {
        int64_t n = count - at < SLICE ? count - at : SLICE;
        st = cadre_safetensors_numbers(a->part->file, a->stored, at, n, CADRE_F32, x);
        if (!st)
            st = cadre_safetensors_numbers(b->part->file, b->stored, at, n, CADRE_F32, x + SLICE);
        *ret_same = !st && memcmp(x, x + SLICE, (size_t)n * sizeof *x) == 0;
    }
    cadre_free(&x);
    return st;
}

static bool is_mask(const char *name) {
    return cadre_glob("*.attn.bias", name) || cadre_glob("*.attn.masked_bias", name);
}

/* What no piece asked for. */
static cadre_status check_rest(const cadre_weights *w) {
    for (int i = 0; i < w->entry_count; i++) {
        const entry *e = &w->entries[i], *embedding;
        bool same = false;
        if (e->used || is_mask(e->name)) continue;
        embedding = strcmp(e->name, HEAD) == 0 ? find_either(w, EMBEDDING) : NULL;
        CADRE_CHECK(embedding, CADRE_EDATA,
                    "%s/%s: tensor '%.200s' belongs to no part of the model that config.json "
                    "describes",
                    w->folder, e->part->name, e->name);
        CADRE_TRY(same_numbers(e, embedding, &same));
        CADRE_CHECK(same, CADRE_EDATA,
                    "%s/%s: %s differs from %s, but the model is tied; untied it takes "
                    "\"tie_word_embeddings\": false in config.json",
                    w->folder, e->part->name, HEAD, embedding->name);
    }
    return CADRE_OK;
}

cadre_status cadre_weights_read(const cadre_weights *w, const cadre_piece *pieces, int count) {
    for (int i = 0; i < w->entry_count; i++) w->entries[i].used = false;
    for (int i = 0; i < count; i++) CADRE_TRY(read_one(w, &pieces[i]));
    return check_rest(w);
}
