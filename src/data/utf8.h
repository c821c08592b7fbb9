/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF).
 */
#ifndef CADRE_DATA_UTF8_H
#define CADRE_DATA_UTF8_H

#include "base/status.h"

/* The character that begins at `at`, of which `left` >= 1 bytes are there: its length, 0 when it is
 * not valid. */
int cadre_utf8_next(const char *at, size_t left, uint32_t *ret_point);
/* Writes the character; returns its length. */
int cadre_utf8_put(char ret_bytes[4], uint32_t point);
/* How many of the bytes, from the first on, are valid. */
size_t cadre_utf8_valid(const char *text, size_t bytes);
/* Of valid text: the number of characters, and where character `n` begins. */
int64_t cadre_utf8_count(const char *text, size_t bytes);
size_t cadre_utf8_offset(const char *text, size_t bytes, int64_t n);
/* CADRE_EDATA for invalid bytes at `offset`: names label, offset and bytes. */
cadre_status cadre_utf8_refuse(const char *text, size_t bytes, size_t offset, const char *label);

#endif
