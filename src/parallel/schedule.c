/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules, one generator a row. Only `plain` so far: forward and backward of one micro-batch
 * after the other.
 *
 *   F0 B0 F1 B1 ... reduce clip update
 */
#include "parallel/schedule.h"

#include "base/alloc.h"

static cadre_status write_plain(int micros, int stage, int stages, int chunks,
                                cadre_schedule *ret_schedule) {
    CADRE_CHECK(micros >= 0 && stage == 0 && stages == 1 && chunks == 1, CADRE_EUSAGE,
                "schedule plain: micro-batches %d, stage %d of %d, %d chunks; it is for one stage "
                "and one chunk",
                micros, stage, stages, chunks);
    cadre_schedule s = {0};
    CADRE_TRY(cadre_alloc_array(&s.at, CADRE_MEM_OTHER, 2 * (int64_t)micros + 3, sizeof *s.at));
    for (int32_t i = 0; i < micros; i++) {
        s.at[s.count++] = (cadre_action){CADRE_ACT_FORWARD, i, 0};
        s.at[s.count++] = (cadre_action){CADRE_ACT_BACKWARD, i, 0};
    }
    s.at[s.count++] = (cadre_action){CADRE_ACT_REDUCE, 0, 0};
    s.at[s.count++] = (cadre_action){CADRE_ACT_CLIP, 0, 0};
    s.at[s.count++] = (cadre_action){CADRE_ACT_UPDATE, 0, 0};
    *ret_schedule = s;
    return CADRE_OK;
}

const cadre_schedule_row cadre_schedules[] = {
    {.name = "plain",
     .help = "forward and backward of one micro-batch after the other",
     .write = write_plain},
};
const int cadre_schedule_count = CADRE_COUNT(cadre_schedules);

const char *cadre_action_name(cadre_action_kind kind) {
    static const char *const names[CADRE_ACTIONS] = {"forward", "backward", "reduce", "clip",
                                                     "update"};
    return kind >= 0 && kind < CADRE_ACTIONS ? names[kind] : "?";
}

void cadre_schedule_free(cadre_schedule *s) {
    cadre_free(&s->at);
    s->count = 0;
}
