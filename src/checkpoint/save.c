/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a checkpoint, all ranks together:
 *
 *   ranks exchange what they hold -> the same layout of files on every rank
 *   rank 0  makes step-N.tmp-JOB/ and model.safetensors with its header
 *   each    writes its ranges of the weights in place, and its own optim file; fsync
 *   rank 0  side files, checksums, fsync, rename to step-N/, MANIFEST.json last
 *
 * After each part the ranks agree that it went well everywhere; otherwise all leave with the same
 * failure and rank 0 removes what there is. Data go from memory to the file in slices.
 */
#include "checkpoint/gather.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"

enum { SLICE = 1 << 20, FILE_NAME = 32 };

typedef struct save {
    cadre_comm *comm;
    const cadre_piece *pieces;
    int count;
    char temporary[CADRE_PATH], final[CADRE_PATH];
    cadre_holdings held;
    cadre_stored *weights; /* of model.safetensors, in the order of first mention */
    int weight_count;
    cadre_text header;
    cadre_manifest manifest; /* rank 0 */
    char *names;             /* of files and keys in it */
    bool renamed;
} save;

/* ---- a file on its way out ---- */

typedef struct sink {
    int fd;
    char path[CADRE_PATH];
    cadre_hasher *hasher;
    int64_t at;
    bool in_order; /* so far the hasher has seen the file from its start, without a gap */
} sink;

static cadre_status sink_open(sink *s, const char *folder, const char *name, int flags) {
    *s = (sink){.fd = -1, .in_order = true};
    cadre_join(s->path, sizeof s->path, folder, name);
    CADRE_TRY(cadre_hasher_open(&s->hasher));
    s->fd = open(s->path, O_WRONLY | O_CLOEXEC | flags, 0666);
    CADRE_CHECK(s->fd >= 0, CADRE_ERESOURCE, "cannot write %s: %s", s->path, strerror(errno));
    return CADRE_OK;
}

static cadre_status sink_write(sink *s, int64_t offset, const void *data, int64_t bytes) {
    if (offset != s->at) {
        s->in_order = false;
        CADRE_CHECK(lseek(s->fd, (off_t)offset, SEEK_SET) >= 0, CADRE_ERESOURCE,
                    "cannot write %s at byte %" PRId64 ": %s", s->path, offset, strerror(errno));
    }
    for (int64_t done = 0; done < bytes; done += SLICE) {
        size_t n = (size_t)(bytes - done < SLICE ? bytes - done : SLICE);
        CADRE_TRY(cadre_write_all(s->fd, (const char *)data + done, n, s->path));
        cadre_hasher_add(s->hasher, (const char *)data + done, n);
    }
    s->at = offset + bytes;
    return CADRE_OK;
}

/* Ends the file on disk when `st` is fine so far; closes in any case. */
static cadre_status sink_close(sink *s, cadre_status st) {
    if (!st && fsync(s->fd) != 0)
        st = CADRE_FAIL(CADRE_ERESOURCE, "cannot write %s to disk: %s", s->path, strerror(errno));
    if (s->fd >= 0 && close(s->fd) != 0 && !st)
        st = CADRE_FAIL(CADRE_ERESOURCE, "cannot write %s: %s", s->path, strerror(errno));
    cadre_hasher_close(&s->hasher);
    return st;
}

/* ---- layout: the same on every rank ---- */

static cadre_stored *find_weight(save *s, const char *name) {
    for (int i = 0; i < s->weight_count; i++)
        if (strcmp(s->weights[i].name, name) == 0) return &s->weights[i];
    return NULL;
}

static bool is_whole(const cadre_manifest_piece *p) {
    return p->count == cadre_dims_count(&p->dims);
}

static cadre_status check_held_once(const save *s) {
    cadre_manifest_piece *all = NULL;
    CADRE_TRY(cadre_alloc_array(&all, CADRE_MEM_OTHER, s->held.count, sizeof *all));
    for (int i = 0; i < s->held.count; i++) all[i] = s->held.at[i].piece;
    cadre_status st = cadre_manifest_order(all, s->held.count);
    cadre_free(&all);
    return st;
}

static cadre_status lay_out(save *s) {
    CADRE_TRY(check_held_once(s));
    CADRE_TRY(cadre_alloc_array(&s->weights, CADRE_MEM_OTHER, s->held.count, sizeof *s->weights));
    for (int i = 0; i < s->held.count; i++) {
        const cadre_held *h = &s->held.at[i];
        if (!h->weights || find_weight(s, h->piece.name)) continue;
        s->weights[s->weight_count++] =
            (cadre_stored){.name = h->piece.name, .dtype = h->piece.dtype, .dims = h->piece.dims};
    }
    return cadre_safetensors_header(s->weights, s->weight_count, &s->header);
}

