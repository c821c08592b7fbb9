/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_CHECKPOINT_SETTINGS_H
#define CADRE_CHECKPOINT_SETTINGS_H

#include "base/settings.h"

typedef struct cadre_checkpoint_cfg {
    cadre_every every;
    int64_t keep;
    const char *resume; /* "auto", "never", or a path */
    bool async;
} cadre_checkpoint_cfg;

extern const cadre_setting_table cadre_checkpoint_settings;

#endif
