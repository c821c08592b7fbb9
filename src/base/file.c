/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/status.h"

char *cadre_join(char *ret_path, size_t room, const char *dir, const char *name) {
    size_t length = strlen(dir);
    int n =
        snprintf(ret_path, room, "%s%s%s", dir, length && dir[length - 1] == '/' ? "" : "/", name);
    /* the beginning of a path could name another file */
    if (n < 0 || (size_t)n >= room) ret_path[0] = '\0';
    return ret_path;
}

bool cadre_path_is_folder(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

bool cadre_path_is_file(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

bool cadre_path_same(const char *a, const char *b) {
    struct stat s, t;
    return stat(a, &s) == 0 && stat(b, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

static cadre_status map_descriptor(cadre_map *ret_map, int fd, const char *path) {
    static const uint8_t nothing[1];
    struct stat s;
    CADRE_CHECK(fstat(fd, &s) == 0, CADRE_EDATA, "cannot read %s: %s", path, strerror(errno));
    CADRE_CHECK(!S_ISDIR(s.st_mode), CADRE_EDATA, "%s is a folder; a file is expected", path);
    CADRE_CHECK(S_ISREG(s.st_mode), CADRE_EDATA, "%s is no regular file", path);
    if (s.st_size == 0) {
        *ret_map = (cadre_map){.data = nothing};
        return CADRE_OK;
    }
    void *data = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    CADRE_CHECK(data != MAP_FAILED, CADRE_ERESOURCE, "cannot map %s (%lld bytes): %s", path,
                (long long)s.st_size, strerror(errno));
    *ret_map = (cadre_map){.data = data, .bytes = (size_t)s.st_size, .mapped = true};
    return CADRE_OK;
}

cadre_status cadre_map_open(cadre_map *ret_map, const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
    CADRE_CHECK(fd >= 0, CADRE_EDATA, "cannot read %s: %s", path, strerror(errno));
    cadre_status st = map_descriptor(ret_map, fd, path);
    close(fd);
    return st;
}

void cadre_map_close(cadre_map *map) {
    if (map->mapped) munmap((void *)map->data, map->bytes);
    *map = (cadre_map){0};
}

cadre_status cadre_mkdirs(const char *path) {
    char part[CADRE_PATH];
    size_t length = strlen(path);
    CADRE_CHECK(length > 0, CADRE_EUSAGE, "a folder with an empty name cannot be made");
    CADRE_CHECK(length < sizeof part, CADRE_EUSAGE, "path too long: %s", path);
    memcpy(part, path, length + 1);
    for (char *slash = part + 1;; slash++) {
        if (*slash && *slash != '/') continue;
        char kept = *slash;
        *slash = '\0';
        int error = mkdir(part, 0777) == 0 ? 0 : errno;
        CADRE_CHECK(!error || cadre_path_is_folder(part), CADRE_ERESOURCE,
                    "cannot make the folder %s: %s", part, strerror(error));
        *slash = kept;
        if (!kept) return CADRE_OK;
    }
}

cadre_status cadre_write_all(int fd, const void *data, size_t bytes, const char *path) {
    const char *at = data;
    CADRE_CHECK(!cadre_fault_here(), CADRE_ERESOURCE, "cannot write %s: %s", path,
                strerror(ENOSPC));
    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        CADRE_CHECK(n > 0, CADRE_ERESOURCE, "cannot write %s: %s", path,
                    n < 0 ? strerror(errno) : "nothing written");
        at += n;
        bytes -= (size_t)n;
    }
    return CADRE_OK;
}

cadre_status cadre_fsync_path(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CADRE_CHECK(fd >= 0, CADRE_ERESOURCE, "cannot open %s: %s", path, strerror(errno));
    int failed = fsync(fd) != 0 && errno != EINVAL && errno != EROFS ? errno : 0;
    close(fd);
    CADRE_CHECK(!failed, CADRE_ERESOURCE, "cannot write %s to disk: %s", path, strerror(failed));
    return CADRE_OK;
}

cadre_status cadre_fsync_folder_of(const char *path) {
    char folder[CADRE_PATH];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (!slash) return cadre_fsync_path(".");
    slash[slash == folder] = '\0';
    return cadre_fsync_path(folder);
}

cadre_status cadre_file_replace(const char *path, const void *data, size_t bytes) {
    char temporary[CADRE_PATH + 32];
    CADRE_CHECK(strlen(path) < CADRE_PATH, CADRE_EUSAGE, "path too long: %s", path);
    snprintf(temporary, sizeof temporary, "%s.tmp-%d", path, (int)getpid());
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    CADRE_CHECK(fd >= 0, CADRE_ERESOURCE, "cannot write %s: %s", path, strerror(errno));
    cadre_status st = cadre_write_all(fd, data, bytes, path);
    if (!st && fsync(fd) != 0)
        st = CADRE_FAIL(CADRE_ERESOURCE, "cannot write %s to disk: %s", path, strerror(errno));
    close(fd);
    if (!st && rename(temporary, path) != 0)
        st = CADRE_FAIL(CADRE_ERESOURCE, "cannot replace %s: %s", path, strerror(errno));
    if (!st) return cadre_fsync_folder_of(path);
    unlink(temporary);
    return st;
}

static cadre_status remove_inside(const char *path) {
    char **names = NULL, inner[CADRE_PATH];
    int count = 0;
    cadre_status st = cadre_list_folder(path, &names, &count);
    for (int i = 0; !st && i < count; i++) {
        if (strlen(path) + 1 + strlen(names[i]) >= sizeof inner)
            st = CADRE_FAIL(CADRE_ERESOURCE, "cannot remove %s: path too long", path);
        else
            st = cadre_remove_tree(cadre_join(inner, sizeof inner, path, names[i]));
    }
    cadre_names_free(&names, count);
    return st;
}

cadre_status cadre_remove_tree(const char *path) {
    struct stat s;
    int error = lstat(path, &s) == 0 ? 0 : errno;
    if (error == ENOENT || error == ENOTDIR) return CADRE_OK;
    CADRE_CHECK(!error, CADRE_ERESOURCE, "cannot remove %s: %s", path, strerror(error));
    if (S_ISDIR(s.st_mode)) CADRE_TRY(remove_inside(path));
    CADRE_CHECK(remove(path) == 0 || errno == ENOENT, CADRE_ERESOURCE, "cannot remove %s: %s", path,
                strerror(errno));
    return CADRE_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef struct name_list {
    char **at;
    int count, room;
} name_list;

static cadre_status add_name(name_list *list, const char *name) {
    if (list->count == list->room) {
        int room = list->room ? 2 * list->room : 16;
        CADRE_TRY(cadre_realloc(&list->at, CADRE_MEM_OTHER, (size_t)room * sizeof *list->at));
        list->room = room;
    }
    CADRE_TRY(cadre_strdup(&list->at[list->count], name));
    list->count++;
    return CADRE_OK;
}

cadre_status cadre_list_folder(const char *path, char ***ret_names, int *ret_count) {
    DIR *folder = opendir(path);
    CADRE_CHECK(folder, CADRE_EDATA, "cannot read the folder %s: %s", path, strerror(errno));
    name_list list = {0};
    cadre_status st = CADRE_OK;
    errno = 0;
    for (struct dirent *e; !st && (e = readdir(folder)); errno = 0)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            st = add_name(&list, e->d_name);
    if (!st && errno)
        st = CADRE_FAIL(CADRE_EDATA, "cannot read the folder %s: %s", path, strerror(errno));
    closedir(folder);
    if (st) {
        cadre_names_free(&list.at, list.count);
        return st;
    }
    if (list.count) qsort(list.at, (size_t)list.count, sizeof *list.at, by_name);
    *ret_names = list.at;
    *ret_count = list.count;
    return CADRE_OK;
}

void cadre_names_free(char ***names, int count) {
    for (int i = 0; i < count; i++) cadre_free(&(*names)[i]);
    cadre_free(names);
}
