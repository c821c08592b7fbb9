/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of files and folders, and whole texts out of them.
 */
#include "data/files.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "data/tokenizer_private.h"
#include "data/tokens_file.h"

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static cadre_status add_file(cadre_paths *paths, const char *path) {
    size_t n = (size_t)paths->count;
    CADRE_TRY(cadre_realloc(&paths->at, CADRE_MEM_OTHER, (n + 1) * sizeof *paths->at));
    CADRE_TRY(cadre_strdup(&paths->at[n], path));
    paths->count++;
    cadre_map map;
    CADRE_TRY(cadre_map_open(&map, path));
    bool empty = map.bytes == 0;
    cadre_map_close(&map);
    CADRE_CHECK(!empty, CADRE_EDATA, "%s is empty", path);
    return CADRE_OK;
}

static cadre_status add_folder(cadre_paths *paths, const char *folder) {
    char **names = NULL, path[CADRE_PATH];
    int count = 0, before = paths->count;
    cadre_status st = cadre_list_folder(folder, &names, &count);
    for (int i = 0; !st && i < count; i++) {
        if (names[i][0] == '.' || ends_with(names[i], ".tokenizer.json")) continue;
        if (cadre_path_is_file(cadre_join(path, sizeof path, folder, names[i])))
            st = add_file(paths, path);
    }
    cadre_names_free(&names, count);
    if (!st && paths->count == before)
        st = CADRE_FAIL(CADRE_EDATA, "the folder %s has no files to read", folder);
    return st;
}

cadre_status cadre_paths_open(cadre_paths *ret_paths, const cadre_list *list) {
    cadre_paths paths = {0};
    cadre_status st = CADRE_OK;
    for (int i = 0; !st && i < list->count; i++)
        st = cadre_path_is_folder(list->at[i]) ? add_folder(&paths, list->at[i])
                                               : add_file(&paths, list->at[i]);
    if (st) {
        cadre_paths_close(&paths);
        return st;
    }
    *ret_paths = paths;
    return CADRE_OK;
}

void cadre_paths_close(cadre_paths *paths) {
    cadre_names_free(&paths->at, paths->count);
    paths->count = 0;
}

static cadre_status is_tokens(const char *path, bool *ret_tokens) {
    cadre_map map;
    CADRE_TRY(cadre_map_open(&map, path));
    *ret_tokens = ends_with(path, ".bin") || cadre_token_file_has_header(map.data, map.bytes);
    cadre_map_close(&map);
    return CADRE_OK;
}

cadre_status cadre_paths_are_tokens(const cadre_paths *paths, int format, bool *ret_tokens) {
    bool tokens = false, first = format == CADRE_DATA_TOKENS;
    for (int i = 0; format == CADRE_DATA_AUTO && i < paths->count; i++) {
        CADRE_TRY(is_tokens(paths->at[i], &tokens));
        if (i == 0) first = tokens;
        CADRE_CHECK(tokens == first, CADRE_EDATA,
                    "%s looks like %s and %s like %s; files joined are of one kind, which "
                    "data.format=text or tokens can say",
                    paths->at[0], first ? "tokens" : "text", paths->at[i],
                    tokens ? "tokens" : "text");
    }
    *ret_tokens = first;
    return CADRE_OK;
}

/* ---- tokenizers ---- */

static cadre_status add_files(cadre_alphabet *alphabet, const cadre_paths *paths) {
    for (int i = 0; i < paths->count; i++) {
        cadre_map map;
        CADRE_TRY(cadre_map_open(&map, paths->at[i]));
        cadre_status st =
            cadre_alphabet_add(alphabet, (const char *)map.data, map.bytes, paths->at[i]);
        cadre_map_close(&map);
        if (st) return st;
    }
    return CADRE_OK;
}

cadre_status cadre_paths_tokenizer(cadre_tokenizer **ret_tokenizer, const char *spec,
                                   const cadre_paths *const *lists, int count) {
    if (strcmp(spec, "char") != 0) return cadre_tokenizer_open(ret_tokenizer, spec, NULL, 0, "");
    cadre_alphabet *alphabet = NULL;
    CADRE_TRY(cadre_alloc(&alphabet, CADRE_MEM_OTHER, sizeof *alphabet));
    cadre_status st = CADRE_OK;
    for (int i = 0; !st && i < count; i++) st = add_files(alphabet, lists[i]);
    if (!st) st = cadre_char_open(ret_tokenizer, alphabet);
    cadre_free(&alphabet);
    return st;
}

char *cadre_tokenizer_beside(char ret_path[CADRE_PATH], const char *path) {
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    int stem = (int)(dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path));
    int n = snprintf(ret_path, CADRE_PATH, "%.*s.tokenizer.json", stem, path);
    if (n < 0 || n >= CADRE_PATH) ret_path[0] = '\0';
    return ret_path;
}

/* ---- text ---- */

static cadre_status append(cadre_file_text *text, const char *path) {
    cadre_map map;
    CADRE_TRY(cadre_map_open(&map, path));
    cadre_status st = cadre_realloc(&text->joined, CADRE_MEM_LOADER, text->bytes + map.bytes);
    if (!st) memcpy(text->joined + text->bytes, map.data, map.bytes);
    if (!st) text->bytes += map.bytes;
    cadre_map_close(&map);
    return st;
}

cadre_status cadre_file_text_open(cadre_file_text *ret_text, const cadre_paths *paths) {
    cadre_file_text text = {0};
    cadre_status st = CADRE_OK;
    if (paths->count == 1) {
        st = cadre_map_open(&text.map, paths->at[0]);
        text.at = (const char *)text.map.data;
        text.bytes = text.map.bytes;
    } else {
        for (int i = 0; !st && i < paths->count; i++) st = append(&text, paths->at[i]);
        text.at = text.joined ? text.joined : "";
    }
    if (st) {
        cadre_file_text_close(&text);
        return st;
    }
    *ret_text = text;
    return CADRE_OK;
}

void cadre_file_text_close(cadre_file_text *text) {
    cadre_free(&text->joined);
    cadre_map_close(&text->map);
    text->at = NULL;
    text->bytes = 0;
}
