/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets over a span, started in backward order.
 *
 *   span      | block 0 | block 1 | block 2 | head |
 *   buckets    3         2         1         0        0 starts first, never 1 before it
 *
 * A bucket that is full waits for its turn; one whose turn it is waits until it is full. So every
 * rank posts the same operations in the same order, whatever the order in which its gradients come.
 */
#include "parallel/bucket.h"

#include <stdio.h>

#include "base/alloc.h"
#include "tensor/tensor.h"

typedef struct bucket {
    cadre_bucket_range range;
    int left; /* items not yet ready */
    cadre_work *work;
    char name[24];
} bucket;

struct cadre_buckets {
    cadre_comm *comm;
    const cadre_bucket_item *item;
    int items;
    int64_t length;
    cadre_dtype dtype, wire;
    char *gradients;
    bool overlap, held;
    bucket *at;
    int count;
    int next;   /* the bucket whose turn it is to start */
    int waited; /* buckets before it are done */
    struct {
        int bucket; /* -1: not wanted */
        bool ready;
    } * state; /* by item */
    cadre_bucket_fn *on_start;
    void *self;
};

/* ---- cutting ---- */

static int64_t offset_of(const cadre_buckets *b, int item) {
    return item < b->items ? b->item[item].offset : b->length;
}

static int64_t bytes_of(const cadre_buckets *b, int first, int end) {
    return (offset_of(b, end) - offset_of(b, first)) * (int64_t)cadre_dtype_size(b->dtype);
}

static bool same_block(const cadre_buckets *b, int item, int other) {
    return b->item[item].block == b->item[other].block && b->item[other].wanted;
}

/* The first item of the wanted run of item end - 1's block. */
static int block_start(const cadre_buckets *b, int end) {
    int first = end - 1;
    while (first > 0 && same_block(b, first, first - 1)) first--;
    return first;
}

/* The first item of the bucket that ends before `end`: whole blocks as long as they fit, else as
 * many items of the one block as fit, at least one. What an earlier cut has left of a block stays
 * by itself. */
static int bucket_start(const cadre_buckets *b, int end, int64_t limit) {
    bool rest = end < b->items && b->item[end].wanted && same_block(b, end, end - 1);
    int first = end;
    while (first > 0 && b->item[first - 1].wanted) {
        int start = block_start(b, first);
        if (bytes_of(b, start, end) > limit) break;
        first = start;
        if (rest) return first;
    }
    if (first < end) return first;
    first = end - 1;
    while (first > 0 && same_block(b, first, first - 1) && bytes_of(b, first - 1, end) <= limit)
        first--;
    return first;
}

static void add_bucket(cadre_buckets *b, int first, int end) {
    bucket *k = &b->at[b->count];
    k->range = (cadre_bucket_range){.first = offset_of(b, first),
                                    .end = offset_of(b, end),
                                    .first_param = first,
                                    .end_param = end};
    snprintf(k->name, sizeof k->name, "bucket %d", b->count);
    for (int i = first; i < end; i++) b->state[i].bucket = b->count;
    b->count++;
}

static void cut(cadre_buckets *b, int64_t bytes, int64_t first_bytes) {
    for (int end = b->items; end > 0;) {
        if (!b->item[end - 1].wanted) {
            b->state[--end].bucket = -1;
            continue;
        }
        int first = bucket_start(b, end, b->count == 0 ? first_bytes : bytes);
        add_bucket(b, first, end);
        end = first;
    }
}

cadre_status cadre_buckets_open(cadre_buckets **ret_buckets, cadre_comm *comm,
                                const cadre_bucket_item *items, int count, int64_t length,
                                cadre_dtype dtype, cadre_dtype wire, void *gradients, int64_t bytes,
                                int64_t first_bytes, bool overlap) {
    cadre_buckets *b = NULL;
    CADRE_TRY(cadre_alloc(&b, CADRE_MEM_OTHER, sizeof *b));
    b->comm = comm;
    b->item = items;
    b->items = count;
    b->length = length;
    b->dtype = dtype;
    b->wire = wire;
    b->gradients = gradients;
    b->overlap = overlap;
    cadre_status st = cadre_alloc_array(&b->state, CADRE_MEM_OTHER, count, sizeof *b->state);
    if (!st) st = cadre_alloc_array(&b->at, CADRE_MEM_OTHER, count, sizeof *b->at);
    if (st) {
        cadre_buckets_close(&b);
        return cadre_pass_at(__FILE__, __LINE__, __func__, st);
    }
    cut(b, bytes, first_bytes);
    cadre_buckets_begin(b, false);
    *ret_buckets = b;
    return CADRE_OK;
}

