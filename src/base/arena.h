/* SPDX-License-Identifier: Apache-2.0
 *
 * An arena: memory that is taken piece by piece and given back all at once. After a reset it holds
 * one block as large as the most ever taken, so that the second round allocates nothing. A dry
 * arena (for the meta backend) only counts: it hands out NULL.
 */
#ifndef CADRE_BASE_ARENA_H
#define CADRE_BASE_ARENA_H

#include "base/alloc.h"

typedef struct cadre_arena cadre_arena;

cadre_status cadre_arena_open(cadre_arena **ret_arena, cadre_mem kind, size_t first_bytes,
                              bool dry);
/* `ret_pointer` is the address of any pointer; 64-byte aligned, not zeroed; valid until reset. */
cadre_status cadre_arena_take(cadre_arena *a, size_t bytes, void *ret_pointer);
/* Gives everything taken back; merges the blocks into one. */
cadre_status cadre_arena_reset(cadre_arena *a);
size_t cadre_arena_used(const cadre_arena *a); /* since the reset, rounded to 64 a piece */
size_t cadre_arena_peak(const cadre_arena *a);
void cadre_arena_close(cadre_arena **a);

#endif
