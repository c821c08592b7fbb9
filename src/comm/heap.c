/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator of a rank's own heap: first fit over a list of free blocks in address order,
 * neighbours joined. Each allocation is [header, 64 bytes][memory]. Pages of freed memory go back
 * to the system.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "comm/world.h"

enum { PAGE = 4096, GIVE_BACK = 1 << 20 }; /* smaller free blocks keep their pages */

static cadre_segment *own(const cadre_world *w) {
    return &w->segment[w->rank];
}

bool cadre_heap_owns(const cadre_world *w, const void *pointer) {
    const char *p = pointer;
    return p >= own(w)->base && p < own(w)->base + own(w)->bytes;
}

static size_t take(cadre_world *w, size_t bytes) {
    for (int i = 0; i < w->block_count; i++) {
        cadre_free_block *b = &w->blocks[i];
        if (b->bytes < bytes) continue;
        size_t at = b->at;
        b->at += bytes;
        b->bytes -= bytes;
        if (b->bytes == 0) memmove(b, b + 1, (size_t)(--w->block_count - i) * sizeof *b);
        return at;
    }
    if (own(w)->bytes - w->top < bytes) return SIZE_MAX;
    w->top += bytes;
    return w->top - bytes;
}

/* Room in the list for one more free block than there will be allocations: giving back never fails.
 */
static cadre_status make_room(cadre_world *w) {
    if (w->allocations + 2 <= w->block_room) return CADRE_OK;
    int room = w->block_room ? 2 * w->block_room : 64;
    CADRE_TRY(cadre_realloc(&w->blocks, CADRE_MEM_OTHER, (size_t)room * sizeof *w->blocks));
    w->block_room = room;
    return CADRE_OK;
}

cadre_status cadre_heap_alloc(cadre_world *w, size_t bytes, void **ret_pointer) {
    CADRE_CHECK(!cadre_fault_here() && bytes < SIZE_MAX / 2, CADRE_ERESOURCE,
                "out of memory: cannot allocate %zu bytes that travel", bytes);
    size_t whole = (bytes + 2 * CADRE_LINE - 1) / CADRE_LINE * CADRE_LINE;
    pthread_mutex_lock(&w->lock);
    cadre_status st = make_room(w);
    size_t at = st ? SIZE_MAX : take(w, whole);
    w->allocations += at != SIZE_MAX;
    pthread_mutex_unlock(&w->lock);
    if (st) return st;
    CADRE_CHECK(at != SIZE_MAX, CADRE_ERESOURCE,
                "out of memory: %zu bytes that travel do not fit this rank's heap of %zu bytes",
                bytes, own(w)->bytes);
    char *block = own(w)->base + at;
    memcpy(block, &whole, sizeof whole);
    cadre_mem_huge(block, whole);
    memset(block + CADRE_LINE, 0, whole - CADRE_LINE);
    *ret_pointer = block + CADRE_LINE;
    return CADRE_OK;
}

/* Puts [at, at + bytes) into the list; joins it with its neighbours. */
static void put_back(cadre_world *w, size_t at, size_t bytes) {
    int i = 0;
    while (i < w->block_count && w->blocks[i].at < at) i++;
    cadre_free_block *b = &w->blocks[i];
    bool joins_left = i > 0 && b[-1].at + b[-1].bytes == at;
    bool joins_right = i < w->block_count && at + bytes == b->at;
    if (joins_left && joins_right) {
        b[-1].bytes += bytes + b->bytes;
        memmove(b, b + 1, (size_t)(--w->block_count - i) * sizeof *b);
    } else if (joins_left) {
        b[-1].bytes += bytes;
    } else if (joins_right) {
        b->at = at;
        b->bytes += bytes;
    } else {
        memmove(b + 1, b, (size_t)(w->block_count++ - i) * sizeof *b);
        *b = (cadre_free_block){at, bytes};
    }
}

void cadre_heap_free(cadre_world *w, void *pointer) {
    if (!pointer) return;
    char *block = (char *)pointer - CADRE_LINE;
    size_t whole;
    memcpy(&whole, block, sizeof whole);
    if (whole >= GIVE_BACK) { /* whole pages inside the block */
        uintptr_t first = ((uintptr_t)block + PAGE - 1) / PAGE * PAGE,
                  end = ((uintptr_t)block + whole) / PAGE * PAGE;
        /* The first is for memory that processes share, the second for memory of one. */
        if (madvise((void *)first, end - first, MADV_REMOVE))
            (void)madvise((void *)first, end - first, MADV_DONTNEED);
    }
    pthread_mutex_lock(&w->lock);
    w->allocations--;
    put_back(w, (size_t)(block - own(w)->base), whole);
    pthread_mutex_unlock(&w->lock);
}
