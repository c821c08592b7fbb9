/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: a folder step-NNNNNNNN that is whole or absent. It names parameters globally, so any
 * layout loads any other.
 *
 *   step-00000500/
 *     MANIFEST.json       written last, by rename: step, samples, layout, files (bytes, xxh3),
 * pieces, settings model.safetensors   weights under their Hugging Face names; config.json,
 * tokenizer.json beside it optim-00000.safetensors ...   optimizer state "adamw.m/NAME", one file a
 * writing rank
 *
 * pieces[]: name, dtype, shape, box (start[], size[]), range in the box [first, count), file. A
 * piece that is a whole tensor has box = shape and range = everything. All files are written to
 * step-N.tmp-JOB/, fsynced, checksummed; the folder is renamed into place after a barrier, and
 * MANIFEST.json after that.
 */
#ifndef CADRE_CHECKPOINT_CHECKPOINT_H
#define CADRE_CHECKPOINT_CHECKPOINT_H

#include "checkpoint/safetensors.h"
#include "checkpoint/settings.h"
#include "comm/comm.h"

/* A flat range of a global tensor, in this rank's memory. */
typedef struct cadre_piece {
    const char *name; /* "transformer.wte.weight", "adamw.m/transformer.wte.weight" */
    cadre_dtype dtype;
    cadre_dims dims;      /* of the whole tensor */
    int64_t first, count; /* elements of it held here */
    void *data;
    bool weights; /* belongs into model.safetensors; else into this rank's optim file */
} cadre_piece;

/* A file beside the tensors: config.json, tokenizer.json. */
typedef struct cadre_side_file {
    const char *name;
    const void *data;
    size_t bytes;
} cadre_side_file;

typedef struct cadre_checkpoint_head {
    int64_t step, samples;
    uint64_t data_hash;      /* of the training ids; 0: not known */
    uint64_t parameter_hash; /* cadre_parallel_hash */
    double valid_loss;       /* of the last evaluation; NaN: none */
    const char *settings;    /* the resolved settings as YAML */
    const char *layout;      /* "dp=2", for people */
} cadre_checkpoint_head;

/* Collective over `comm`. Writes `folder`/step-NNNNNNNN. Together the ranks' pieces hold every
 * tensor once (checked); only rank 0 gives side files. Full disk, missing permission:
 * CADRE_ERESOURCE on all ranks naming the path; nothing half-written stays, earlier checkpoints
 * stay. An existing complete one of the same step is kept: CADRE_OK with the same weights, else
 * CADRE_EUSAGE. `ret_path` may be NULL. */
cadre_status cadre_checkpoint_save(cadre_comm *comm, const char *folder,
                                   const cadre_checkpoint_head *head, const cadre_piece *pieces,
                                   int count, const cadre_side_file *files, int file_count,
                                   char ret_path[CADRE_PATH]);
/* Local: removes old checkpoints of `folder`: keeps the newest `keep` complete ones and the one
 * with the best validation; removes half-written leftovers. The newest complete one always stays.
 * keep 0: keep all. */
cadre_status cadre_checkpoint_prune(const char *folder, int64_t keep);

typedef struct cadre_checkpoint cadre_checkpoint;

/* Local. Opens one checkpoint folder: manifest, file sizes; `deep` also checksums. Half-written,
 * truncated, altered, missing file: CADRE_EDATA naming file and numbers. */
cadre_status cadre_checkpoint_open(cadre_checkpoint **ret_checkpoint, const char *path, bool deep);
const cadre_checkpoint_head *cadre_checkpoint_head_of(const cadre_checkpoint *c);
const char *cadre_checkpoint_path(const cadre_checkpoint *c);
/* Fills the pieces' data from whatever files hold them (dtype must agree; a missing tensor or
 * another shape is CADRE_EDATA). */
cadre_status cadre_checkpoint_read(cadre_checkpoint *c, const cadre_piece *pieces, int count);
/* Contents of a side file (config.json, tokenizer.json); CADRE_EDATA when absent. From cadre_alloc,
 * terminated by 0. */
cadre_status cadre_checkpoint_side(const cadre_checkpoint *c, const char *name, char **ret_data,
                                   size_t *ret_bytes);
void cadre_checkpoint_close(cadre_checkpoint **c);

/* Local. The newest complete and undamaged checkpoint under `path`, which is a run folder, its
 * checkpoints folder, or a checkpoint. Damaged newer ones are passed over; `skipped` (may be NULL)
 * says which and why, one line each. None: CADRE_EDATA. */
cadre_status cadre_checkpoint_find(const char *path, char ret_path[CADRE_PATH],
                                   cadre_text *skipped);

/* `cadre checkpoint show | check | export`, as text or JSON appended to `to`. */
cadre_status cadre_checkpoint_show(const char *path, bool json, cadre_text *to);
cadre_status cadre_checkpoint_check(const char *path, bool json,
                                    cadre_text *to); /* all files, all sums; CADRE_EDATA if bad */
/* `to_path` X.safetensors: weights alone; a folder name: model.safetensors, config.json,
 * tokenizer.json. Replaced atomically. */
cadre_status cadre_checkpoint_export(const char *path, const char *to_path);

#endif
