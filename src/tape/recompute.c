/* SPDX-License-Identifier: Apache-2.0
 *
 * Recomputation: a block that is chosen keeps only what it was handed when its forward ends, and
 * runs its recorded operations again when the replay comes to it. No formula is asked twice: the
 * calls are on the tape with their attributes (and what keys a dropout mask), so the second run
 * makes the same bits.
 *
 *   forward     x [ norm  linear  attention  linear  add ] y     all but x and y goes
 *   backward    x [ norm  linear  attention ]                    made again, then replayed
 *
 * Run again is only what a backward kernel of the block reads, or what leads there: a block's last
 * operations often make nothing but y. A block with a loss keeps everything: its replay follows at
 * once. So does a block that would free no more than the x it has to keep (an embedding).
 */
#include "tape/tape_private.h"

static bool is_chosen(const cadre_tape *t) {
    return t->pass.training && t->block >= 0 && t->block < t->again_blocks;
}

static tape_node *node_at(const cadre_tape *t, int i) {
    return cadre_shelf_at(&t->nodes, i);
}

/* What the block made and nobody outside reads. */
static bool is_inner(const cadre_tape *t, const tape_slot *s) {
    return s->memory && !s->batch && s != t->leaving;
}

/* Whether the block frees more by being computed again than it has to keep for it. */
static bool pays(const cadre_tape *t) {
    size_t freed = 0, kept = 0;
    const tape_slot *x = t->arriving;
    for (int i = t->first_slot; i < t->slots.count; i++) {
        const tape_slot *s = cadre_shelf_at(&t->slots, i);
        if (s->loss || s->spent) return false;
        if (is_inner(t, s) && s->read_later) freed += s->memory->bytes;
    }
    for (int i = t->first_node; i < t->nodes.count; i++)
        for (int k = 0; k < CADRE_OP_SAVED; k++)
            if (node_at(t, i)->saved_memory[k]) freed += node_at(t, i)->saved_memory[k]->bytes;
    if (x && x->memory && !x->read_later) kept = x->memory->bytes;
    return freed > kept;
}

void cadre_tape_drop_block(cadre_tape *t) {
    if (!is_chosen(t) || !pays(t)) return;
    if (t->arriving) t->arriving->starts_again = true;
    for (int i = t->first_slot; i < t->slots.count; i++) {
        tape_slot *s = cadre_shelf_at(&t->slots, i);
        if (is_inner(t, s)) cadre_tape_give(t, s);
    }
    for (int i = t->first_node; i < t->nodes.count; i++) {
        tape_node *n = node_at(t, i);
        n->dropped = true;
        for (int k = 0; k < CADRE_OP_SAVED; k++) {
            cadre_recycler_give(t->memory, &n->saved_memory[k]);
            n->saved[k].data = NULL;
        }
    }
    t->dropped++;
}

/* ---- once more ---- */

/* Which values the nodes [first, last] have to make again: what backward kernels of the block read,
 * and what leads to that or to something saved. Consumers come after producers. */
static void mark(cadre_tape *t, int first, int last) {
    for (int i = first; i <= last; i++) {
        tape_slot *out = cadre_tape_slot(t, node_at(t, i)->call.out);
        out->needed = out->read_again = cadre_op_table[node_at(t, i)->call.op].reads_out;
    }
    for (int i = last; i >= first; i--) {
        tape_node *n = node_at(t, i);
        const tape_slot *out = cadre_tape_slot(t, n->call.out);
        n->again = out->needed && !out->memory;
        for (int k = 0; k < CADRE_OP_SAVED; k++) n->again |= n->call.saved[k] != NULL;
        for (int k = 0; k < CADRE_OP_IN; k++) {
            tape_slot *in = cadre_tape_slot(t, n->call.in[k]);
            if (!in) continue;
            in->read_again |= cadre_op_table[n->call.op].reads_in[k];
            in->needed |= in->read_again || n->again;
        }
    }
}

static cadre_status take(cadre_tape *t, cadre_tensor *tensor, cadre_piece **ret_piece) {
    CADRE_TRY(cadre_recycler_take(t->memory, cadre_tensor_bytes(tensor), ret_piece));
    tensor->data = (*ret_piece)->data;
    return CADRE_OK;
}

/* One operation again. A result that is still there (somebody keeps it, or it holds a gradient by
 * now) stays as it is: only what the operation saves is of interest then. */
static cadre_status run_again(cadre_tape *t, tape_node *n) {
    tape_slot *s = cadre_tape_slot(t, n->call.out);
    cadre_piece *aside = NULL;
    cadre_tensor elsewhere = s->tensor;
    cadre_call call = n->call;
    cadre_tape_bind(t, n);
    if (!s->memory) {
        CADRE_TRY(take(t, &s->tensor, &s->memory));
    } else {
        CADRE_TRY(take(t, &elsewhere, &aside));
        call.out = &elsewhere;
    }
    for (int k = 0; k < CADRE_OP_SAVED; k++)
        if (call.saved[k]) CADRE_TRY(take(t, &n->saved[k], &n->saved_memory[k]));
    cadre_status st = cadre_op_run(t->queue, &call, CADRE_FORWARD);
    cadre_recycler_give(t->memory, &aside);
    if (st) return st;
    return t->store->between ? t->store->between(t->store->self) : CADRE_OK;
}

/* Lets go the values of the nodes [first, last] that no backward kernel of the block reads; with
 * `all` false only those that nothing at all is made from. */
static void give_unread(cadre_tape *t, int first, int last, bool all) {
    for (int i = first; i <= last; i++) {
        tape_slot *s = cadre_tape_slot(t, node_at(t, i)->call.out);
        if (!s->read_again && (all || !s->needed) && !s->kept && !s->spent) cadre_tape_give(t, s);
    }
}

cadre_status cadre_tape_again(cadre_tape *t, const tape_node *n) {
    double before = t->queue->cost.flops;
    int last = cadre_tape_slot(t, n->call.out)->producer, first = last;
    if (!n->dropped) return CADRE_OK;
    while (first > 0 && node_at(t, first - 1)->dropped && node_at(t, first - 1)->block == n->block)
        first--;
    mark(t, first, last);
    give_unread(t, first, last, false); /* y: all who read it have been replayed */
    for (int i = first; i <= last; i++) {
        node_at(t, i)->dropped = false;
        if (node_at(t, i)->again) CADRE_TRY(run_again(t, node_at(t, i)));
    }
    give_unread(t, first, last, true);
    t->again_flops += t->queue->cost.flops - before;
    return CADRE_OK;
}

/* ---- what can be asked ---- */

void cadre_tape_recompute(cadre_tape *t, int blocks) {
    t->again_blocks = blocks;
}

void cadre_tape_recomputed(const cadre_tape *t, int *ret_blocks, double *ret_flops) {
    *ret_blocks = t->dropped;
    *ret_flops = t->again_flops;
}
