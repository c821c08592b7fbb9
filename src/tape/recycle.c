/* SPDX-License-Identifier: Apache-2.0
 *
 * Best fit with cutting and joining. A piece that is cut leaves its rest as a free neighbour;
 * neighbours that are both free are joined again.
 *
 *   take 4C, give it, take C        [ C | 3C free ]        give C        [ 4C free ]
 */
#include "tape/recycle.h"

#include "base/status.h"

enum { ALIGN = 64 };

static void list_add(cadre_recycler *r, cadre_piece *p) {
    p->free = true;
    p->up = NULL;
    p->down = r->free;
    if (r->free) r->free->up = p;
    r->free = p;
}

static void list_remove(cadre_recycler *r, cadre_piece *p) {
    p->free = false;
    if (p->up) p->up->down = p->down;
    if (p->down) p->down->up = p->up;
    if (r->free == p) r->free = p->down;
}

static cadre_status cut(cadre_recycler *r, cadre_piece *p, size_t bytes) {
    cadre_piece *rest = NULL;
    if (p->bytes == bytes) return CADRE_OK;
    CADRE_TRY(cadre_shelf_add(&r->pieces, &rest));
    rest->bytes = p->bytes - bytes;
    rest->data = p->data ? p->data + bytes : NULL;
    rest->before = p;
    rest->after = p->after;
    if (rest->after) rest->after->before = rest;
    p->after = rest;
    p->bytes = bytes;
    list_add(r, rest);
    return CADRE_OK;
}

static cadre_piece *best_fit(const cadre_recycler *r, size_t bytes) {
    cadre_piece *best = NULL;
    for (cadre_piece *p = r->free; p; p = p->down)
        if (p->bytes >= bytes && (!best || p->bytes < best->bytes)) best = p;
    return best;
}

cadre_status cadre_recycler_open(cadre_recycler *r, size_t first_bytes, bool dry) {
    *r = (cadre_recycler){.dry = dry, .pieces = {.size = sizeof(cadre_piece)}};
    return cadre_arena_open(&r->arena, CADRE_MEM_ACTIVATIONS, first_bytes, dry);
}

cadre_status cadre_recycler_take(cadre_recycler *r, size_t bytes, cadre_piece **ret_piece) {
    CADRE_CHECK(bytes <= SIZE_MAX / 2, CADRE_ERESOURCE, "cannot take %zu bytes for activations",
                bytes);
    size_t rounded = bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    cadre_piece *p = best_fit(r, rounded);
    if (p) {
        CADRE_TRY(cut(r, p, rounded));
        list_remove(r, p);
    } else {
        CADRE_TRY(cadre_shelf_add(&r->pieces, &p));
        p->bytes = rounded;
        CADRE_TRY(cadre_arena_take(r->arena, rounded, &p->data));
    }
    p->holders = 1;
    *ret_piece = p;
    return CADRE_OK;
}

/* `p` takes in its free neighbour `next`. */
static void join(cadre_recycler *r, cadre_piece *p, cadre_piece *next) {
    list_remove(r, next);
    p->bytes += next->bytes;
    p->after = next->after;
    if (p->after) p->after->before = p;
}

void cadre_recycler_give(cadre_recycler *r, cadre_piece **piece) {
    cadre_piece *p = *piece;
    *piece = NULL;
    if (!p || --p->holders > 0) return;
    if (p->after && p->after->free) join(r, p, p->after);
    if (p->before && p->before->free) {
        cadre_piece *first = p->before;
        first->bytes += p->bytes;
        first->after = p->after;
        if (first->after) first->after->before = first;
        return;
    }
    list_add(r, p);
}

cadre_status cadre_recycler_reset(cadre_recycler *r) {
    r->free = NULL;
    cadre_shelf_clear(&r->pieces);
    return cadre_arena_reset(r->arena);
}

void cadre_recycler_close(cadre_recycler *r) {
    cadre_shelf_free(&r->pieces);
    cadre_arena_close(&r->arena);
    r->free = NULL;
}
