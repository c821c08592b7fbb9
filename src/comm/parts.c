/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank does in a collective, once all descriptors agree. n bytes, P ranks; every rank reads
 * peers' memory where it lies.
 *
 *   all_reduce, <= 512 bytes  everyone adds up all P inputs     read n P, written n; one exchange
 *   all_reduce                rank r adds up slice r, writes it to all P outputs
 *                                                               read n, written n; two exchanges
 *       P=2, rank 0:  out0[0..n/2) = out1[0..n/2) = in0[0..n/2) + in1[0..n/2)
 *   reduce_scatter            rank r adds up part r for itself  read n P, written n
 *   all_gather                everyone copies every input       read n P, written n P
 *   broadcast                 everyone copies the root's        read n, written n
 *   all_to_all                rank r copies part r of each      read n P, written n P
 *
 * Sums go along the tree T over the ranks in all of them, so every way gives the same bits.
 */
#include <string.h>

#include "comm/engine.h"
#include "comm/reduce.h"

enum {
    SLICE_STEP = 16, /* slices begin on cache lines */
    LARGE = 32 << 20 /* bytes of an operation that no cache keeps anyway */
};

static void *peer_memory(const cadre_work *w, int member, uint64_t place) {
    const cadre_comm *c = w->comm;
    return c->world->segment[c->world_rank[member]].base + place - 1;
}

static const cadre_descriptor *descriptor_of(const cadre_work *w, int member) {
    return &cadre_control_member(w->comm->control, member)->ring[w->sequence % CADRE_RING];
}

const void *cadre_comm_input(const cadre_work *w, int member) {
    const cadre_descriptor *d = descriptor_of(w, member);
    return d->in ? peer_memory(w, member, d->in)
                 : cadre_control_slot(w->comm->control, member, w->sequence);
}

static void *output_of(const cadre_work *w, int member) {
    const cadre_descriptor *d = descriptor_of(w, member);
    return d->out ? peer_memory(w, member, d->out)
                  : cadre_control_slot(w->comm->control, member, w->sequence);
}

bool cadre_call_reads_peers(const cadre_work *w) {
    return !w->eager && w->call.kind != CADRE_CALL_BARRIER;
}

static int64_t slice_begin(const cadre_work *w, int64_t rank) {
    int64_t steps = (w->call.count + SLICE_STEP - 1) / SLICE_STEP;
    int64_t at = steps * rank / w->comm->size * SLICE_STEP;
    return at < w->call.count ? at : w->call.count;
}

/* Elements [at, at + n) of the inputs from `shift` on into `outs`. */
static void reduce(const cadre_work *w, int64_t shift, int64_t at, int64_t n, bool everywhere) {
    const void *ins[CADRE_RANKS_MAX];
    void *outs[CADRE_RANKS_MAX] = {(char *)w->out +
                                   (size_t)at * cadre_dtype_size((cadre_dtype)w->call.dtype)};
    size_t size = cadre_dtype_size((cadre_dtype)w->call.dtype);
    for (int m = 0; m < w->comm->size; m++) {
        ins[m] = (const char *)cadre_comm_input(w, m) + (size_t)(shift + at) * size;
        if (everywhere) outs[m] = (char *)output_of(w, m) + (size_t)at * size;
    }
    cadre_reduce((cadre_dtype)w->call.dtype, (cadre_reduction)w->call.op, ins, w->comm->size, outs,
                 everywhere ? w->comm->size : 1, n, (size_t)w->call.count * size >= LARGE);
}

/* Copies elements [at, at + n) of member m's input, from `shift` on, to place `to` of the output.
 */
static void copy(const cadre_work *w, int m, int64_t shift, int64_t at, int64_t n, int64_t to) {
    size_t size = cadre_dtype_size((cadre_dtype)w->call.dtype);
    const char *from = (const char *)cadre_comm_input(w, m) + (size_t)(shift + at) * size;
    char *out = (char *)w->out + (size_t)(to + at) * size;
    if (from != out) memmove(out, from, (size_t)n * size);
}

/* My part is elements [0, length) of a range; does [cursor, cursor + n). */
static int64_t length_of(const cadre_work *w) {
    int64_t count = w->call.count, rank = w->comm->rank;
    switch (w->call.kind) {
    case CADRE_CALL_ALL_REDUCE:
        return w->eager ? count : slice_begin(w, rank + 1) - slice_begin(w, rank);
    case CADRE_CALL_REDUCE_SCATTER:
        return count;
    case CADRE_CALL_BROADCAST:
        return rank == w->call.root ? 0 : count;
    case CADRE_CALL_ALL_GATHER:
    case CADRE_CALL_ALL_TO_ALL:
        return count * w->comm->size;
    default:
        return 0;
    }
}

static void do_range(const cadre_work *w, int64_t at, int64_t n) {
    int64_t count = w->call.count, rank = w->comm->rank;
    switch (w->call.kind) {
    case CADRE_CALL_ALL_REDUCE:
        reduce(w, 0, (w->eager ? 0 : slice_begin(w, rank)) + at, n, !w->eager);
        break;
    case CADRE_CALL_REDUCE_SCATTER:
        reduce(w, rank * count, at, n, false);
        break;
    case CADRE_CALL_BROADCAST:
        copy(w, w->call.root, 0, at, n, 0);
        break;
    case CADRE_CALL_ALL_GATHER:
        copy(w, (int)(at / count), 0, at % count, n, at / count * count);
        break;
    case CADRE_CALL_ALL_TO_ALL:
        copy(w, (int)(at / count), rank * count, at % count, n, at / count * count);
        break;
    default:
        break;
    }
}

bool cadre_comm_part(cadre_work *w, int64_t budget) {
    int64_t length = length_of(w);
    while (w->cursor < length && budget > 0) {
        int64_t n = length - w->cursor < budget ? length - w->cursor : budget;
        if (w->call.kind == CADRE_CALL_ALL_GATHER ||
            w->call.kind == CADRE_CALL_ALL_TO_ALL) { /* one member at a time */
            int64_t rest = w->call.count - w->cursor % w->call.count;
            if (n > rest) n = rest;
        }
        do_range(w, w->cursor, n);
        w->cursor += n;
        budget -= n;
    }
    return w->cursor >= length;
}
