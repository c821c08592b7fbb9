/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory by category, counted: the plan predicts these numbers and the end of a run compares. The
 * counters are the process's own (ranks as threads share them). Every allocation is a fault point
 * (base/fault.h).
 */
#ifndef CADRE_BASE_ALLOC_H
#define CADRE_BASE_ALLOC_H

#include <cadre/base.h>

typedef enum cadre_mem {
    CADRE_MEM_PARAMETERS,
    CADRE_MEM_GRADIENTS,
    CADRE_MEM_OPTIMIZER,
    CADRE_MEM_ACTIVATIONS,
    CADRE_MEM_BUCKETS, /* staging, gathered blocks, anything communication needs of its own */
    CADRE_MEM_LOADER,
    CADRE_MEM_WORKSPACE, /* scratch of libraries and kernels */
    CADRE_MEM_OTHER,
    CADRE_MEM_KINDS
} cadre_mem;

/* `ret_pointer` is the address of any pointer. The memory is zeroed and aligned to 64 bytes; 0
 * bytes give a valid, distinct pointer. CADRE_ERESOURCE names category and size. */
cadre_status cadre_alloc(void *ret_pointer, cadre_mem kind, size_t bytes);
/* `count` times `size` bytes; an overflow of the product is CADRE_ERESOURCE. */
cadre_status cadre_alloc_array(void *ret_pointer, cadre_mem kind, int64_t count, size_t size);
/* Grows or shrinks what `*pointer` points to (NULL: a new allocation); new bytes are zero. On
 * failure the old block stays. */
cadre_status cadre_realloc(void *pointer, cadre_mem kind, size_t bytes);
/* Frees what `*pointer` points to and sets it to NULL; NULL is fine. */
void cadre_free(void *pointer);
cadre_status cadre_strdup(char **ret_copy, const char *text);

/* Asks for huge pages under memory that comes from elsewhere; small ranges stay as they are. */
void cadre_mem_huge(void *memory, size_t bytes);
/* Counts memory that comes from elsewhere (a mapped heap, a library's workspace): add > 0 or < 0
 * bytes. */
void cadre_mem_note(cadre_mem kind, int64_t add);
int64_t cadre_mem_live(cadre_mem kind);
int64_t cadre_mem_peak(cadre_mem kind);
void cadre_mem_reset_peaks(void);
/* Of all kinds but workspace, which belongs to threads and stays until they end. */
int64_t cadre_live_bytes(void);
int64_t cadre_mem_allocations(void); /* how often memory was taken so far */
const char *cadre_mem_name(cadre_mem kind);

#endif
