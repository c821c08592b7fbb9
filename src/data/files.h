/* SPDX-License-Identifier: Apache-2.0
 *
 * What data.train and data.valid name: files in order, whole texts, runs of tokens out of token
 * files.
 */
#ifndef CADRE_DATA_FILES_H
#define CADRE_DATA_FILES_H

#include "base/file.h"
#include "data/corpus.h"

typedef struct cadre_paths {
    char **at;
    int count;
} cadre_paths;

/* Folders become their regular files, sorted by name, without hidden ones and *.tokenizer.json. An
 * empty or missing file, a folder without files: CADRE_EDATA. */
cadre_status cadre_paths_open(cadre_paths *ret_paths, const cadre_list *list);
void cadre_paths_close(cadre_paths *paths);
/* Whether the files are token files (named *.bin or with llm.c's header, unless `format` says).
 * Both kinds in one list are CADRE_EDATA. */
cadre_status cadre_paths_are_tokens(const cadre_paths *paths, int format, bool *ret_tokens);

/* The tokenizer that `spec` names (tokenizer.h); `char` takes the characters of the files of all
 * lists, each checked by itself, for the complaint. */
cadre_status cadre_paths_tokenizer(cadre_tokenizer **ret_tokenizer, const char *spec,
                                   const cadre_paths *const *lists, int count);
/* X.tokenizer.json for X.bin, whether it is there or not; returns `ret_path`. "" where it does not
 * fit. */
char *cadre_tokenizer_beside(char ret_path[CADRE_PATH], const char *path);

/* Files joined: one is mapped, several are copied. */
typedef struct cadre_file_text {
    const char *at;
    size_t bytes;
    cadre_map map;
    char *joined;
} cadre_file_text;
cadre_status cadre_file_text_open(cadre_file_text *ret_text, const cadre_paths *paths);
void cadre_file_text_close(cadre_file_text *text);

/* A run of tokens and what holds its memory. */
typedef struct cadre_held_run {
    cadre_run_of_tokens run;
    cadre_map map;
    void *owned;
} cadre_held_run;
/* Token files joined: one is mapped, several are copied. `dtype` is that of files without header:
 * 0 uint16, 1 uint32. */
cadre_status cadre_token_files_open(cadre_held_run *ret_run, const cadre_paths *paths, int dtype);
/* Takes the ids: kept as uint16 where the vocabulary allows that. */
cadre_status cadre_held_run_take(cadre_held_run *ret_run, cadre_tokens *take, int64_t vocab);
void cadre_held_run_close(cadre_held_run *run);
/* The largest id of the run, which may not be negative as int32: `label` for the complaint. */
cadre_status cadre_run_largest(cadre_run_of_tokens *run, const char *label);

#endif
