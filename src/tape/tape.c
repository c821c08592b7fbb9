/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a tape: open, begin a pass, mark blocks, keep the first failure, close.
 */
#include <string.h>

#include "tape/tape_private.h"

cadre_status cadre_tape_open(cadre_tape **ret_tape, cadre_queue *queue,
                             const cadre_param_store *store, cadre_dtype dtype) {
    cadre_tape *t = NULL;
    CADRE_CHECK(cadre_is_real(dtype), CADRE_EUSAGE,
                "a tape computes in f32, bf16 or f64, not in %s", cadre_dtype_name(dtype));
    CADRE_TRY(cadre_alloc(&t, CADRE_MEM_OTHER, sizeof *t));
    t->queue = queue;
    t->store = store;
    t->dtype = dtype;
    t->block = -1;
    t->slots.size = sizeof(tape_slot);
    t->nodes.size = sizeof(tape_node);
    t->placeholder = (cadre_tensor){.dtype = dtype, .dims = cadre_dims0(), .id = -1};
    t->memory = &t->own;
    cadre_status st = cadre_recycler_open(&t->own, 0, queue->meta);
    if (st) {
        cadre_tape_close(&t);
        return st;
    }
    *ret_tape = t;
    return CADRE_OK;
}

void cadre_tape_close(cadre_tape **tape) {
    cadre_tape *t = *tape;
    if (!t) return;
    cadre_recycler_close(&t->own);
    cadre_shelf_free(&t->slots);
    cadre_shelf_free(&t->nodes);
    cadre_free(&t->use);
    cadre_free(tape);
}

cadre_status cadre_tape_reserve(cadre_tape *t, size_t bytes) {
    CADRE_CHECK(!t->begun, CADRE_EUSAGE, "a tape reserves memory before its first pass");
    if (bytes <= t->memory->reserved) return CADRE_OK;
    cadre_recycler_close(t->memory);
    CADRE_TRY(cadre_recycler_open(t->memory, bytes, t->queue->meta));
    t->memory->reserved = bytes;
    return CADRE_OK;
}

void cadre_tape_borrow(cadre_tape *t, cadre_tape *lender) {
    t->memory = lender->memory;
}

cadre_status cadre_tape_reserve_like(cadre_tape *t, const cadre_tape *dry) {
    CADRE_TRY(cadre_tape_reserve(t, cadre_tape_peak_bytes(dry)));
    CADRE_TRY(cadre_shelf_reserve(&t->memory->pieces, &dry->memory->pieces));
    CADRE_TRY(cadre_shelf_reserve(&t->slots, &dry->slots));
    CADRE_TRY(cadre_shelf_reserve(&t->nodes, &dry->nodes));
    if (t->use_room >= dry->use_room) return CADRE_OK;
    CADRE_TRY(cadre_realloc(&t->use, CADRE_MEM_OTHER, (size_t)dry->use_room * sizeof *t->use));
    t->use_room = dry->use_room;
    return CADRE_OK;
}

/* Numbers of the batch in another type than the tape's are converted: a run in f64 or bf16 reads
 * the same data as one in f32. */
static cadre_status add_converted(cadre_tape *t, const cadre_tensor *given, tape_slot **ret_slot) {
    CADRE_TRY(cadre_tape_make(t, t->dtype, &given->dims, ret_slot));
    void *to = (*ret_slot)->tensor.data;
    if (to) cadre_convert(given->data, given->dtype, to, t->dtype, cadre_count(given));
    return CADRE_OK;
}

static cadre_status add_input(cadre_tape *t, const cadre_named_tensor *input) {
    const cadre_tensor *given = &input->tensor;
    tape_slot *s = NULL;
    CADRE_CHECK(input->name, CADRE_EUSAGE, "a tensor of the batch has no name");
    CADRE_CHECK(t->queue->meta || given->data || cadre_count(given) == 0, CADRE_EUSAGE,
                "the batch's tensor \"%s\" has no data", input->name);
    if (given->dtype == CADRE_F32 && t->dtype != CADRE_F32) {
        CADRE_TRY(add_converted(t, given, &s));
    } else {
        CADRE_TRY(cadre_shelf_add(&t->slots, &s));
        s->tensor = *given;
        s->tensor.id = t->slots.count - 1;
    }
    s->producer = -1;
    s->batch = true;
    return CADRE_OK;
}

static cadre_status begin(cadre_tape *t, const cadre_pass *pass) {
    CADRE_CHECK(pass->inputs >= 0 && pass->inputs <= CADRE_TAPE_INPUTS, CADRE_EUSAGE,
                "a pass takes at most %d tensors, not %d", CADRE_TAPE_INPUTS, pass->inputs);
    CADRE_TRY(cadre_recycler_reset(t->memory));
    t->memory->holder = t;
    for (int i = 0; i < pass->inputs; i++) CADRE_TRY(add_input(t, &pass->input[i]));
    return CADRE_OK;
}

