/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a checkpoint: its manifest and sizes are checked when it is opened, its sums when asked
 * for. Files are mapped, and only the ranges that are wanted are copied.
 */
#include "checkpoint/manifest.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/hash.h"

struct cadre_checkpoint {
    char path[CADRE_PATH];
    cadre_manifest manifest;
    cadre_safetensors **open; /* one for each file of the manifest; NULL: holds no tensors */
};

static cadre_status read_manifest(cadre_checkpoint *c) {
    char path[CADRE_PATH];
    cadre_map map;
    CADRE_CHECK(cadre_path_is_folder(c->path), CADRE_EDATA,
                "%s is no checkpoint: there is no such folder", c->path);
    cadre_join(path, sizeof path, c->path, CADRE_MANIFEST_NAME);
    CADRE_CHECK(cadre_path_is_file(path), CADRE_EDATA,
                "%s is no complete checkpoint: it has no %s (half-written)", c->path,
                CADRE_MANIFEST_NAME);
    CADRE_TRY(cadre_map_open(&map, path));
    cadre_status st = cadre_manifest_read(&c->manifest, (const char *)map.data, map.bytes, path);
    cadre_map_close(&map);
    return st;
}

static cadre_status check_file(const char *folder, const cadre_manifest_file *f, bool deep) {
    char path[CADRE_PATH];
    struct stat s;
    cadre_map map;
    cadre_join(path, sizeof path, folder, f->name);
    CADRE_CHECK(stat(path, &s) == 0, CADRE_EDATA, "%s is missing; the manifest lists it", path);
    CADRE_CHECK(s.st_size == f->bytes, CADRE_EDATA,
                "%s has %" PRId64 " bytes; the manifest says %" PRId64, path, (int64_t)s.st_size,
                f->bytes);
    if (!deep) return CADRE_OK;
    CADRE_TRY(cadre_map_open(&map, path));
    uint64_t hash = cadre_hash(map.data, map.bytes, 0);
    cadre_map_close(&map);
    CADRE_CHECK(hash == f->xxh3, CADRE_EDATA,
                "%s is altered: its checksum is %016" PRIx64 ", the manifest says %016" PRIx64,
                path, hash, f->xxh3);
    return CADRE_OK;
}

static int file_index(const cadre_manifest *m, const char *name) {
    for (int i = 0; i < m->file_count; i++)
        if (strcmp(m->files[i].name, name) == 0) return i;
    return -1;
}

/* Where a piece lies: opened, of its type and size. */
static cadre_status locate(const cadre_checkpoint *c, const cadre_manifest_piece *p,
                           const cadre_safetensors **ret_file, const cadre_stored **ret_stored) {
    int i = file_index(&c->manifest, p->file);
    CADRE_CHECK(i >= 0, CADRE_EDATA, "%s/%s: piece '%s' lies in %s, which is not listed", c->path,
                CADRE_MANIFEST_NAME, p->name, p->file);
    CADRE_CHECK(c->open[i], CADRE_EDATA, "%s/%s holds no tensors", c->path, p->file);
    const cadre_stored *s = cadre_safetensors_find(c->open[i], p->key);
    CADRE_CHECK(s, CADRE_EDATA, "%s/%s has no tensor '%s'", c->path, p->file, p->key);
    CADRE_CHECK(s->dtype == p->dtype && cadre_dims_count(&s->dims) == p->count, CADRE_EDATA,
                "%s/%s: tensor '%s' is no %s of %" PRId64 " elements, as the manifest says",
                c->path, p->file, p->key, cadre_dtype_name(p->dtype), p->count);
    if (ret_file) *ret_file = c->open[i];
    if (ret_stored) *ret_stored = s;
    return CADRE_OK;
}

static bool is_safetensors(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && strcmp(dot, ".safetensors") == 0;
}

static cadre_status open_files(cadre_checkpoint *c, bool deep) {
    const cadre_manifest *m = &c->manifest;
    char path[CADRE_PATH];
    CADRE_TRY(cadre_alloc_array(&c->open, CADRE_MEM_OTHER, m->file_count, sizeof *c->open));
    for (int i = 0; i < m->file_count; i++) {
        const char *name = m->files[i].name;
        CADRE_TRY(check_file(c->path, &m->files[i], deep));
        if (is_safetensors(name))
            CADRE_TRY(
                cadre_safetensors_open(&c->open[i], cadre_join(path, sizeof path, c->path, name)));
    }
    for (int i = 0; i < m->piece_count; i++) CADRE_TRY(locate(c, &m->pieces[i], NULL, NULL));
    return CADRE_OK;
}

cadre_status cadre_checkpoint_open(cadre_checkpoint **ret_checkpoint, const char *path, bool deep) {
    cadre_checkpoint *c = NULL;
    CADRE_CHECK(strlen(path) < CADRE_PATH, CADRE_EUSAGE, "path too long: %s", path);
    CADRE_TRY(cadre_alloc(&c, CADRE_MEM_OTHER, sizeof *c));
    strcpy(c->path, path);
    cadre_status st = read_manifest(c);
    if (!st) st = open_files(c, deep);
    if (st)
        cadre_checkpoint_close(&c);
    else
        *ret_checkpoint = c;
    return st;
}

