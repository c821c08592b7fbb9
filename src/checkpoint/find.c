/* SPDX-License-Identifier: Apache-2.0
 *
 * Which checkpoints a folder holds: the newest whole one, and which to remove.
 */
#include "checkpoint/manifest.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

bool cadre_checkpoint_step(const char *name, int64_t *ret_step) {
    size_t digits = strncmp(name, "step-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    if (digits == 0 || name[5 + digits]) return false;
    return cadre_parse_i64(name + 5, ret_step);
}

char *cadre_checkpoint_name(char ret_path[CADRE_PATH], const char *folder, int64_t step) {
    char name[32];
    snprintf(name, sizeof name, "step-%08" PRId64, step);
    return cadre_join(ret_path, CADRE_PATH, folder, name);
}

static int newest_first(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

cadre_status cadre_checkpoint_list(const char *path, char ret_folder[CADRE_PATH],
                                   int64_t **ret_steps, int *ret_count) {
    char **names = NULL;
    int n = 0, count = 0;
    int64_t *steps = NULL;
    cadre_join(ret_folder, CADRE_PATH, path, "checkpoints");
    if (!cadre_path_is_folder(ret_folder)) snprintf(ret_folder, CADRE_PATH, "%s", path);
    CADRE_TRY(cadre_list_folder(ret_folder, &names, &n));
    cadre_status st = cadre_alloc_array(&steps, CADRE_MEM_OTHER, n, sizeof *steps);
    for (int i = 0; !st && i < n; i++)
        if (cadre_checkpoint_step(names[i], &steps[count])) count++;
    cadre_names_free(&names, n);
    CADRE_TRY(st);
    qsort(steps, (size_t)count, sizeof *steps, newest_first);
    *ret_steps = steps;
    *ret_count = count;
    return CADRE_OK;
}

/* Whether `path` itself is one: named as one, or holding a manifest. */
static bool is_checkpoint(const char *path) {
    char trimmed[CADRE_PATH], manifest[CADRE_PATH];
    int64_t step;
    snprintf(trimmed, sizeof trimmed, "%s", path);
    for (size_t n = strlen(trimmed); n > 1 && trimmed[n - 1] == '/'; n--) trimmed[n - 1] = '\0';
    const char *slash = strrchr(trimmed, '/');
    return cadre_checkpoint_step(slash ? slash + 1 : trimmed, &step) ||
           cadre_path_is_file(cadre_join(manifest, sizeof manifest, trimmed, CADRE_MANIFEST_NAME));
}

static cadre_status check_one(const char *path, bool deep) {
    cadre_checkpoint *c = NULL;
    cadre_status st = cadre_checkpoint_open(&c, path, deep);
    cadre_checkpoint_close(&c);
    return st;
}

cadre_status cadre_checkpoint_find_as(const char *path, bool deep, char ret_path[CADRE_PATH],
                                      cadre_text *skipped) {
    char folder[CADRE_PATH], one[CADRE_PATH];
    int64_t *steps = NULL;
    int count = 0, at = 0;
    CADRE_CHECK(cadre_path_is_folder(path), CADRE_EDATA, "no checkpoint at %s: no such folder",
                path);
    if (is_checkpoint(path)) {
        CADRE_TRY(check_one(path, deep));
        snprintf(ret_path, CADRE_PATH, "%s", path);
        return CADRE_OK;
    }
    CADRE_TRY(cadre_checkpoint_list(path, folder, &steps, &count));
    cadre_status st = CADRE_OK;
    for (; at < count; at++) {
        st = check_one(cadre_checkpoint_name(one, folder, steps[at]), deep);
        if (st != CADRE_EDATA) break;
        if (skipped) cadre_text_add(skipped, "%s\n", cadre_error_text());
    }
    cadre_free(&steps);
    if (at < count) {
        if (!st) strcpy(ret_path, one);
        return st;
    }
    CADRE_CHECK(count > 0, CADRE_EDATA, "%s holds no checkpoint", path);
    return cadre_error_prefix(
        st, "%s holds no complete checkpoint (%d damaged); the oldest: ", path, count);
}

cadre_status cadre_checkpoint_find(const char *path, char ret_path[CADRE_PATH],
                                   cadre_text *skipped) {
    return cadre_checkpoint_find_as(path, true, ret_path, skipped);
}

/* ---- which to remove ---- */

/* The manifest goes first, so that what a crash leaves is recognised as half-written. */
static cadre_status remove_checkpoint(const char *path) {
    char manifest[CADRE_PATH];
    (void)unlink(cadre_join(manifest, sizeof manifest, path, CADRE_MANIFEST_NAME));
    return cadre_remove_tree(path);
}

/* "step-N.tmp-JOB": left by a save that never ended. */
static cadre_status remove_leftovers(const char *folder) {
    char **names = NULL, path[CADRE_PATH];
    int count = 0;
    CADRE_TRY(cadre_list_folder(folder, &names, &count));
    cadre_status st = CADRE_OK;
    for (int i = 0; !st && i < count; i++)
        if (cadre_glob("step-*.tmp-*", names[i]))
            st = cadre_remove_tree(cadre_join(path, sizeof path, folder, names[i]));
    cadre_names_free(&names, count);
    return st;
}

typedef struct candidate {
    bool complete, half_written;
    double valid_loss;
} candidate;

static void look_at(const char *path, candidate *ret) {
    char manifest[CADRE_PATH];
    cadre_checkpoint *c = NULL;
    *ret = (candidate){.valid_loss = NAN};
    ret->half_written =
        !cadre_path_is_file(cadre_join(manifest, sizeof manifest, path, CADRE_MANIFEST_NAME));
    ret->complete = !ret->half_written && cadre_checkpoint_open(&c, path, false) == CADRE_OK;
    if (ret->complete) ret->valid_loss = cadre_checkpoint_head_of(c)->valid_loss;
    cadre_checkpoint_close(&c);
}

/* Of equal ones the newest: they come newest first. */
static int best_of(const candidate *c, int count) {
    int best = -1;
    for (int i = 0; i < count; i++)
        if (isfinite(c[i].valid_loss) && (best < 0 || c[i].valid_loss < c[best].valid_loss))
            best = i;
    return best;
}

cadre_status cadre_checkpoint_prune(const char *folder, int64_t keep) {
    char holder[CADRE_PATH], path[CADRE_PATH];
    int64_t *steps = NULL, kept = 0;
    candidate *all = NULL;
    int count = 0;
    CADRE_TRY(cadre_checkpoint_list(folder, holder, &steps, &count));
    cadre_status st = remove_leftovers(holder);
    if (!st) st = cadre_alloc_array(&all, CADRE_MEM_OTHER, count, sizeof *all);
    for (int i = 0; !st && i < count; i++)
        look_at(cadre_checkpoint_name(path, holder, steps[i]), &all[i]);
    int best = st ? -1 : best_of(all, count);
    for (int i = 0; !st && i < count; i++) {
        bool remove = all[i].half_written;
        if (all[i].complete) remove = keep > 0 && kept++ >= keep && i != best;
        if (remove) st = remove_checkpoint(cadre_checkpoint_name(path, holder, steps[i]));
    }
    cadre_free(&all);
    cadre_free(&steps);
    return st;
}
