/* SPDX-License-Identifier: Apache-2.0
 *
 * MANIFEST.json, as a value, to text and back.
 *
 *   schema 1, cadre_version, step, samples, layout, valid_loss (null: none), data_hash,
 *   parameter_hash (hex), files[] {name, bytes, xxh3 (hex)}, pieces[] {name, dtype, shape,
 *   box {start[], size[]}, range [first, count], file, key}, settings (the YAML text),
 *   self_xxh3: XXH3 of all bytes of the document before this key's line; it is the last one.
 *
 * A piece says where elements [first, first + count) of a tensor lie: in `file`, under the
 * safetensors name `key`. The pieces of a tensor hold each of its elements once.
 */
#ifndef CADRE_CHECKPOINT_MANIFEST_H
#define CADRE_CHECKPOINT_MANIFEST_H

#include "checkpoint/checkpoint.h"

#define CADRE_MANIFEST_NAME "MANIFEST.json"
#define CADRE_MODEL_FILE "model.safetensors"

typedef struct cadre_manifest_file {
    const char *name;
    int64_t bytes;
    uint64_t xxh3;
} cadre_manifest_file;

typedef struct cadre_manifest_piece {
    const char *name;
    cadre_dtype dtype;
    cadre_dims dims;
    int64_t first, count;
    const char *file, *key;
} cadre_manifest_piece;

typedef struct cadre_manifest {
    cadre_checkpoint_head head;
    const char *version; /* of the Cadre that wrote it */
    cadre_manifest_file *files;
    int file_count;
    cadre_manifest_piece *pieces; /* once read: ordered by name, then first */
    int piece_count;
    void *document; /* owns all text of a manifest that was read; NULL: borrowed */
} cadre_manifest;

cadre_status cadre_manifest_text(const cadre_manifest *m, cadre_text *to);
/* Checks everything that the document alone can tell; `label` for messages. CADRE_EDATA. */
cadre_status cadre_manifest_read(cadre_manifest *ret_manifest, const char *text, size_t bytes,
                                 const char *label);
/* Frees both arrays and the document. */
void cadre_manifest_free(cadre_manifest *m);
/* Orders pieces by name, then first, and checks that every tensor is held exactly once. */
cadre_status cadre_manifest_order(cadre_manifest_piece *pieces, int count);

/* Of an open checkpoint. */
const cadre_manifest *cadre_checkpoint_manifest(const cadre_checkpoint *c);
/* cadre_checkpoint_find, with sums checked (`deep`) or sizes alone. */
cadre_status cadre_checkpoint_find_as(const char *path, bool deep, char ret_path[CADRE_PATH],
                                      cadre_text *skipped);
/* Whether `name` is "step-" and digits alone, and which step. */
bool cadre_checkpoint_step(const char *name, int64_t *ret_step);
/* The steps under `path` (a run folder or its checkpoints folder), newest first; `ret_folder` is
 * the folder that holds them. From cadre_alloc. */
cadre_status cadre_checkpoint_list(const char *path, char ret_folder[CADRE_PATH],
                                   int64_t **ret_steps, int *ret_count);
/* folder/step-NNNNNNNN; returns `ret_path`. */
char *cadre_checkpoint_name(char ret_path[CADRE_PATH], const char *folder, int64_t step);

#endif
