/* SPDX-License-Identifier: Apache-2.0
 *
 * The replay in reverse. For each operation: its gradient towards inputs, then towards parameters,
 * then everything that only it still needed is given back: its result and that one's gradient, and
 * what its forward saved.
 *
 *   x -> linear -> h -> add(h, x) -> y -> loss
 *   loss: dy new | add: dh = dx = dy, shared; y back | linear: dx copied, added to; h, dh back
 *
 * A gradient is computed only where it leads to a trained parameter or to `wrt`.
 */
#include <string.h>

#include "tape/tape_private.h"

static bool is_trained(const cadre_tape *t, const cadre_parameter *p) {
    return p && (!t->store->wanted || t->store->wanted(t->store->self, p));
}

/* Marks the tensors whose gradient leads somewhere, in the order they were recorded. */
static void mark_wanted(cadre_tape *t, tape_slot *wrt) {
    for (int i = 0; i < t->slots.count; i++)
        ((tape_slot *)cadre_shelf_at(&t->slots, i))->wanted = false;
    if (wrt) wrt->wanted = true;
    for (int i = 0; i < t->nodes.count; i++) {
        const tape_node *n = cadre_shelf_at(&t->nodes, i);
        tape_slot *out = cadre_tape_slot(t, n->call.out);
        for (int k = 0; k < CADRE_OP_IN; k++)
            if (n->call.in[k]) out->wanted |= cadre_tape_slot(t, n->call.in[k])->wanted;
        for (int k = 0; k < CADRE_OP_PARAM; k++) out->wanted |= is_trained(t, n->parameter[k]);
    }
}

static cadre_status make_gradient(cadre_tape *t, tape_slot *s) {
    s->gradient = s->tensor;
    s->gradient.id = -1;
    CADRE_TRY(
        cadre_recycler_take(t->memory, cadre_tensor_bytes(&s->gradient), &s->gradient_memory));
    s->gradient.data = s->gradient_memory->data;
    s->has_gradient = true;
    return CADRE_OK;
}

/* Adding to memory that another gradient shares would change that one too. */
static cadre_status own_gradient(cadre_tape *t, tape_slot *s) {
    cadre_piece *shared = s->gradient_memory;
    const void *from = s->gradient.data;
    if (!shared || shared->holders == 1) return CADRE_OK;
    s->gradient_memory = NULL;
    cadre_status st = make_gradient(t, s);
    if (!st && from) memcpy(s->gradient.data, from, cadre_tensor_bytes(&s->gradient));
    cadre_recycler_give(t->memory, &shared);
    return st;
}

static bool takes_gradient(const tape_slot *s) {
    return s && s->wanted && cadre_is_real(s->tensor.dtype);
}

/* Where the gradient of input `k` goes: the first use writes, later ones add. */
static cadre_status aim_input(cadre_tape *t, cadre_call *c, int k) {
    tape_slot *s = c->in[k] ? cadre_tape_slot(t, c->in[k]) : NULL;
    c->din[k] = NULL;
    if (!takes_gradient(s)) return CADRE_OK;
    c->din_add[k] = s->has_gradient;
    CADRE_TRY(s->has_gradient ? own_gradient(t, s) : make_gradient(t, s));
    c->din[k] = &s->gradient;
    return CADRE_OK;
}

/* The input's gradient is the result's: shared, or added where there is one already. */
static cadre_status pass_gradient(cadre_tape *t, cadre_call *c, int k) {
    tape_slot *s = c->in[k] ? cadre_tape_slot(t, c->in[k]) : NULL;
    const tape_slot *out = cadre_tape_slot(t, c->out);
    if (!takes_gradient(s)) return CADRE_OK;
    if (s->has_gradient) {
        c->din[0] = c->din[1] = NULL;
        CADRE_TRY(aim_input(t, c, k));
        return cadre_op_run(t->queue, c, CADRE_BACKWARD_INPUTS);
    }
    s->gradient = out->gradient;
    s->gradient_memory =
        cadre_recycler_share(out->gradient_memory ? out->gradient_memory : out->memory);
    s->has_gradient = true;
    return CADRE_OK;
}

