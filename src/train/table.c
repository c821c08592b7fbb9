/* SPDX-License-Identifier: Apache-2.0
 *
 * The rooms' tables joined, and the settings as callers open them: defaults, then a run file.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "train/resolve.h"

const cadre_setting_table *const *cadre_all_settings(int *ret_count) {
    static const cadre_setting_table *const tables[] = {
        &cadre_model_settings, &cadre_data_settings,       &cadre_train_settings,
        &cadre_optim_settings, &cadre_precision_settings,  &cadre_parallel_settings,
        &cadre_comm_settings,  &cadre_checkpoint_settings, &cadre_run_settings,
    };
    *ret_count = CADRE_COUNT(tables);
    return tables;
}

cadre_status cadre_config_fill(const cadre_settings *set, cadre_config *ret_config) {
    cadre_config c;
    memset(&c, 0, sizeof c);
    CADRE_TRY(cadre_settings_fill(set, &cadre_model_settings, &c.model));
    CADRE_TRY(cadre_settings_fill(set, &cadre_data_settings, &c.data));
    CADRE_TRY(cadre_settings_fill(set, &cadre_train_settings, &c.train));
    CADRE_TRY(cadre_settings_fill(set, &cadre_optim_settings, &c.optim));
    CADRE_TRY(cadre_settings_fill(set, &cadre_precision_settings, &c.precision));
    CADRE_TRY(cadre_settings_fill(set, &cadre_parallel_settings, &c.parallel));
    c.parallel.narrow_wire = c.precision.reduce == 1;
    CADRE_TRY(cadre_settings_fill(set, &cadre_comm_settings, &c.comm));
    CADRE_TRY(cadre_settings_fill(set, &cadre_checkpoint_settings, &c.checkpoint));
    CADRE_TRY(cadre_settings_fill(set, &cadre_run_settings, &c.run));
    *ret_config = c;
    return CADRE_OK;
}

void cadre_path_stem(const char *path, char *ret_stem, size_t room) {
    char trimmed[CADRE_PATH];
    snprintf(trimmed, sizeof trimmed, "%s", path);
    for (size_t n = strlen(trimmed); n > 1 && trimmed[n - 1] == '/'; n--) trimmed[n - 1] = '\0';
    const char *slash = strrchr(trimmed, '/');
    snprintf(ret_stem, room, "%s", slash ? slash + 1 : trimmed);
    char *dot = strrchr(ret_stem, '.');
    if (dot && dot != ret_stem) *dot = '\0';
}

/* A run folder's own settings.yaml repeats that run: it is called as its folder is. */
static cadre_status name_after(cadre_settings *set, const char *run_file) {
    char stem[CADRE_PATH];
    cadre_path_stem(run_file, stem, sizeof stem);
    const char *slash = strrchr(run_file, '/');
    if (strcmp(stem, "settings") == 0 && slash && slash != run_file) {
        char folder[CADRE_PATH];
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - run_file), run_file);
        cadre_path_stem(folder, stem, sizeof stem);
    }
    return cadre_settings_derive(set, "run.name", "%s", stem);
}

cadre_status cadre_settings_open(cadre_settings **ret_set, const char *run_file) {
    int count = 0;
    const cadre_setting_table *const *tables = cadre_all_settings(&count);
    cadre_settings *set = NULL;
    CADRE_TRY(cadre_settings_make(&set, tables, count));
    cadre_status st = run_file ? cadre_settings_read_file(set, run_file) : CADRE_OK;
    if (!st && run_file) st = name_after(set, run_file);
    if (st) {
        cadre_settings_close(&set);
        return st;
    }
    *ret_set = set;
    return CADRE_OK;
}
