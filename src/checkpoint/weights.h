/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of a model, whoever wrote them: one of our checkpoints, or a folder of Hugging Face's
 * (config.json; model.safetensors, or the files that model.safetensors.index.json names). Both are
 * read alike, by tensor names; a checkpoint is found and its sums are checked first.
 */
#ifndef CADRE_CHECKPOINT_WEIGHTS_H
#define CADRE_CHECKPOINT_WEIGHTS_H

#include "checkpoint/checkpoint.h"

typedef struct cadre_weights cadre_weights;

/* Local. The folder that `path` means: itself where it is Hugging Face's, else the newest complete
 * checkpoint under it (cadre_checkpoint_find; `deep`: its sums are checked too). */
cadre_status cadre_weights_find(const char *path, bool deep, char ret_folder[CADRE_PATH],
                                bool *ret_checkpoint, cadre_text *skipped);

/* Local. A folder that was found. Headers are hostile input; an index names files of the folder. */
cadre_status cadre_weights_open(cadre_weights **ret_weights, const char *folder);
/* Fills the pieces (f32, f64 or bf16) from tensors of their names, with or without the prefix
 * "transformer.", of any floating-point format. Together the pieces are the whole model:
 * CADRE_EDATA naming folder and tensor when one is missing, has another shape, or belongs to none
 * of them. Left aside are attention's masks (attn.bias, attn.masked_bias), and a lm_head.weight
 * that no piece asks for when it equals the embedding. */
cadre_status cadre_weights_read(const cadre_weights *w, const cadre_piece *pieces, int count);
void cadre_weights_close(cadre_weights **w);

#endif