/* ---- every rank's data ---- */

static cadre_status write_weights(save *s, sink *to) {
    for (int i = 0; i < s->count; i++) {
        const cadre_piece *p = &s->pieces[i];
        if (!p->weights || p->count == 0) continue;
        int64_t size = (int64_t)cadre_dtype_size(p->dtype);
        int64_t offset = find_weight(s, p->name)->offset + p->first * size;
        CADRE_TRY(sink_write(to, offset, p->data, p->count * size));
    }
    return CADRE_OK;
}

static int64_t model_bytes(const save *s) {
    if (s->weight_count == 0) return (int64_t)s->header.length;
    const cadre_stored *last = &s->weights[s->weight_count - 1];
    return last->offset + last->bytes;
}

/* Rank 0 has the file made with its header; the others open what is there. `ret_hash` is set when
 * all of it went through this rank in order. */
static cadre_status write_model(save *s, bool first, bool *ret_hashed, uint64_t *ret_hash) {
    sink to;
    cadre_status st = sink_open(&to, s->temporary, CADRE_MODEL_FILE, first ? O_CREAT | O_EXCL : 0);
    if (!st && first) st = sink_write(&to, 0, s->header.at, (int64_t)s->header.length);
    if (first) st = cadre_agree(s->comm, st);
    if (!st) st = write_weights(s, &to);
    *ret_hashed = !st && first && to.in_order && to.at == model_bytes(s);
    if (*ret_hashed) *ret_hash = cadre_hasher_value(to.hasher);
    return sink_close(&to, st);
}

static void key_of(char ret_key[CADRE_PATH], const char *name, int64_t first, bool whole) {
    if (whole)
        snprintf(ret_key, CADRE_PATH, "%s", name);
    else
        snprintf(ret_key, CADRE_PATH, "%s@%" PRId64, name, first);
}

static char *optim_name(char ret_name[FILE_NAME], int rank) {
    snprintf(ret_name, FILE_NAME, "optim-%05d.safetensors", rank);
    return ret_name;
}

/* The header of this rank's optim file; `ret_count` tensors, names in `names`. */
static cadre_status lay_out_optim(const save *s, cadre_stored *stored, cadre_text *names,
                                  cadre_text *header, int *ret_count) {
    char key[CADRE_PATH];
    int n = 0;
    for (int pass = 0; pass < 2; pass++) { /* names first: the text may move while it grows */
        size_t at = 0;
        n = 0;
        for (int i = 0; i < s->count; i++) {
            const cadre_piece *p = &s->pieces[i];
            if (p->weights || (p->count == 0 && cadre_dims_count(&p->dims))) continue;
            bool whole = p->count == cadre_dims_count(&p->dims);
            key_of(key, p->name, p->first, whole);
            if (pass == 0) cadre_text_add_bytes(names, key, strlen(key) + 1);
            CADRE_TRY(names->status);
            stored[n++] = (cadre_stored){.name = names->at + at,
                                         .dtype = p->dtype,
                                         .dims = whole ? p->dims : cadre_dims1(p->count)};
            at += strlen(key) + 1;
        }
    }
    *ret_count = n;
    return n ? cadre_safetensors_header(stored, n, header) : CADRE_OK;
}

static cadre_status write_optim_data(const save *s, const cadre_stored *stored, sink *to) {
    for (int i = 0, n = 0; i < s->count; i++) {
        const cadre_piece *p = &s->pieces[i];
        if (p->weights || (p->count == 0 && cadre_dims_count(&p->dims))) continue;
        CADRE_TRY(sink_write(to, stored[n].offset, p->data, stored[n].bytes));
        n++;
    }
    return CADRE_OK;
}

/* This rank's optim file, when it has state to write; its size (0: none) and sum. */
static cadre_status write_optim(const save *s, int64_t *ret_bytes, uint64_t *ret_hash) {
    cadre_stored *stored = NULL;
    cadre_text names = {0}, header = {0};
    char name[FILE_NAME];
    int n = 0;
    *ret_bytes = 0;
    cadre_status st = cadre_alloc_array(&stored, CADRE_MEM_OTHER, s->count, sizeof *stored);
    if (!st) st = lay_out_optim(s, stored, &names, &header, &n);
    if (!st && n) {
        sink to;
        st = sink_open(&to, s->temporary, optim_name(name, cadre_comm_rank(s->comm)),
                       O_CREAT | O_EXCL);
        if (!st) st = sink_write(&to, 0, header.at, (int64_t)header.length);
        if (!st) st = write_optim_data(s, stored, &to);
        *ret_bytes = to.at;
        if (!st) *ret_hash = cadre_hasher_value(to.hasher);
        st = sink_close(&to, st);
    }
    cadre_free(&stored);
    cadre_text_free(&names);
    cadre_text_free(&header);
    return st;
}

