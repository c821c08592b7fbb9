/* SPDX-License-Identifier: Apache-2.0
 *
 * One run from settings to end report, and what happens when it fails: the failing rank tells its
 * peers, so that they stop at their next call and repeat the cause.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "train/run_private.h"

const char *cadre_end_name(cadre_end_reason reason) {
    static const char *const names[] = {"done",   "sigterm", "sigusr1",
                                        "sigint", "failed",  "finished_before"};
    return names[reason];
}

/* Sinks close their books; what they say to that does not hide the cause. */
static void tell_failure(cadre_run *run) {
    run->end.reason = CADRE_END_FAILED;
    for (int i = 0; run->started && run->rank == 0 && i < run->opts->observer_count; i++)
        if (run->opts->observers[i].end)
            (void)run->opts->observers[i].end(run->opts->observers[i].self, &run->end);
}

cadre_status cadre_run_train(cadre_comm *world, cadre_settings *set, const cadre_run_opts *opts,
                             cadre_end_report *ret_end) {
    cadre_run *run = NULL;
    CADRE_TRY(cadre_alloc(&run, CADRE_MEM_OTHER, sizeof *run));
    cadre_status st = cadre_run_open(run, world, set, opts);
    if (!st && run->step >= run->cfg.train.steps)
        run->end.reason = CADRE_END_FINISHED_BEFORE;
    else if (!st)
        st = cadre_run_loop(run);
    if (st) {
        cadre_error error;
        cadre_error_save(&error);
        char text[CADRE_ERROR_TEXT];
        if (cadre_comm_first_failure(world, text, sizeof text) < 0) cadre_comm_abort(world, &error);
        tell_failure(run);
        cadre_error_restore(&error);
    } else if (ret_end) {
        *ret_end = run->end;
    }
    cadre_run_close(run);
    cadre_free(&run);
    return st;
}

const cadre_settings *cadre_run_settings_of(const cadre_run *run) {
    return run->set;
}
const cadre_config *cadre_run_config(const cadre_run *run) {
    return &run->cfg;
}
const char *cadre_run_folder_of(const cadre_run *run) {
    return run->folder;
}
