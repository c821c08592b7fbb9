/* SPDX-License-Identifier: Apache-2.0
 *
 * A schedule is data: the list of actions a rank does in one step. A generator writes it, one
 * executor runs it, and the plan, the simulator and the trace speak of the very same list.
 */
#ifndef CADRE_PARALLEL_SCHEDULE_H
#define CADRE_PARALLEL_SCHEDULE_H

#include "base/status.h"

typedef enum cadre_action_kind {
    CADRE_ACT_FORWARD,  /* of micro-batch `micro` of chunk `chunk` */
    CADRE_ACT_BACKWARD, /* towards inputs and weights; gradients of the last micro-batch start their
                           buckets */
    CADRE_ACT_REDUCE,   /* waits for all buckets */
    CADRE_ACT_CLIP, /* global norm, divisor and clip factor, decision on values that are not finite
                     */
    CADRE_ACT_UPDATE, /* the optimizer on the spans this rank owns */
    CADRE_ACTIONS
} cadre_action_kind;

typedef struct cadre_action {
    cadre_action_kind kind;
    int32_t micro, chunk;
} cadre_action;

typedef struct cadre_schedule {
    cadre_action *at;
    int count;
} cadre_schedule;

typedef struct cadre_schedule_row {
    const char *name, *help;
    cadre_status (*write)(int micros, int stage, int stages, int chunks,
                          cadre_schedule *ret_schedule);
} cadre_schedule_row;
extern const cadre_schedule_row cadre_schedules[];
extern const int cadre_schedule_count;

const char *cadre_action_name(cadre_action_kind kind); /* "forward", ... */
void cadre_schedule_free(cadre_schedule *s);

#endif