/* ---- rank 0's part of the end ---- */

static cadre_status hash_of_file(const save *s, const char *name, uint64_t *ret_hash) {
    char path[CADRE_PATH];
    cadre_map map;
    CADRE_TRY(cadre_map_open(&map, cadre_join(path, sizeof path, s->temporary, name)));
    *ret_hash = cadre_hash(map.data, map.bytes, 0);
    cadre_map_close(&map);
    return CADRE_OK;
}

static void list_file(save *s, const char *name, int64_t bytes, uint64_t hash) {
    s->manifest.files[s->manifest.file_count++] = (cadre_manifest_file){name, bytes, hash};
}

static cadre_status write_side_file(save *s, const cadre_side_file *file) {
    sink to;
    uint64_t hash = 0;
    cadre_status st = sink_open(&to, s->temporary, file->name, O_CREAT | O_EXCL);
    if (!st) st = sink_write(&to, 0, file->data, (int64_t)file->bytes);
    if (!st) hash = cadre_hasher_value(to.hasher);
    CADRE_TRY(sink_close(&to, st));
    list_file(s, file->name, (int64_t)file->bytes, hash);
    return CADRE_OK;
}

/* `names` begins with one file name a rank; keys follow. */
static cadre_status list_pieces(save *s) {
    cadre_manifest *m = &s->manifest;
    int size = cadre_comm_size(s->comm);
    size_t room = (size_t)size * FILE_NAME;
    for (int i = 0; i < s->held.count; i++) room += strlen(s->held.at[i].piece.name) + FILE_NAME;
    CADRE_TRY(cadre_alloc_array(&m->pieces, CADRE_MEM_OTHER, s->held.count, sizeof *m->pieces));
    CADRE_TRY(cadre_alloc(&s->names, CADRE_MEM_OTHER, room));
    for (int r = 0; r < size; r++) optim_name(s->names + r * FILE_NAME, r);
    for (int i = 0; i < s->weight_count; i++) {
        const cadre_stored *w = &s->weights[i];
        m->pieces[m->piece_count++] = (cadre_manifest_piece){
            w->name, w->dtype, w->dims, 0, cadre_dims_count(&w->dims), CADRE_MODEL_FILE, w->name};
    }
    char *at = s->names + size * FILE_NAME;
    for (int i = 0; i < s->held.count; i++) {
        const cadre_held *h = &s->held.at[i];
        char key[CADRE_PATH];
        if (h->weights) continue;
        cadre_manifest_piece *p = &m->pieces[m->piece_count++];
        *p = h->piece;
        key_of(key, p->name, p->first, is_whole(p));
        p->file = s->names + h->rank * FILE_NAME;
        p->key = strcpy(at, key);
        at += strlen(key) + 1;
    }
    return CADRE_OK;
}

/* `sums`: bytes and hash of each rank's optim file. */
static cadre_status list_files(save *s, bool hashed, uint64_t model_hash, const int64_t *sums,
                               const cadre_side_file *files, int file_count) {
    int size = cadre_comm_size(s->comm);
    CADRE_TRY(list_pieces(s));
    CADRE_TRY(cadre_alloc_array(&s->manifest.files, CADRE_MEM_OTHER, 1 + size + file_count,
                                sizeof *s->manifest.files));
    if (!hashed) CADRE_TRY(hash_of_file(s, CADRE_MODEL_FILE, &model_hash));
    list_file(s, CADRE_MODEL_FILE, model_bytes(s), model_hash);
    for (int r = 0; r < size; r++)
        if (sums[2 * r] > 0)
            list_file(s, s->names + r * FILE_NAME, sums[2 * r], (uint64_t)sums[2 * r + 1]);
    for (int i = 0; i < file_count; i++) CADRE_TRY(write_side_file(s, &files[i]));
    return CADRE_OK;
}

/* From here on the checkpoint has its name, and, with the manifest, exists. */
static cadre_status put_in_place(save *s, const char *folder) {
    cadre_text text = {0};
    char path[CADRE_PATH];
    cadre_status st = cadre_manifest_text(&s->manifest, &text);
    if (!st) st = cadre_fsync_path(s->temporary);
    if (!st) st = cadre_remove_tree(s->final);
    if (!st && rename(s->temporary, s->final) != 0)
        st = CADRE_FAIL(CADRE_ERESOURCE, "cannot rename %s to %s: %s", s->temporary, s->final,
                        strerror(errno));
    if (!st) s->renamed = true;
    if (!st) st = cadre_fsync_path(folder);
    cadre_join(path, sizeof path, s->final, CADRE_MANIFEST_NAME);
    if (!st) st = cadre_file_replace(path, text.at, text.length);
    cadre_text_free(&text);
    return st;
}

