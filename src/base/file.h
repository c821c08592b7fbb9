/* SPDX-License-Identifier: Apache-2.0
 *
 * Files: mapped for reading, and whole or absent when written. Errors name the path and the
 * system's reason; a missing or unreadable file is CADRE_EDATA, one that cannot be written
 * CADRE_ERESOURCE.
 */
#ifndef CADRE_BASE_FILE_H
#define CADRE_BASE_FILE_H

#include <cadre/base.h>

typedef struct cadre_map {
    const uint8_t *data; /* a valid pointer also for an empty file */
    size_t bytes;
    bool mapped;
} cadre_map;

cadre_status cadre_map_open(cadre_map *ret_map, const char *path);
void cadre_map_close(cadre_map *map);

bool cadre_path_is_folder(const char *path);
bool cadre_path_is_file(const char *path);
/* Both are there and are one file, whatever they are called. */
bool cadre_path_same(const char *a, const char *b);
cadre_status cadre_mkdirs(const char *path);
/* Writes PATH.tmp-PID, fsyncs, renames over `path`, fsyncs the folder. */
cadre_status cadre_file_replace(const char *path, const void *data, size_t bytes);
cadre_status cadre_fsync_path(const char *path); /* a file or a folder */
cadre_status cadre_fsync_folder_of(const char *path);
/* write(2) until all is out; fault point. `path` for the message. */
cadre_status cadre_write_all(int fd, const void *data, size_t bytes, const char *path);
cadre_status cadre_remove_tree(const char *path); /* a folder and all in it; absent is fine */
/* The names in a folder, sorted, without . and .. ; free with cadre_names_free. */
cadre_status cadre_list_folder(const char *path, char ***ret_names, int *ret_count);
void cadre_names_free(char ***names, int count);
/* dir + "/" + name into `ret_path`; returns it. "" where it does not fit: no file has that name. */
char *cadre_join(char *ret_path, size_t room, const char *dir, const char *name);

enum { CADRE_PATH = 4096 };

#endif
