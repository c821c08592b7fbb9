/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of checkpoint.*
 */
#include "checkpoint/settings.h"

#define ROW(field) "checkpoint." #field, .offset = offsetof(cadre_checkpoint_cfg, field)

static const cadre_setting rows[] = {
    {ROW(every), .type = CADRE_SET_EVERY, .fallback = "10min",
     .help =
         "write a checkpoint this often: a time, or a bare number of steps; also at the end and "
         "on a signal; 0: only then"},
    {ROW(keep), .type = CADRE_SET_INT, .fallback = "3", .low = 0, .high = 1e9,
     .help = "checkpoints to keep, newest first, beside the one with the best validation; 0: all"},
    {ROW(resume), .type = CADRE_SET_TEXT, .fallback = "auto",
     .help = "auto: go on from the run folder's newest complete checkpoint; never: start anew; "
             "else the path of a checkpoint to go on from"},
    {ROW(async), .type = CADRE_SET_BOOL, .fallback = "false",
     .help = "write checkpoints while training goes on",
     .later = "checkpoints are written between steps; writing beside training is not built yet"},
};

const cadre_setting_table cadre_checkpoint_settings = {"checkpoint", rows,
                                                       sizeof rows / sizeof rows[0]};