int cadre_buckets_count(const cadre_buckets *b) {
    return b->count;
}

const cadre_bucket_range *cadre_buckets_range(const cadre_buckets *b, int i) {
    return &b->at[i].range;
}

void cadre_buckets_on_start(cadre_buckets *b, cadre_bucket_fn *fn, void *self) {
    b->on_start = fn;
    b->self = self;
}

/* ---- a step ---- */

void cadre_work_drop(cadre_work **work) {
    cadre_error error;
    if (!*work) return;
    cadre_error_save(&error);
    (void)cadre_work_wait(work, 0);
    (void)cadre_error_restore(&error);
}

static void drop_works(cadre_buckets *b) {
    for (int i = 0; i < b->count; i++) cadre_work_drop(&b->at[i].work);
}

void cadre_buckets_begin(cadre_buckets *b, bool held) {
    drop_works(b);
    for (int i = 0; i < b->items; i++) b->state[i].ready = false;
    for (int i = 0; i < b->count; i++)
        b->at[i].left = b->at[i].range.end_param - b->at[i].range.first_param;
    b->next = b->waited = 0;
    b->held = held;
}

static char *data_of(const cadre_buckets *b, const bucket *k) {
    return b->gradients + (size_t)k->range.first * cadre_dtype_size(b->dtype);
}

static cadre_status start(cadre_buckets *b) {
    bucket *k = &b->at[b->next];
    int64_t n = k->range.end - k->range.first;
    char *data = data_of(b, k);
    if (b->on_start) b->on_start(b->self, b->next);
    b->next++;
    if (b->wire != b->dtype) cadre_narrow_in_place(data, n);
    return cadre_all_reduce(b->comm, data, data, n, b->wire, CADRE_SUM, k->name, &k->work);
}

static cadre_status start_full(cadre_buckets *b) {
    while (b->next < b->count && b->at[b->next].left == 0) CADRE_TRY(start(b));
    return CADRE_OK;
}

cadre_status cadre_buckets_release(cadre_buckets *b) {
    b->held = false;
    if (b->overlap) CADRE_TRY(start_full(b));
    return CADRE_OK;
}

cadre_status cadre_buckets_ready(cadre_buckets *b, int item) {
    CADRE_CHECK(item >= 0 && item < b->items && b->state[item].bucket >= 0, CADRE_EUSAGE,
                "gradient %d is not one of the %d that are reduced", item, b->items);
    CADRE_CHECK(!b->state[item].ready, CADRE_EUSAGE, "gradient %d was made ready twice in one step",
                item);
    b->state[item].ready = true;
    b->at[b->state[item].bucket].left--;
    if (b->overlap && !b->held) CADRE_TRY(start_full(b));
    return CADRE_OK;
}

cadre_status cadre_buckets_wait(cadre_buckets *b, cadre_deadline deadline, int *ret_missing) {
    for (int i = 0; i < b->items; i++) {
        if (b->state[i].bucket < 0 || b->state[i].ready) continue;
        *ret_missing = i;
        return CADRE_FAIL(CADRE_EUSAGE, "gradient %d was never made ready in this step", i);
    }
    b->held = false;
    CADRE_TRY(start_full(b));
    for (; b->waited < b->count; b->waited++) {
        bucket *k = &b->at[b->waited];
        CADRE_TRY(cadre_work_wait(&k->work, deadline));
        if (b->wire != b->dtype) cadre_widen_in_place(data_of(b, k), k->range.end - k->range.first);
    }
    return CADRE_OK;
}

bool cadre_buckets_all_started(const cadre_buckets *b) {
    return b->next == b->count;
}

bool cadre_buckets_in_flight(const cadre_buckets *b) {
    return b->waited < b->next;
}

bool cadre_buckets_is_ready(const cadre_buckets *b, int item) {
    return b->state[item].ready;
}

void cadre_buckets_close(cadre_buckets **b) {
    if (!*b) return;
    if ((*b)->at) drop_works(*b);
    cadre_free(&(*b)->state);
    cadre_free(&(*b)->at);
    cadre_free(b);
}