static cadre_status replay_inputs(cadre_tape *t, cadre_call *c) {
    if (cadre_op_table[c->op].gradient_in_place) {
        tape_slot *s = cadre_tape_slot(t, c->in[0]);
        s->gradient = s->tensor; /* the forward left it there */
        s->has_gradient = true;
        return CADRE_OK;
    }
    if (cadre_op_table[c->op].gradient_passes) {
        for (int k = 0; k < CADRE_OP_IN; k++) CADRE_TRY(pass_gradient(t, c, k));
        return CADRE_OK;
    }
    CADRE_TRY(aim_input(t, c, 0));
    if (c->in[1] && c->in[1] == c->in[0] && c->din[0]) { /* one tensor twice: one after the other */
        CADRE_TRY(cadre_op_run(t->queue, c, CADRE_BACKWARD_INPUTS));
        c->din[1] = c->din[0];
        c->din_add[1] = true;
        c->din[0] = NULL;
    } else {
        CADRE_TRY(aim_input(t, c, 1));
    }
    if (!c->din[0] && !c->din[1]) return CADRE_OK;
    return cadre_op_run(t->queue, c, CADRE_BACKWARD_INPUTS);
}

void cadre_tape_aim_parameter(cadre_tape *t, tape_node *n, int k) {
    const cadre_parameter *p = n->parameter[k];
    bool add = false;
    n->call.dparam[k] = NULL;
    if (!p) return;
    void *data = t->store->gradient(t->store->self, p, &add);
    if (!data) return;
    n->gradient[k] = (cadre_tensor){.dtype = t->store->gradient_dtype,
                                    .dims = p->dims,
                                    .data = t->queue->meta ? NULL : data,
                                    .id = -1};
    n->call.dparam[k] = &n->gradient[k];
    n->call.dparam_add[k] = add;
    t->use[p->id].put = true;
}

static cadre_status replay_parameters(cadre_tape *t, tape_node *n) {
    cadre_call *c = &n->call;
    if (cadre_op_table[c->op].params_in_forward) return CADRE_OK;
    cadre_tape_aim_parameter(t, n, 0);
    if (n->parameter[1] && n->parameter[1] == n->parameter[0] && c->dparam[0]) {
        CADRE_TRY(cadre_op_run(t->queue, c, CADRE_BACKWARD_PARAMS));
        c->dparam[0] = NULL;
    }
    cadre_tape_aim_parameter(t, n, 1);
    if (!c->dparam[0] && !c->dparam[1]) return CADRE_OK;
    return cadre_op_run(t->queue, c, CADRE_BACKWARD_PARAMS);
}

/* One use of each parameter of the node is over; the last one that put something makes it ready. */
static cadre_status count_down(cadre_tape *t, const tape_node *n) {
    for (int k = 0; k < CADRE_OP_PARAM; k++) {
        const cadre_parameter *p = n->parameter[k];
        if (!p || --t->use[p->id].left > 0 || !t->use[p->id].put) continue;
        if (t->store->ready) CADRE_TRY(t->store->ready(t->store->self, p));
    }
    return CADRE_OK;
}

/* What only this node's replay still needed. */
static void release(cadre_tape *t, tape_node *n) {
    tape_slot *out = cadre_tape_slot(t, n->call.out);
    for (int k = 0; k < CADRE_OP_SAVED; k++) cadre_recycler_give(t->memory, &n->saved_memory[k]);
    if (out->kept) return;
    cadre_recycler_give(t->memory, &out->gradient_memory);
    if (!out->loss) cadre_tape_give(t, out);
}

static cadre_status replay_kernels(cadre_tape *t, tape_node *n) {
    const tape_slot *out = cadre_tape_slot(t, n->call.out);
    if (n->block != t->block) {
        CADRE_TRY(cadre_tape_leave_block(t, 1));
        CADRE_TRY(cadre_tape_enter_block(t, n->block, 1));
    }
    CADRE_TRY(cadre_tape_again(t, n));
    cadre_tape_bind(t, n);
    n->call.dout = out->loss ? NULL : (cadre_tensor *)&out->gradient;
    CADRE_TRY(replay_inputs(t, &n->call));
    return replay_parameters(t, n);
}

static cadre_status replay(cadre_tape *t, tape_node *n) {
    const tape_slot *out = cadre_tape_slot(t, n->call.out);
    if (out->has_gradient && out->wanted) CADRE_TRY(replay_kernels(t, n));
    CADRE_TRY(count_down(t, n));
    release(t, n);
    return t->store->between ? t->store->between(t->store->self) : CADRE_OK;
}

