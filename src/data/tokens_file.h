/* SPDX-License-Identifier: Apache-2.0
 *
 * Token files, little endian. With llm.c's header of 256 int32 (1,024 bytes): [0] magic 20240520,
 * [1] version 1, [2] number of tokens, then uint16; or magic 20240801, version 7, then uint32.
 * Without a header (nanoGPT): uint16 or uint32 alone.
 */
#ifndef CADRE_DATA_TOKENS_FILE_H
#define CADRE_DATA_TOKENS_FILE_H

#include "base/status.h"

typedef struct cadre_token_file {
    const void *data; /* into the bytes given */
    bool wide;        /* uint32 */
    int64_t count;
} cadre_token_file;

/* One of llm.c's magic numbers, also those of files that are not for training. */
bool cadre_token_file_has_header(const void *data, size_t bytes);
/* Wrong version, count or size, or another kind of file: CADRE_EDATA naming file and numbers. */
cadre_status cadre_token_file_read(cadre_token_file *ret_file, const void *data, size_t bytes,
                                   bool wide, const char *path);

/* The header of `count` tokens of 16 bits. */
enum { CADRE_TOKEN_HEADER = 1024 };
void cadre_token_file_header(void *ret_header, int32_t count);

#endif
