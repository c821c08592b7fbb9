/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording one operation: its shapes are inferred, its result and what it saves are made, its
 * forward runs, and in a training pass the call is kept for the replay.
 */
#include <string.h>

#include "tape/tape_private.h"

tape_slot *cadre_tape_slot(const cadre_tape *t, const cadre_tensor *tensor) {
    if (!tensor || tensor->id < 0 || tensor->id >= t->slots.count) return NULL;
    tape_slot *s = cadre_shelf_at(&t->slots, tensor->id);
    return &s->tensor == tensor ? s : NULL;
}

cadre_status cadre_tape_make(cadre_tape *t, cadre_dtype dtype, const cadre_dims *dims,
                             tape_slot **ret_slot) {
    tape_slot *s = NULL;
    CADRE_TRY(cadre_shelf_add(&t->slots, &s));
    s->tensor = (cadre_tensor){.dtype = dtype, .dims = *dims, .id = t->slots.count - 1};
    s->producer = -1;
    CADRE_TRY(cadre_recycler_take(t->memory, cadre_tensor_bytes(&s->tensor), &s->memory));
    s->tensor.data = s->memory->data;
    *ret_slot = s;
    return CADRE_OK;
}

void cadre_tape_bind(cadre_tape *t, tape_node *n) {
    for (int i = 0; i < CADRE_OP_PARAM; i++) {
        const cadre_parameter *p = n->parameter[i];
        if (!p) continue;
        n->value[i] = (cadre_tensor){
            .dtype = p->dtype, .dims = p->dims, .data = t->store->value(t->store->self, p), -1};
        n->call.param[i] = &n->value[i];
    }
}

static cadre_status count_use(cadre_tape *t, const cadre_parameter *p) {
    if (p->id >= t->use_room) {
        int room = t->use_room ? t->use_room : 32;
        while (room <= p->id) room *= 2;
        CADRE_TRY(cadre_realloc(&t->use, CADRE_MEM_OTHER, (size_t)room * sizeof *t->use));
        t->use_room = room;
    }
    t->use[p->id].left++;
    return CADRE_OK;
}

static cadre_status check_parameters(const cadre_tape *t, const tape_node *n) {
    const cadre_op *op = &cadre_op_table[n->call.op];
    CADRE_CHECK(op->params == 0 || n->parameter[0], CADRE_EUSAGE, "%s takes a weight; it got none",
                op->name);
    for (int i = 0; i < CADRE_OP_PARAM; i++) {
        const cadre_parameter *p = n->parameter[i];
        /* A handle that stands for a mistake says what it was. */
        CADRE_CHECK(!p || p->id >= 0, CADRE_EUSAGE, "%s", p->name);
        CADRE_CHECK(!p || p->dtype == t->dtype, CADRE_EUSAGE,
                    "%s is in %s, the tape computes in %s", p->name, cadre_dtype_name(p->dtype),
                    cadre_dtype_name(t->dtype));
    }
    return CADRE_OK;
}

static cadre_status check_inputs(const cadre_tape *t, const cadre_call *c) {
    const cadre_op *op = &cadre_op_table[c->op];
    for (int i = 0; i < op->inputs; i++) {
        const tape_slot *s = cadre_tape_slot(t, c->in[i]);
        CADRE_CHECK(s, CADRE_EUSAGE, "%s: input %d is %s", op->name, i,
                    c->in[i] ? "not a tensor of this tape" : "missing");
        CADRE_CHECK(!s->loss, CADRE_EUSAGE,
                    "%s takes a loss as its input; a loss has to end the formula", op->name);
        CADRE_CHECK(!s->spent, CADRE_EUSAGE,
                    "%s reads a tensor that a loss has replaced by its gradient; nothing else may "
                    "use it",
                    op->name);
        CADRE_CHECK(s->tensor.data || t->queue->meta || cadre_count(&s->tensor) == 0, CADRE_EUSAGE,
                    "%s reads a tensor of an earlier block that the block did not hand over",
                    op->name);
    }
    return CADRE_OK;
}

/* The operation's training forward leaves the gradient of its first input in that input's memory:
 * nobody else may need the values. */
static cadre_status check_in_place(const cadre_tape *t, const cadre_call *c) {
    const cadre_op *op = &cadre_op_table[c->op];
    const tape_slot *s = cadre_tape_slot(t, c->in[0]);
    if (!op->gradient_in_place || !c->a.training) return CADRE_OK;
    CADRE_CHECK(!s->batch, CADRE_EUSAGE,
                "%s would overwrite a tensor of the batch; it takes the result of an operation",
                op->name);
    CADRE_CHECK(s->uses == 0 && !s->read_later, CADRE_EUSAGE,
                "the input that %s replaces by its gradient is needed elsewhere too; nothing else "
                "may use it",
                op->name);
    return CADRE_OK;
}

