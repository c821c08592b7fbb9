/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_COMM_SETTINGS_H
#define CADRE_COMM_SETTINGS_H

#include "base/settings.h"

typedef struct cadre_comm_cfg {
    int transport;               /* 0 auto, 1 self, 2 shm, 3 mpi */
    int64_t timeout, warn_after; /* ms */
    bool progress_thread;
} cadre_comm_cfg;

extern const cadre_setting_table cadre_comm_settings;

#endif
