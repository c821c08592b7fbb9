/* SPDX-License-Identifier: Apache-2.0
 *
 * A block is [header, 64 bytes][memory]; the header remembers category and size so that free can
 * count. A large block is a mapping of its own, so that its pages come zeroed, are huge ones where
 * the system has them, are only there once touched, and go back to the system with the block.
 */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "base/status.h"

typedef struct block {
    size_t bytes;
    size_t mapped; /* bytes of its mapping; 0: from the C library */
    cadre_mem kind;
} block;

enum { HEADER = 64, PAGE = 4096, LARGE = 4 << 20 /* two huge pages */ };
_Static_assert(sizeof(block) <= HEADER, "the header fits in front of the memory");

static _Atomic int64_t live[CADRE_MEM_KINDS], peak[CADRE_MEM_KINDS], allocations;

static const char *const names[CADRE_MEM_KINDS] = {
    "parameters", "gradients", "optimizer", "activations",
    "buckets",    "loader",    "workspace", "other",
};

const char *cadre_mem_name(cadre_mem kind) {
    return names[kind];
}

void cadre_mem_note(cadre_mem kind, int64_t add) {
    int64_t now = atomic_fetch_add(&live[kind], add) + add;
    int64_t most = atomic_load(&peak[kind]);
    while (now > most && !atomic_compare_exchange_weak(&peak[kind], &most, now)) {
    }
}

int64_t cadre_mem_live(cadre_mem kind) {
    return atomic_load(&live[kind]);
}

int64_t cadre_mem_peak(cadre_mem kind) {
    return atomic_load(&peak[kind]);
}

void cadre_mem_reset_peaks(void) {
    for (int i = 0; i < CADRE_MEM_KINDS; i++) atomic_store(&peak[i], atomic_load(&live[i]));
}

int64_t cadre_live_bytes(void) {
    int64_t sum = 0;
    for (int i = 0; i < CADRE_MEM_KINDS; i++)
        if (i != CADRE_MEM_WORKSPACE) sum += atomic_load(&live[i]);
    return sum;
}

int64_t cadre_mem_allocations(void) {
    return atomic_load(&allocations);
}

static block *header_of(void *memory) {
    return (block *)((char *)memory - HEADER);
}

/* The address of any pointer comes in as void *; copying its bytes keeps the compiler's aliasing
 * rules. */
static void *pointer_at(const void *pointer) {
    void *value;
    memcpy(&value, pointer, sizeof value);
    return value;
}

static void put_pointer(void *pointer, void *value) {
    memcpy(pointer, &value, sizeof value);
}

void cadre_mem_huge(void *memory, size_t bytes) {
    uintptr_t first = ((uintptr_t)memory + PAGE - 1) / PAGE * PAGE,
              end = ((uintptr_t)memory + bytes) / PAGE * PAGE;
    /* Where there are none, small ones do. */
    if (bytes >= LARGE) (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
}

/* A zeroed block of `whole` bytes with its header; NULL: no memory. */
static block *take(size_t whole) {
    if (whole < LARGE) {
        block *b = aligned_alloc(HEADER, whole);
        if (b) memset(b, 0, whole);
        return b;
    }
    block *b = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED) return NULL;
    cadre_mem_huge(b, whole);
    b->mapped = whole;
    return b;
}

cadre_status cadre_alloc(void *ret_pointer, cadre_mem kind, size_t bytes) {
    CADRE_CHECK(bytes <= PTRDIFF_MAX - 2 * HEADER, CADRE_ERESOURCE,
                "cannot allocate %zu bytes for %s", bytes, names[kind]);
    size_t whole = (bytes + HEADER + HEADER - 1) / HEADER * HEADER;
    block *b = cadre_fault_here() ? NULL : take(whole);
    CADRE_CHECK(b, CADRE_ERESOURCE, "out of memory: cannot allocate %zu bytes for %s", bytes,
                names[kind]);
    b->bytes = bytes;
    b->kind = kind;
    atomic_fetch_add(&allocations, 1);
    cadre_mem_note(kind, (int64_t)bytes);
    put_pointer(ret_pointer, (char *)b + HEADER);
    return CADRE_OK;
}

cadre_status cadre_alloc_array(void *ret_pointer, cadre_mem kind, int64_t count, size_t size) {
    CADRE_CHECK(count >= 0 && (size == 0 || (uint64_t)count <= SIZE_MAX / size), CADRE_ERESOURCE,
                "cannot allocate %lld times %zu bytes for %s", (long long)count, size, names[kind]);
    return cadre_alloc(ret_pointer, kind, (size_t)count * size);
}

cadre_status cadre_realloc(void *pointer, cadre_mem kind, size_t bytes) {
    void *old = pointer_at(pointer), *grown = NULL;
    CADRE_TRY(cadre_alloc(&grown, kind, bytes));
    if (old) {
        size_t kept = header_of(old)->bytes;
        memcpy(grown, old, kept < bytes ? kept : bytes);
        cadre_free(&old);
    }
    put_pointer(pointer, grown);
    return CADRE_OK;
}

void cadre_free(void *pointer) {
    void *memory = pointer_at(pointer);
    if (!memory) return;
    block *b = header_of(memory);
    cadre_mem_note(b->kind, -(int64_t)b->bytes);
    if (b->mapped)
        (void)munmap(b, b->mapped);
    else
        free(b);
    put_pointer(pointer, NULL);
}

cadre_status cadre_strdup(char **ret_copy, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = NULL;
    CADRE_TRY(cadre_alloc(&copy, CADRE_MEM_OTHER, bytes));
    memcpy(copy, text, bytes);
    *ret_copy = copy;
    return CADRE_OK;
}
