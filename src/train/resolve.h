/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of the resolution of settings that the room's files share.
 */
#ifndef CADRE_TRAIN_RESOLVE_H
#define CADRE_TRAIN_RESOLVE_H

#include "train/settings.h"

/* The last part of a path without its suffix: "data/book.txt" -> "book". */
void cadre_path_stem(const char *path, char *ret_stem, size_t room);

/* Local. How many ranks the settings ask for: run.ranks, else the product of the given degrees of
 * parallel, else 1. */
cadre_status cadre_settings_ranks(const cadre_settings *set, int *ret_ranks);

/* What was unset ("--run.dir=") and cannot do without a value takes its default again. */
cadre_status cadre_settings_restore(cadre_settings *set);

/* What a trainer with batches of its own needs: optimizer, threads, numbers; no batch arithmetic,
 * no model.* . */
cadre_status cadre_settings_resolve_trainer(cadre_settings *set, const cadre_facts *facts);

/* Whether two resolved settings describe the same run (interface.md, section 3, "Second run of the
 * same name"). A difference is CADRE_EUSAGE with each key and both values; `before` names where
 * the old ones are from. */
cadre_status cadre_settings_same_run(const cadre_settings *now, const cadre_settings *before,
                                     const char *where);
/* The same against the settings that a checkpoint holds as YAML. */
cadre_status cadre_settings_check_resume(const cadre_settings *now, const char *yaml,
                                         const char *where);

#endif
