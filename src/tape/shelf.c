/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks of 64 things; a chunk is made when the first thing in it is wanted and never moves.
 */
#include "tape/shelf.h"

#include <string.h>

#include "base/status.h"

static cadre_status add_chunk(cadre_shelf *s) {
    if (s->chunks == s->room) {
        int room = s->room ? 2 * s->room : 8;
        CADRE_TRY(cadre_realloc(&s->chunk, CADRE_MEM_OTHER, (size_t)room * sizeof *s->chunk));
        s->room = room;
    }
    CADRE_TRY(cadre_alloc_array(&s->chunk[s->chunks], CADRE_MEM_OTHER, CADRE_SHELF_CHUNK, s->size));
    s->chunks++;
    return CADRE_OK;
}

cadre_status cadre_shelf_add(cadre_shelf *s, void *ret_thing) {
    if (s->count == s->chunks * CADRE_SHELF_CHUNK) CADRE_TRY(add_chunk(s));
    void *thing = cadre_shelf_at(s, s->count++);
    memset(thing, 0, s->size);
    memcpy(ret_thing, &thing, sizeof thing); /* the address of any pointer */
    return CADRE_OK;
}

cadre_status cadre_shelf_reserve(cadre_shelf *s, const cadre_shelf *other) {
    while (s->chunks < other->chunks) CADRE_TRY(add_chunk(s));
    return CADRE_OK;
}

void cadre_shelf_free(cadre_shelf *s) {
    for (int i = 0; i < s->chunks; i++) cadre_free(&s->chunk[i]);
    cadre_free(&s->chunk);
    s->chunks = s->room = s->count = 0;
}
