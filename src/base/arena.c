/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks in a list, newest first; a piece is cut from the newest. When a block is full the next is
 * twice as large. A reset keeps one block of the size of the peak.
 */
#include "base/arena.h"

#include <string.h>

#include "base/status.h"

typedef struct piece_block {
    struct piece_block *next;
    char *memory;
    size_t room, used;
} piece_block;

struct cadre_arena {
    piece_block *newest;
    cadre_mem kind;
    bool dry;
    size_t first_bytes, used, peak;
};

enum { ALIGN = 64 };

static cadre_status add_block(cadre_arena *a, size_t room) {
    piece_block *b = NULL;
    CADRE_TRY(cadre_alloc(&b, CADRE_MEM_OTHER, sizeof *b));
    cadre_status st = cadre_alloc(&b->memory, a->kind, room);
    if (st) {
        cadre_free(&b);
        return st;
    }
    b->room = room;
    b->next = a->newest;
    a->newest = b;
    return CADRE_OK;
}

static void drop_blocks(cadre_arena *a) {
    while (a->newest) {
        piece_block *b = a->newest;
        a->newest = b->next;
        cadre_free(&b->memory);
        cadre_free(&b);
    }
}

cadre_status cadre_arena_open(cadre_arena **ret_arena, cadre_mem kind, size_t first_bytes,
                              bool dry) {
    cadre_arena *a = NULL;
    CADRE_TRY(cadre_alloc(&a, CADRE_MEM_OTHER, sizeof *a));
    a->kind = kind;
    a->dry = dry;
    a->first_bytes = first_bytes;
    cadre_status st = !dry && first_bytes ? add_block(a, first_bytes) : CADRE_OK;
    if (st) {
        cadre_arena_close(&a);
        return st;
    }
    *ret_arena = a;
    return CADRE_OK;
}

cadre_status cadre_arena_take(cadre_arena *a, size_t bytes, void *ret_pointer) {
    CADRE_CHECK(bytes <= SIZE_MAX - ALIGN, CADRE_ERESOURCE, "cannot take %zu bytes for %s", bytes,
                cadre_mem_name(a->kind));
    size_t rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    void *piece = NULL;
    if (!a->dry) {
        piece_block *b = a->newest;
        if (!b || b->room - b->used < rounded) {
            size_t room = b ? 2 * b->room : a->first_bytes;
            CADRE_TRY(add_block(a, room > rounded ? room : rounded + ALIGN));
            b = a->newest;
        }
        piece = b->memory + b->used;
        b->used += rounded;
    }
    a->used += rounded;
    if (a->used > a->peak) a->peak = a->used;
    memcpy(ret_pointer, &piece, sizeof piece); /* the address of any pointer */
    return CADRE_OK;
}

cadre_status cadre_arena_reset(cadre_arena *a) {
    a->used = 0;
    if (!a->newest) return CADRE_OK;
    if (a->newest->next) { /* several blocks: one of the whole size replaces them */
        drop_blocks(a);
        return add_block(a, a->peak);
    }
    a->newest->used = 0;
    return CADRE_OK;
}

size_t cadre_arena_used(const cadre_arena *a) {
    return a->used;
}

size_t cadre_arena_peak(const cadre_arena *a) {
    return a->peak;
}

void cadre_arena_close(cadre_arena **a) {
    if (!*a) return;
    drop_blocks(*a);
    cadre_free(a);
}