static cadre_status replay_all(cadre_tape *t) {
    cadre_status st = CADRE_OK;
    t->block = -1;
    for (int i = t->nodes.count - 1; !st && i >= 0; i--)
        st = replay(t, cadre_shelf_at(&t->nodes, i));
    cadre_error first;
    if (st) cadre_error_save(&first);
    cadre_status left = cadre_tape_leave_block(t, 1); /* also after a failure: it was entered */
    return st ? cadre_error_restore(&first) : left;
}

static cadre_status start(cadre_tape *t, tape_slot *out, const cadre_tensor *dout) {
    char a[96], b[96];
    CADRE_CHECK(t->pass.training, CADRE_EUSAGE, "the pass was not begun as a training pass");
    CADRE_CHECK(!t->replayed, CADRE_EUSAGE, "a pass is replayed once");
    CADRE_CHECK(t->memory->holder == t, CADRE_EUSAGE,
                "another tape has begun a pass in the memory of this one's");
    CADRE_CHECK(out && out->producer >= 0, CADRE_EUSAGE,
                "the backward pass starts from a tensor that this tape recorded");
    CADRE_CHECK(!dout == out->loss, CADRE_EUSAGE,
                out->loss ? "the gradient of a loss is one; none can be given"
                          : "the backward pass starts from a loss, or takes a gradient");
    t->replayed = true;
    out->kept = true;
    out->has_gradient = true;
    if (!dout) return CADRE_OK;
    CADRE_CHECK(!out->spent, CADRE_EUSAGE, "cross_entropy has used up the logits' memory");
    CADRE_CHECK(
        dout->dtype == out->tensor.dtype && cadre_dims_equal(&dout->dims, &out->tensor.dims),
        CADRE_EUSAGE, "the gradient is %s %s, its tensor %s %s", cadre_dtype_name(dout->dtype),
        cadre_dims_text(a, sizeof a, &dout->dims), cadre_dtype_name(out->tensor.dtype),
        cadre_dims_text(b, sizeof b, &out->tensor.dims));
    /* A copy: later uses may add to it. */
    CADRE_TRY(make_gradient(t, out));
    if (!t->queue->meta) memcpy(out->gradient.data, dout->data, cadre_tensor_bytes(dout));
    return CADRE_OK;
}

/* The gradient of a tensor that `out` does not depend on is zero. */
static cadre_status take_wrt(cadre_tape *t, tape_slot *wrt, cadre_tensor **ret_dwrt) {
    if (!wrt->has_gradient) {
        CADRE_TRY(make_gradient(t, wrt));
        if (!t->queue->meta) memset(wrt->gradient.data, 0, cadre_tensor_bytes(&wrt->gradient));
    }
    *ret_dwrt = &wrt->gradient;
    return CADRE_OK;
}

static cadre_status backward(cadre_tape *t, cadre_tensor *out, const cadre_tensor *dout,
                             const cadre_tensor *wrt, cadre_tensor **ret_dwrt) {
    tape_slot *from = cadre_tape_slot(t, out), *to = cadre_tape_slot(t, wrt);
    CADRE_CHECK(!wrt || (to && cadre_is_real(to->tensor.dtype)), CADRE_EUSAGE,
                "a gradient is wanted of a tensor that is %s",
                to ? "of whole numbers" : "not of this tape");
    CADRE_TRY(start(t, from, dout));
    mark_wanted(t, to);
    if (to) to->kept = true;
    CADRE_TRY(replay_all(t));
    return to ? take_wrt(t, to, ret_dwrt) : CADRE_OK;
}

cadre_status cadre_tape_backward_wrt(cadre_tape *t, cadre_tensor *out, const cadre_tensor *dout,
                                     cadre_tensor *wrt, cadre_tensor **ret_dwrt) {
    CADRE_TRY(cadre_tape_status(t));
    cadre_status st = backward(t, out, dout, wrt, ret_dwrt);
    cadre_tape_note(t, st);
    return st;
}

cadre_status cadre_tape_backward(cadre_tape *t, cadre_tensor *out, const cadre_tensor *dout) {
    return cadre_tape_backward_wrt(t, out, dout, NULL, NULL);
}
