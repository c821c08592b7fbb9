/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights out of a checkpoint: one safetensors file, or a folder as Hugging Face lays it out. What
 * stands at the target is replaced at one moment; a folder that holds other things is left alone.
 */
#include "checkpoint/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

enum { SLICE = 1 << 20 };

static const char *const exported[] = {CADRE_MODEL_FILE, "config.json", "tokenizer.json"};

static cadre_status write_copy(const cadre_map *map, const char *to) {
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    CADRE_CHECK(fd >= 0, CADRE_ERESOURCE, "cannot write %s: %s", to, strerror(errno));
    cadre_status st = CADRE_OK;
    for (size_t done = 0; !st && done < map->bytes; done += SLICE)
        st = cadre_write_all(fd, map->data + done,
                             map->bytes - done < SLICE ? map->bytes - done : SLICE, to);
    if (!st && fsync(fd) != 0)
        st = CADRE_FAIL(CADRE_ERESOURCE, "cannot write %s to disk: %s", to, strerror(errno));
    close(fd);
    return st;
}

static cadre_status copy_file(const char *checkpoint, const char *name, const char *to) {
    char from[CADRE_PATH];
    cadre_map map;
    CADRE_TRY(cadre_map_open(&map, cadre_join(from, sizeof from, checkpoint, name)));
    cadre_status st = write_copy(&map, to);
    cadre_map_close(&map);
    return st;
}

static cadre_status export_file(const char *checkpoint, const char *to, const char *temporary) {
    CADRE_CHECK(!cadre_path_is_folder(to), CADRE_EUSAGE,
                "%s is a folder; a file of weights cannot take its place", to);
    CADRE_TRY(copy_file(checkpoint, CADRE_MODEL_FILE, temporary));
    CADRE_CHECK(rename(temporary, to) == 0, CADRE_ERESOURCE, "cannot replace %s: %s", to,
                strerror(errno));
    return CADRE_OK;
}

/* An existing target may hold what an export writes, and nothing else. */
static cadre_status check_target(const char *to) {
    char **names = NULL, other[256] = "";
    int count = 0;
    if (!cadre_path_is_folder(to)) {
        CADRE_CHECK(access(to, F_OK) != 0, CADRE_EUSAGE,
                    "%s is a file; weights as one file go to a name that ends in .safetensors", to);
        return CADRE_OK;
    }
    CADRE_TRY(cadre_list_folder(to, &names, &count));
    for (int i = 0; i < count && !other[0]; i++) {
        bool known = false;
        for (int k = 0; k < CADRE_COUNT(exported); k++)
            known = known || strcmp(names[i], exported[k]) == 0;
        if (!known) snprintf(other, sizeof other, "%s", names[i]);
    }
    cadre_names_free(&names, count);
    CADRE_CHECK(!other[0], CADRE_EUSAGE,
                "%s holds other things (%s); name a new folder, or one from an earlier export", to,
                other);
    return CADRE_OK;
}

/* Moves `temporary` to `to`; what was there goes to `temporary`, in one step. */
static cadre_status exchange(const char *temporary, const char *to) {
    if (rename(temporary, to) == 0) return CADRE_OK; /* absent, or an empty folder */
    CADRE_CHECK(renameat2(AT_FDCWD, temporary, AT_FDCWD, to, RENAME_EXCHANGE) == 0, CADRE_ERESOURCE,
                "cannot replace %s: %s", to, strerror(errno));
    return CADRE_OK;
}

static bool lists(const cadre_manifest *m, const char *name) {
    for (int i = 0; i < m->file_count; i++)
        if (strcmp(m->files[i].name, name) == 0) return true;
    return false;
}

static cadre_status export_folder(const cadre_checkpoint *c, const char *to,
                                  const char *temporary) {
    char path[CADRE_PATH];
    CADRE_TRY(check_target(to));
    CADRE_TRY(cadre_remove_tree(temporary));
    CADRE_TRY(cadre_mkdirs(temporary));
    for (int i = 0; i < CADRE_COUNT(exported); i++)
        if (lists(cadre_checkpoint_manifest(c), exported[i]))
            CADRE_TRY(copy_file(cadre_checkpoint_path(c), exported[i],
                                cadre_join(path, sizeof path, temporary, exported[i])));
    CADRE_TRY(cadre_fsync_path(temporary));
    return exchange(temporary, to);
}

cadre_status cadre_checkpoint_export(const char *path, const char *to_path) {
    char found[CADRE_PATH], to[CADRE_PATH], temporary[CADRE_PATH];
    cadre_checkpoint *c = NULL;
    CADRE_CHECK(to_path[0] && strlen(to_path) < CADRE_PATH - 64, CADRE_EUSAGE,
                "'%s' is no name to export to", to_path);
    strcpy(to, to_path);
    for (size_t n = strlen(to); n > 1 && to[n - 1] == '/'; n--) to[n - 1] = '\0';
    snprintf(temporary, sizeof temporary, "%.*s.tmp-%d", CADRE_PATH - 64, to, (int)getpid());
    CADRE_TRY(cadre_checkpoint_find(path, found, NULL));
    CADRE_TRY(cadre_checkpoint_open(&c, found, false));
    const char *dot = strrchr(to, '.');
    cadre_status st = dot && strcmp(dot, ".safetensors") == 0 ? export_file(found, to, temporary)
                                                              : export_folder(c, to, temporary);
    cadre_checkpoint_close(&c);
    cadre_error why;
    if (st) cadre_error_save(&why);
    cadre_status cleared = cadre_remove_tree(temporary);
    return st ? cadre_error_restore(&why) : cleared;
}
