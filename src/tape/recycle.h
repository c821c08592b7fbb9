/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of one pass that is given back and taken again before the pass ends: pieces of an arena.
 * What is taken depends on the sizes asked for and their order alone, never on addresses, so a dry
 * pass counts exactly what a real one holds.
 */
#ifndef CADRE_TAPE_RECYCLE_H
#define CADRE_TAPE_RECYCLE_H

#include "base/arena.h"
#include "tape/shelf.h"

typedef struct cadre_piece {
    char *data; /* 64-byte aligned; NULL in a dry pass */
    size_t bytes;
    struct cadre_piece *before, *after; /* neighbours that were one piece once */
    struct cadre_piece *up, *down;      /* in the list of free pieces, the latest given first */
    int holders; /* tensors that share it; it is free when the last gives it back */
    bool free;
} cadre_piece;

typedef struct cadre_recycler {
    cadre_arena *arena;
    cadre_shelf pieces;
    cadre_piece *free;
    bool dry;
    size_t reserved;    /* bytes, before the first pass */
    const void *holder; /* the tape whose pass lies in it */
} cadre_recycler;

cadre_status cadre_recycler_open(cadre_recycler *r, size_t first_bytes, bool dry);
/* The smallest free piece that fits, cut to size; else a new one. Not zeroed. */
cadre_status cadre_recycler_take(cadre_recycler *r, size_t bytes, cadre_piece **ret_piece);
/* One more holder; each gives it back once. */
static inline cadre_piece *cadre_recycler_share(cadre_piece *p) {
    if (p) p->holders++;
    return p;
}
/* Gives `*piece` back and sets it to NULL; NULL is fine. */
void cadre_recycler_give(cadre_recycler *r, cadre_piece **piece);
cadre_status cadre_recycler_reset(cadre_recycler *r); /* gives everything back */
void cadre_recycler_close(cadre_recycler *r);

#endif
