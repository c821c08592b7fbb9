/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/settings.h"

#include <math.h>
#include <stddef.h>

#include "base/status.h"

static const cadre_setting rows[] = {
    {.name = "comm.transport",
     .type = CADRE_SET_CHOICE,
     .fallback = "auto",
     .choices = "auto|self|shm|mpi",
     .offset = offsetof(cadre_comm_cfg, transport),
     .help = "how ranks talk: auto takes shm for several ranks on a machine and self for one"},
    {.name = "comm.timeout",
     .type = CADRE_SET_TIME,
     .fallback = "5min",
     .low = 1,
     .high = INFINITY,
     .offset = offsetof(cadre_comm_cfg, timeout),
     .help = "how long a rank waits for others before it fails and names the late"},
    {.name = "comm.warn_after",
     .type = CADRE_SET_TIME,
     .fallback = "30s",
     .low = 1,
     .high = INFINITY,
     .offset = offsetof(cadre_comm_cfg, warn_after),
     .help = "how long a rank waits before it says for whom"},
    {.name = "comm.progress_thread",
     .type = CADRE_SET_BOOL,
     .fallback = "false",
     .offset = offsetof(cadre_comm_cfg, progress_thread),
     .help = "a thread of its own drives communication (worth it with a core to spare a rank)"},
};

const cadre_setting_table cadre_comm_settings = {
    .room = "comm", .rows = rows, .count = CADRE_COUNT(rows)};
