/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3 (xxHash), 64 bits. Values are part of file formats (checksums) and of comparisons over
 * ranks. SHA-256 is there to compare data with what its publishers say.
 */
#ifndef CADRE_BASE_HASH_H
#define CADRE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t cadre_hash(const void *data, size_t bytes, uint64_t seed);
uint64_t cadre_hash_text(const char *text); /* seed 0 */
typedef struct cadre_hasher
    cadre_hasher; /* streaming; same value as cadre_hash over the joined bytes */
int cadre_hasher_open(cadre_hasher **ret_hasher);
void cadre_hasher_add(cadre_hasher *h, const void *data, size_t bytes);
uint64_t cadre_hasher_value(const cadre_hasher *h);
void cadre_hasher_close(cadre_hasher **h);

/* 64 hexadecimal digits; returns `ret_hex`. Needs no memory. */
char *cadre_sha256(char ret_hex[65], const void *data, size_t bytes);

#endif
