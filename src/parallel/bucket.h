/* SPDX-License-Identifier: Apache-2.0
 *
 * The bucket: the one mechanism of data parallelism. A bucket is a range of the span, some
 * consecutive whole blocks or a part of one block. It counts which of its parameters are ready in a
 * step; when all are, it is full and its gradients are reduced while the backward pass goes on.
 * Buckets start in one fixed order on every rank (backward order of the span), never in order of
 * readiness.
 *
 * ZeRO's stages differ only in which of a bucket's three states (gradients, optimizer state,
 * parameters) is sharded over dp; stage 0 shards none and reduces by all-reduce.
 */
#ifndef CADRE_PARALLEL_BUCKET_H
#define CADRE_PARALLEL_BUCKET_H

#include "comm/comm.h"

typedef struct cadre_bucket_range {
    int64_t first, end;         /* elements of the span */
    int first_param, end_param; /* ids in it */
} cadre_bucket_range;

typedef struct cadre_buckets cadre_buckets;

/* What buckets are made over: parameters in span order. */
typedef struct cadre_bucket_item {
    int64_t offset, count; /* in the span; ranges run to the next item's offset */
    int block;             /* items of one block stay together where they fit */
    bool wanted;           /* false: frozen, never becomes ready, has no gradient */
} cadre_bucket_item;

/* Cuts the items into buckets, from the last block to the first: at most `bytes` each (one item may
 * exceed it and is then alone), the first to become ready at most `first_bytes`. `gradients` is the
 * span's array, from cadre_comm_alloc or not. `length` elements in all. With `wire` bf16, f32
 * gradients are rounded before they travel, in their own place, and the sum once more. Items, comm
 * and gradients are borrowed. */
cadre_status cadre_buckets_open(cadre_buckets **ret_buckets, cadre_comm *comm,
                                const cadre_bucket_item *items, int count, int64_t length,
                                cadre_dtype dtype, cadre_dtype wire, void *gradients, int64_t bytes,
                                int64_t first_bytes, bool overlap);
int cadre_buckets_count(const cadre_buckets *b);
const cadre_bucket_range *cadre_buckets_range(const cadre_buckets *b,
                                              int i); /* in order of start */
/* `fn` is called with the index of each bucket right before it starts: all its items are complete
 * and still this rank's own. */
typedef void cadre_bucket_fn(void *self, int bucket);
void cadre_buckets_on_start(cadre_buckets *b, cadre_bucket_fn *fn, void *self);
/* A step: nothing is ready. `held`: nothing starts before cadre_buckets_release (when buckets of
 * another type come first in the fixed order). */
void cadre_buckets_begin(cadre_buckets *b, bool held);
cadre_status cadre_buckets_release(cadre_buckets *b);
/* Item `i` is complete on this rank: starts the buckets that are full and whose turn it is. Twice
 * in a step, or for one that is not wanted, is CADRE_EUSAGE. Local; any thread when the caller
 * locks.
 */
cadre_status cadre_buckets_ready(cadre_buckets *b, int item);
/* Collective. Starts what is left (without overlap: all), waits for all; the gradients are then
 * sums over the ranks. An item that was wanted and never became ready: CADRE_EUSAGE, `*ret_missing`
 * is its index. */
cadre_status cadre_buckets_wait(cadre_buckets *b, cadre_deadline deadline, int *ret_missing);
/* Local. Have all been started in this step? Is one of them still travelling, as far as is known?
 */
bool cadre_buckets_all_started(const cadre_buckets *b);
bool cadre_buckets_in_flight(const cadre_buckets *b);
/* Local. Was item `i` made ready in this step? */
bool cadre_buckets_is_ready(const cadre_buckets *b, int item);
void cadre_buckets_close(cadre_buckets **b);

/* Local. Gives up a work that a failed step left in flight; the thread's error stays the one that
 * made the step fail. NULL is fine. */
void cadre_work_drop(cadre_work **work);

#endif