const cadre_checkpoint_head *cadre_checkpoint_head_of(const cadre_checkpoint *c) {
    return &c->manifest.head;
}

const char *cadre_checkpoint_path(const cadre_checkpoint *c) {
    return c->path;
}

const cadre_manifest *cadre_checkpoint_manifest(const cadre_checkpoint *c) {
    return &c->manifest;
}

/* The first piece of tensor `name`: they are ordered by name, then place. */
static const cadre_manifest_piece *first_piece(const cadre_manifest *m, const char *name) {
    int low = 0, high = m->piece_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(m->pieces[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == m->piece_count || strcmp(m->pieces[low].name, name) != 0) return NULL;
    return &m->pieces[low];
}

/* f32 and bf16 are read as each other. */
static bool is_short(cadre_dtype dtype) {
    return dtype == CADRE_F32 || dtype == CADRE_BF16;
}

static cadre_status check_wanted(const cadre_checkpoint *c, const cadre_piece *want,
                                 const cadre_manifest_piece *have) {
    char is[96], asked[96];
    CADRE_CHECK(have, CADRE_EDATA, "%s has no tensor '%s'", c->path, want->name);
    CADRE_CHECK(cadre_dims_equal(&have->dims, &want->dims), CADRE_EDATA,
                "%s: tensor '%s' has shape %s; %s is wanted", c->path, want->name,
                cadre_dims_text(is, sizeof is, &have->dims),
                cadre_dims_text(asked, sizeof asked, &want->dims));
    CADRE_CHECK(have->dtype == want->dtype || (is_short(have->dtype) && is_short(want->dtype)),
                CADRE_EDATA, "%s: tensor '%s' is %s; %s is wanted", c->path, want->name,
                cadre_dtype_name(have->dtype), cadre_dtype_name(want->dtype));
    int64_t of = cadre_dims_count(&want->dims);
    CADRE_CHECK(want->first >= 0 && want->count >= 0 && want->first <= of - want->count,
                CADRE_EUSAGE, "tensor '%s': elements %" PRId64 " + %" PRId64 " of %" PRId64,
                want->name, want->first, want->count, of);
    return CADRE_OK;
}

static cadre_status read_piece(const cadre_checkpoint *c, const cadre_piece *want) {
    const cadre_manifest *m = &c->manifest;
    const cadre_manifest_piece *p = first_piece(m, want->name);
    CADRE_TRY(check_wanted(c, want, p));
    int64_t size = (int64_t)cadre_dtype_size(want->dtype), end = want->first + want->count;
    for (; p < m->pieces + m->piece_count && strcmp(p->name, want->name) == 0; p++) {
        int64_t from = p->first > want->first ? p->first : want->first;
        int64_t to = p->first + p->count < end ? p->first + p->count : end;
        const cadre_safetensors *file;
        const cadre_stored *s;
        if (from >= to) continue;
        CADRE_TRY(locate(c, p, &file, &s));
        uint8_t *target = (uint8_t *)want->data + (from - want->first) * size;
        if (p->dtype == want->dtype)
            memcpy(target,
                   (const uint8_t *)cadre_safetensors_data(file, s) + (from - p->first) * size,
                   (size_t)((to - from) * size));
        else
            CADRE_TRY(cadre_safetensors_numbers(file, s, from - p->first, to - from, want->dtype,
                                                target));
    }
    return CADRE_OK;
}

cadre_status cadre_checkpoint_read(cadre_checkpoint *c, const cadre_piece *pieces, int count) {
    for (int i = 0; i < count; i++) CADRE_TRY(read_piece(c, &pieces[i]));
    return CADRE_OK;
}

cadre_status cadre_checkpoint_side(const cadre_checkpoint *c, const char *name, char **ret_data,
                                   size_t *ret_bytes) {
    char path[CADRE_PATH], *data = NULL;
    cadre_map map;
    CADRE_CHECK(file_index(&c->manifest, name) >= 0, CADRE_EDATA, "%s holds no %s", c->path, name);
    CADRE_TRY(cadre_map_open(&map, cadre_join(path, sizeof path, c->path, name)));
    cadre_status st = cadre_alloc(&data, CADRE_MEM_OTHER, map.bytes + 1);
    if (!st && map.bytes) memcpy(data, map.data, map.bytes);
    if (!st) *ret_data = data;
    if (!st && ret_bytes) *ret_bytes = map.bytes;
    cadre_map_close(&map);
    return st;
}

void cadre_checkpoint_close(cadre_checkpoint **c) {
    if (!*c) return;
    for (int i = 0; (*c)->open && i < (*c)->manifest.file_count; i++)
        cadre_safetensors_close(&(*c)->open[i]);
    cadre_free(&(*c)->open);
    cadre_manifest_free(&(*c)->manifest);
    cadre_free(c);
}