cadre_status cadre_tape_begin(cadre_tape *t, const cadre_pass *pass) {
    t->error.status = CADRE_OK;
    t->pass = *pass;
    t->begun = true;
    t->replayed = false;
    t->length = t->dropped = 0;
    t->again_flops = 0;
    t->block = -1;
    t->arriving = t->leaving = NULL;
    cadre_shelf_clear(&t->slots);
    cadre_shelf_clear(&t->nodes);
    if (t->use) memset(t->use, 0, (size_t)t->use_room * sizeof *t->use);
    cadre_status st = begin(t, pass);
    cadre_tape_note(t, st);
    return st;
}

/* ---- the first failure ---- */

void cadre_tape_note(cadre_tape *t, cadre_status status) {
    if (status < 0 && !t->error.status) {
        cadre_error_save(&t->error);
        t->error.status = status;
    }
}

void cadre_tape_fail(cadre_tape *t, cadre_status status) {
    cadre_tape_note(t, status);
}

cadre_status cadre_tape_status(const cadre_tape *t) {
    return t->error.status ? cadre_error_restore(&t->error) : CADRE_OK;
}

/* ---- blocks ---- */

cadre_status cadre_tape_enter_block(cadre_tape *t, int block, int backward) {
    const cadre_param_store *s = t->store;
    t->block = block;
    return s->enter_block && block >= 0 ? s->enter_block(s->self, block, backward) : CADRE_OK;
}

cadre_status cadre_tape_leave_block(cadre_tape *t, int backward) {
    const cadre_param_store *s = t->store;
    int block = t->block;
    t->block = -1;
    return s->leave_block && block >= 0 ? s->leave_block(s->self, block, backward) : CADRE_OK;
}

static cadre_status enter(cadre_tape *t, int block) {
    CADRE_CHECK(t->block < 0, CADRE_EINTERNAL, "block %d begins inside block %d", block, t->block);
    t->first_slot = t->slots.count;
    t->first_node = t->nodes.count;
    t->leaving = NULL;
    return cadre_tape_enter_block(t, block, 0);
}

void cadre_tape_enter(cadre_tape *t, int block) {
    if (!t->error.status) cadre_tape_note(t, enter(t, block));
}

void cadre_tape_hand_over(cadre_tape *t, cadre_tensor *x) {
    t->leaving = cadre_tape_slot(t, x);
}

void cadre_tape_give(cadre_tape *t, tape_slot *s) {
    cadre_recycler_give(t->memory, &s->memory);
    s->tensor.data = NULL;
}

/* Nothing reads the tensor any more, in this pass or its replay. */
static void retire(cadre_tape *t, tape_slot *s) {
    bool needed = t->pass.training && (s->read_later || s->spent || s->starts_again);
    if (!s->memory || s->batch || s->loss || needed || s == t->leaving) return;
    cadre_tape_give(t, s);
}

/* A tensor that one block hands to the next is the only way between: the others made in the block,
 * and the one that it was handed, can go. */
static void retire_block(cadre_tape *t) {
    cadre_tape_drop_block(t);
    for (int i = t->first_slot; i < t->slots.count; i++) retire(t, cadre_shelf_at(&t->slots, i));
    if (t->arriving) retire(t, t->arriving);
    t->arriving = t->leaving;
}

void cadre_tape_leave(cadre_tape *t) {
    if (t->block < 0) return;
    if (!t->error.status && t->leaving) retire_block(t);
    cadre_tape_note(t, cadre_tape_leave_block(t, 0));
}

/* ---- what can be asked ---- */

cadre_tensor *cadre_input(cadre_tape *t, const char *name) {
    char names[256] = "";
    if (t->error.status) return &t->placeholder;
    if (t->pass.no_labels && strcmp(name, "labels") == 0) return NULL;
    for (int i = 0; i < t->pass.inputs; i++) {
        if (strcmp(t->pass.input[i].name, name) == 0)
            return &((tape_slot *)cadre_shelf_at(&t->slots, i))->tensor;
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.40s", i ? ", " : "",
                 t->pass.input[i].name);
    }
    cadre_tape_note(t, CADRE_FAIL(CADRE_EUSAGE, "the batch has no tensor \"%s\"; it has %s", name,
                                  names[0] ? names : "none"));
    return &t->placeholder;
}

int cadre_tape_length(const cadre_tape *t) {
    return t->length;
}

size_t cadre_tape_peak_bytes(const cadre_tape *t) {
    return cadre_arena_peak(t->memory->arena);
}