static cadre_status make_results(cadre_tape *t, tape_node *n, tape_slot **ret_out) {
    cadre_inferred made;
    CADRE_TRY(cadre_op_table[n->call.op].infer(&n->call, &made));
    CADRE_TRY(cadre_tape_make(t, made.out.dtype, &made.out.dims, ret_out));
    n->call.out = &(*ret_out)->tensor;
    for (int i = 0; i < CADRE_OP_SAVED; i++) {
        if (made.saved[i].dims.n < 0) continue;
        n->saved[i] =
            (cadre_tensor){.dtype = made.saved[i].dtype, .dims = made.saved[i].dims, .id = -1};
        CADRE_TRY(
            cadre_recycler_take(t->memory, cadre_tensor_bytes(&n->saved[i]), &n->saved_memory[i]));
        n->saved[i].data = n->saved_memory[i]->data;
        n->call.saved[i] = &n->saved[i];
    }
    if (made.scratch.dims.n < 0) return CADRE_OK;
    n->scratch = (cadre_tensor){.dtype = made.scratch.dtype, .dims = made.scratch.dims, .id = -1};
    CADRE_TRY(cadre_recycler_take(t->memory, cadre_tensor_bytes(&n->scratch), &n->scratch_memory));
    n->scratch.data = n->scratch_memory->data;
    n->call.scratch = &n->scratch;
    return CADRE_OK;
}

/* The forward of a training pass that puts gradients of parameters needs to know where. */
static cadre_status run_forward(cadre_tape *t, tape_node *n) {
    if (t->pass.training && cadre_op_table[n->call.op].params_in_forward)
        for (int k = 0; k < CADRE_OP_PARAM; k++) cadre_tape_aim_parameter(t, n, k);
    CADRE_TRY(cadre_op_run(t->queue, &n->call, CADRE_FORWARD));
    cadre_recycler_give(t->memory, &n->scratch_memory);
    n->call.scratch = NULL;
    return CADRE_OK;
}

/* What the replay will ask of the tensors of this call. */
static cadre_status keep(cadre_tape *t, tape_node *n, tape_slot *out) {
    const cadre_op *op = &cadre_op_table[n->call.op];
    for (int i = 0; i < op->inputs; i++) {
        tape_slot *s = cadre_tape_slot(t, n->call.in[i]);
        s->uses++;
        s->read_later |= op->reads_in[i];
    }
    out->producer = t->nodes.count - 1;
    out->read_later = op->reads_out;
    if (op->gradient_in_place) cadre_tape_slot(t, n->call.in[0])->spent = true;
    for (int i = 0; i < CADRE_OP_PARAM; i++)
        if (n->parameter[i]) CADRE_TRY(count_use(t, n->parameter[i]));
    return CADRE_OK;
}

static void forget(cadre_tape *t, tape_node *n) {
    for (int i = 0; i < CADRE_OP_SAVED; i++) cadre_recycler_give(t->memory, &n->saved_memory[i]);
    cadre_shelf_clear(&t->nodes);
}

static cadre_status record(cadre_tape *t, const cadre_call *call,
                           const cadre_parameter *const parameter[CADRE_OP_PARAM],
                           tape_slot **ret_out) {
    tape_node *n = NULL;
    CADRE_CHECK(t->begun, CADRE_EUSAGE, "a recorder ran before cadre_tape_begin");
    CADRE_CHECK(!t->replayed, CADRE_EUSAGE, "a recorder ran after the backward pass");
    CADRE_TRY(check_inputs(t, call));
    CADRE_TRY(cadre_shelf_add(&t->nodes, &n));
    n->call = *call;
    n->call.a.training = t->pass.training;
    n->block = t->block;
    memcpy(n->parameter, parameter, sizeof n->parameter);
    CADRE_TRY(check_parameters(t, n));
    CADRE_TRY(check_in_place(t, &n->call));
    cadre_tape_bind(t, n);
    CADRE_TRY(make_results(t, n, ret_out));
    (*ret_out)->loss = cadre_op_table[call->op].loss;
    if (t->pass.training) CADRE_TRY(keep(t, n, *ret_out));
    CADRE_TRY(run_forward(t, n));
    t->length++;
    if (!t->pass.training) forget(t, n);
    return t->store->between ? t->store->between(t->store->self) : CADRE_OK;
}

cadre_tensor *cadre_tape_record(cadre_tape *t, cadre_call *call, const cadre_parameter *first,
                                const cadre_parameter *second) {
    const cadre_parameter *parameter[CADRE_OP_PARAM] = {first, second};
    tape_slot *out = NULL;
    if (t->error.status) return &t->placeholder;
    cadre_tape_note(t, record(t, call, parameter, &out));
    return t->error.status ? &t->placeholder : &out->tensor;
}