/* ---- the whole ---- */

/* Rank 0: the folder; whether this step is there already, whole. */
static cadre_status begin(save *s, const char *folder, bool *ret_kept) {
    cadre_checkpoint *there = NULL;
    CADRE_TRY(cadre_mkdirs(folder));
    *ret_kept =
        cadre_path_is_folder(s->final) && cadre_checkpoint_open(&there, s->final, true) == CADRE_OK;
    bool same = *ret_kept &&
                cadre_checkpoint_head_of(there)->parameter_hash == s->manifest.head.parameter_hash;
    cadre_checkpoint_close(&there);
    CADRE_CHECK(!*ret_kept || same, CADRE_EUSAGE,
                "%s is there already and holds other weights; nothing is overwritten, take another "
                "folder",
                s->final);
    if (*ret_kept) return CADRE_OK;
    CADRE_TRY(cadre_remove_tree(s->temporary));
    CADRE_CHECK(mkdir(s->temporary, 0777) == 0, CADRE_ERESOURCE, "cannot make the folder %s: %s",
                s->temporary, strerror(errno));
    return CADRE_OK;
}

static cadre_status write_files(save *s, const char *folder, const cadre_side_file *files,
                                int file_count) {
    int size = cadre_comm_size(s->comm);
    bool first = cadre_comm_rank(s->comm) == 0, hashed = false;
    uint64_t model_hash = 0, optim_hash = 0;
    int64_t *sums = NULL, mine[2] = {0};
    CADRE_TRY(cadre_holdings_gather(s->comm, s->pieces, s->count, &s->held));
    cadre_status st = lay_out(s);
    if (!st) st = cadre_alloc_array(&sums, CADRE_MEM_OTHER, 2 * size, sizeof *sums);
    st = cadre_agree(s->comm, st);
    if (!st && !first) st = cadre_agree(s->comm, CADRE_OK); /* rank 0 makes the file meanwhile */
    if (!st) st = write_model(s, first, &hashed, &model_hash);
    if (!st) st = write_optim(s, &mine[0], &optim_hash);
    st = cadre_agree(s->comm, st);
    mine[1] = (int64_t)optim_hash;
    if (!st) st = cadre_all_gather(s->comm, mine, sums, 2, CADRE_I64, "checkpoint sums", NULL);
    if (!st && first) st = list_files(s, hashed, model_hash, sums, files, file_count);
    if (!st && first) st = put_in_place(s, folder);
    cadre_free(&sums);
    return cadre_agree(s->comm, st);
}

static void discard(save *s) {
    (void)cadre_remove_tree(s->temporary);
    if (s->renamed) (void)cadre_remove_tree(s->final);
}

static void save_close(save *s) {
    cadre_holdings_free(&s->held);
    cadre_free(&s->weights);
    cadre_text_free(&s->header);
    cadre_free(&s->manifest.files);
    cadre_free(&s->manifest.pieces);
    cadre_free(&s->names);
}

cadre_status cadre_checkpoint_save(cadre_comm *comm, const char *folder,
                                   const cadre_checkpoint_head *head, const cadre_piece *pieces,
                                   int count, const cadre_side_file *files, int file_count,
                                   char ret_path[CADRE_PATH]) {
    save s = {.comm = comm, .pieces = pieces, .count = count, .manifest.head = *head};
    bool first = cadre_comm_rank(comm) == 0, kept = false;
    int64_t told[2] = {getpid(), 0};
    char name[64];
    snprintf(name, sizeof name, "step-%08" PRId64, head->step);
    cadre_join(s.final, sizeof s.final, folder, name);
    snprintf(name, sizeof name, "step-%08" PRId64 ".tmp-%" PRId64, head->step, told[0]);
    cadre_join(s.temporary, sizeof s.temporary, folder, name);
    CADRE_TRY(cadre_agree(comm, first ? begin(&s, folder, &kept) : CADRE_OK));
    told[1] = kept;
    cadre_status st = cadre_broadcast(comm, told, 2, CADRE_I64, 0, "checkpoint begins", NULL);
    snprintf(name, sizeof name, "step-%08" PRId64 ".tmp-%" PRId64, head->step, told[0]);
    cadre_join(s.temporary, sizeof s.temporary, folder, name);
    if (!st && !told[1]) st = write_files(&s, folder, files, file_count);
    if (st && first) {
        cadre_error why;
        cadre_error_save(&why);
        discard(&s);
        st = cadre_error_restore(&why);
    }
    save_close(&s);
    if (!st && ret_path) memcpy(ret_path, s.final, CADRE_PATH);
    return st;
}
