/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass run dry: what it would hold and cost, with so many blocks computed again. The tape is a
 * real one on the meta backend, so that there is no second set of formulas; a run takes
 * milliseconds.
 */
#include "base/status.h"
#include "parallel/context.h"

static void *no_value(void *self, const cadre_parameter *param) {
    (void)self;
    (void)param;
    return NULL;
}

/* An address that is not NULL and that no kernel touches. */
static void *somewhere(void *self, const cadre_parameter *param, bool *ret_add) {
    static char here;
    *ret_add = false;
    return cadre_parallel_frozen(self, param->id) ? NULL : &here;
}

static bool is_trained(void *self, const cadre_parameter *param) {
    return !cadre_parallel_frozen(self, param->id);
}

cadre_status cadre_parallel_forward(const cadre_parallel *p, cadre_tape *tape,
                                    const cadre_pass *pass, cadre_tensor **ret_loss) {
    CADRE_TRY(cadre_tape_begin(tape, pass));
    cadre_tensor *loss = cadre_model_forward(p->model, tape);
    CADRE_TRY(cadre_tape_status(tape));
    CADRE_CHECK(loss && loss->dtype == CADRE_F64 && cadre_count(loss) == 2, CADRE_EUSAGE,
                "the model's last block has to return a loss (a sum and its count, f64), as "
                "cadre_cross_entropy does");
    *ret_loss = loss;
    return CADRE_OK;
}

static cadre_status run_dry(const cadre_parallel *p, cadre_tape *tape, const cadre_pass *shapes) {
    cadre_tensor *loss = NULL;
    CADRE_TRY(cadre_parallel_forward(p, tape, shapes, &loss));
    return shapes->training ? cadre_tape_backward(tape, loss, NULL) : CADRE_OK;
}

/* Runs a pass dry and says what it cost; `like` (may be NULL) then gets the memory it would take.
 */
static cadre_status dry_pass(const cadre_parallel *p, const cadre_pass *shapes, int blocks,
                             cadre_tape *like, cadre_pass_cost *ret_cost) {
    const cadre_param_store store = {.self = (void *)p,
                                     .value = no_value,
                                     .gradient = somewhere,
                                     .gradient_dtype = p->gradient_dtype,
                                     .wanted = is_trained};
    cadre_queue *queue = NULL;
    cadre_tape *tape = NULL;
    CADRE_TRY(cadre_queue_open(&queue, "meta", NULL));
    cadre_status st = cadre_tape_open(&tape, queue, &store, p->span.dtype);
    if (!st) {
        cadre_tape_recompute(tape, blocks);
        st = run_dry(p, tape, shapes);
        cadre_tape_recomputed(tape, &ret_cost->again_blocks, &ret_cost->again_flops);
        ret_cost->flops = queue->cost.flops - ret_cost->again_flops;
        ret_cost->kept = queue->kept;
        ret_cost->activations = (int64_t)cadre_tape_peak_bytes(tape);
    }
    if (!st && like) st = cadre_tape_reserve_like(like, tape);
    cadre_tape_close(&tape);
    cadre_queue_close(&queue);
    return st;
}

cadre_status cadre_parallel_measure(const cadre_parallel *p, const cadre_pass *shapes, int blocks,
                                    cadre_pass_cost *ret_cost) {
    cadre_pass_cost cost = {0};
    CADRE_TRY(dry_pass(p, shapes, blocks, NULL, &cost));
    *ret_cost = cost;
    return CADRE_OK;
}

cadre_status cadre_parallel_reserve(const cadre_parallel *p, cadre_tape *tape,
                                    const cadre_pass *shapes) {
    cadre_pass_cost cost = {0};
    return dry_pass(p, shapes, p->again_blocks, tape, &cost);
}

/* More blocks never take more memory, so that halving finds the fewest. */
cadre_status cadre_parallel_fit(const cadre_parallel *p, const cadre_pass *shapes, int64_t room,
                                int *ret_blocks, cadre_pass_cost *ret_cost) {
    int low = 0, high = cadre_model_block_count(p->model); /* the answer is in [low, high] */
    cadre_pass_cost at_high = {0};
    CADRE_TRY(cadre_parallel_measure(p, shapes, high, &at_high));
    while (low < high && at_high.activations <= room) {
        int middle = low + (high - low) / 2;
        cadre_pass_cost cost = {0};
        CADRE_TRY(cadre_parallel_measure(p, shapes, middle, &cost));
        if (cost.activations <= room) {
            high = middle;
            at_high = cost;
        } else {
            low = middle + 1;
        }
    }
    *ret_blocks = high;
    *ret_cost = at_high;
    return CADRE_OK;
}

void cadre_parallel_recompute(cadre_parallel *p, int blocks) {
    p->again_blocks = blocks;
    cadre_tape_recompute(p->tape, blocks);
}
