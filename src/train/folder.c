/* SPDX-License-Identifier: Apache-2.0
 *
 * Which folder a run writes to. Nothing is ever overwritten: a folder is continued from its newest
 * complete checkpoint, or left alone and the next free name taken.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "train/resolve.h"
#include "train/run.h"

static bool exists(const char *path) {
    return cadre_path_is_folder(path) || cadre_path_is_file(path);
}

/* NAME, else the first free of NAME-2, NAME-3 ... */
static cadre_status next_free(const char *dir, const char *name, char *ret_folder) {
    cadre_join(ret_folder, CADRE_PATH, dir, name);
    for (int i = 2; exists(ret_folder); i++) {
        char numbered[CADRE_PATH];
        CADRE_CHECK(i < 100000, CADRE_EUSAGE, "%s: no free name after %s-%d; give --run.name=NAME",
                    dir, name, i - 1);
        snprintf(numbered, sizeof numbered, "%.4000s-%d", name, i);
        cadre_join(ret_folder, CADRE_PATH, dir, numbered);
    }
    return CADRE_OK;
}

/* The step of a checkpoint, and that it is one of this run. */
static cadre_status step_of(const cadre_settings *set, const char *checkpoint, int64_t *ret_step) {
    cadre_checkpoint *c = NULL;
    CADRE_TRY(cadre_checkpoint_open(&c, checkpoint, false));
    const cadre_checkpoint_head *head = cadre_checkpoint_head_of(c);
    cadre_status st = CADRE_OK;
    if (head->settings) st = cadre_settings_check_resume(set, head->settings, checkpoint);
    if (!st) *ret_step = head->step;
    cadre_checkpoint_close(&c);
    return st;
}

static void remark(cadre_run_place *place, const char *text) {
    size_t at = strlen(place->said);
    int room = (int)(sizeof place->said - at) - 2;
    if (room > 0)
        snprintf(place->said + at, sizeof place->said - at, "%s%.*s", at ? "\n" : "", room, text);
}

/* Continue from `place->checkpoint`, or finished already. `steps` < 0: not known before the data
 * are read (train.epochs); the run itself finds out then. */
static cadre_status go_on(const cadre_settings *set, int64_t steps, cadre_run_place *place) {
    char text[1024];
    int64_t step = 0;
    CADRE_TRY(step_of(set, place->checkpoint, &step));
    place->resume = true;
    place->finished = steps >= 0 && step >= steps;
    if (place->finished)
        snprintf(text, sizeof text,
                 "%.700s is finished: step %" PRId64 " of %" PRId64
                 " is done; --train.steps=N with a larger N goes on, --run.name=NEW starts anew",
                 place->folder, step, steps);
    else
        snprintf(text, sizeof text, "%.800s exists; continuing from step %" PRId64, place->folder,
                 step);
    remark(place, text);
    return CADRE_OK;
}

static cadre_status from_path(const cadre_settings *set, const char *path, const char *dir,
                              const char *name, int64_t steps, cadre_run_place *place) {
    char home[CADRE_PATH], newest[CADRE_PATH];
    CADRE_TRY(cadre_checkpoint_find(path, place->checkpoint, NULL));
    cadre_join(home, sizeof home, dir, name);
    bool ours = false;
    if (cadre_path_is_folder(home) && !cadre_checkpoint_find(home, newest, NULL)) {
        char *a = realpath(newest, NULL), *b = realpath(place->checkpoint, NULL);
        ours = a && b && strcmp(a, b) == 0;
        free(a);
        free(b);
    }
    if (ours)
        snprintf(place->folder, sizeof place->folder, "%s", home);
    else
        CADRE_TRY(next_free(dir, name, place->folder));
    CADRE_TRY(go_on(set, steps, place));
    if (!ours && !place->finished) {
        snprintf(place->said, sizeof place->said, "continuing from %.450s; writing to %.450s",
                 place->checkpoint, place->folder);
    }
    return CADRE_OK;
}

static cadre_status from_auto(const cadre_settings *set, const char *dir, const char *name,
                              int64_t steps, cadre_run_place *place) {
    cadre_text skipped = {0};
    cadre_join(place->folder, sizeof place->folder, dir, name);
    cadre_status st = cadre_checkpoint_find(place->folder, place->checkpoint, &skipped);
    if (skipped.length) {
        while (skipped.length && skipped.at[skipped.length - 1] == '\n')
            skipped.at[--skipped.length] = '\0';
        remark(place, skipped.at);
    }
    cadre_text_free(&skipped);
    if (!st) return go_on(set, steps, place);
    place->checkpoint[0] = '\0';
    char old[CADRE_PATH], text[1024];
    snprintf(old, sizeof old, "%s", place->folder);
    CADRE_TRY(next_free(dir, name, place->folder));
    snprintf(text, sizeof text, "%.450s exists and has no complete checkpoint; writing to %.450s",
             old, place->folder);
    remark(place, text);
    return CADRE_OK;
}

cadre_status cadre_run_folder(const cadre_settings *set, cadre_run_place *ret_place) {
    cadre_config c;
    cadre_run_place place;
    char home[CADRE_PATH];
    memset(&place, 0, sizeof place);
    CADRE_TRY(cadre_config_fill(set, &c));
    CADRE_CHECK(c.run.name, CADRE_EINTERNAL, "run.name is not worked out");
    bool epochs = cadre_settings_get(set, "train.epochs") != NULL;
    int64_t steps = epochs && !cadre_settings_given(set, "train.steps") ? -1 : c.train.steps;
    cadre_join(home, sizeof home, c.run.dir, c.run.name);
    bool never = strcmp(c.checkpoint.resume, "never") == 0;
    if (!never && strcmp(c.checkpoint.resume, "auto") != 0)
        CADRE_TRY(from_path(set, c.checkpoint.resume, c.run.dir, c.run.name, steps, &place));
    else if (!exists(home))
        snprintf(place.folder, sizeof place.folder, "%s", home);
    else if (never) {
        CADRE_TRY(next_free(c.run.dir, c.run.name, place.folder));
        snprintf(place.said, sizeof place.said, "%.450s exists; writing to %.450s", home,
                 place.folder);
    } else
        CADRE_TRY(from_auto(set, c.run.dir, c.run.name, steps, &place));
    *ret_place = place;
    return CADRE_OK;
}
