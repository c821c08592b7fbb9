/* SPDX-License-Identifier: Apache-2.0
 *
 * A shelf: things of one size whose addresses stay, counted from 0. Emptied in one go; its memory
 * is kept for the next round.
 */
#ifndef CADRE_TAPE_SHELF_H
#define CADRE_TAPE_SHELF_H

#include "base/alloc.h"

enum { CADRE_SHELF_CHUNK = 64 };

typedef struct cadre_shelf {
    size_t size; /* bytes a thing; set by the owner, the rest starts at zero */
    char **chunk;
    int chunks, room;
    int count;
} cadre_shelf;

/* `ret_thing` is the address of any pointer; the new thing is zeroed. */
cadre_status cadre_shelf_add(cadre_shelf *s, void *ret_thing);
static inline void *cadre_shelf_at(const cadre_shelf *s, int i) {
    return s->chunk[i / CADRE_SHELF_CHUNK] + (size_t)(i % CADRE_SHELF_CHUNK) * s->size;
}
static inline void cadre_shelf_clear(cadre_shelf *s) {
    s->count = 0;
}
/* Takes as much memory as `other` has. */
cadre_status cadre_shelf_reserve(cadre_shelf *s, const cadre_shelf *other);
void cadre_shelf_free(cadre_shelf *s);

#endif
