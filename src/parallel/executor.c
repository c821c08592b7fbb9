/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor: runs the actions of a step's schedule. One function an action, one table.
 *
 *   forward, backward   of every micro-batch; the last one's gradients start their buckets
 *   reduce              all gradients are sums over the ranks; so are loss, count and votes
 *   clip                one global norm decides, on every rank alike, what happens
 *   update              1 / count x clip factor is applied here, in the optimizer's pass
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/trace.h"
#include "parallel/context.h"

/* What all ranks add up once a step. */
typedef struct totals {
    double loss, count, vote[CADRE_VOTES];
} totals;

typedef struct running {
    const cadre_micro_source *source;
    int64_t micros, step;
    cadre_tensor *loss; /* of the micro-batch in flight */
    totals sum;         /* of this rank, then of all */
    double own_loss;
    double grad_scale;
    bool update;
    bool agreed_stop; /* the failure is known to every rank alike */
    cadre_step_result result;
} running;

typedef cadre_status action_fn(cadre_parallel *p, running *r, const cadre_action *a);

static cadre_status forward(cadre_parallel *p, running *r, const cadre_action *a) {
    cadre_pass pass = {0};
    int64_t before = cadre_now_ns();
    CADRE_TRY(r->source->next(r->source->self, a->micro, &pass));
    r->result.data_ns += cadre_now_ns() - before;
    pass.training = true;
    pass.label_smoothing = p->optim.label_smoothing;
    pass.key.step = r->step;
    if (!p->reserved && !p->queue->meta) CADRE_TRY(cadre_parallel_reserve(p, p->tape, &pass));
    p->reserved = true;
    return cadre_parallel_forward(p, p->tape, &pass, &r->loss);
}

static cadre_status backward(cadre_parallel *p, running *r, const cadre_action *a) {
    p->last_micro = a->micro == r->micros - 1;
    CADRE_TRY(cadre_tape_backward(p->tape, r->loss, NULL));
    CADRE_TRY(cadre_queue_wait(p->queue));
    if (p->queue->meta) return CADRE_OK;
    const double *loss = r->loss->data;
    r->sum.loss += loss[0];
    r->sum.count += loss[1];
    return CADRE_OK;
}

/* A parameter that no micro-batch of this rank used has the gradient zero. */
static cadre_status finish_gradients(cadre_parallel *p) {
    size_t size = cadre_dtype_size(p->gradient_dtype);
    for (int i = p->items - 1; i >= 0; i--) {
        if (cadre_buckets_is_ready(p->buckets, i)) continue;
        int id = p->item_param[i];
        if (p->written[id] != p->serial)
            memset(cadre_parallel_gradient(p, id), 0, (size_t)p->item[i].count * size);
        CADRE_TRY(cadre_buckets_ready(p->buckets, i));
    }
    return CADRE_OK;
}

static cadre_status reduce(cadre_parallel *p, running *r, const cadre_action *a) {
    (void)a;
    if (p->queue->meta) return CADRE_OK;
    int missing;
    CADRE_TRY(finish_gradients(p));
    CADRE_TRY(
        cadre_buckets_wait(p->buckets, cadre_in_ms(cadre_comm_timeout_ms(p->world)), &missing));
    r->own_loss = r->sum.loss;
    return cadre_all_reduce(p->world, &r->sum, &r->sum, sizeof r->sum / sizeof(double), CADRE_F64,
                            CADRE_SUM, "step totals", NULL);
}

/* ---- values that are not finite ---- */

/* No rank's own gradient or loss was to blame: the sum over the ranks, or the norm, overflowed. All
 * ranks hold the same sums and say the same. */
static void blame_sum(cadre_parallel *p, char *text, size_t room) {
    for (int i = p->items - 1; i >= 0; i--) {
        if (!cadre_any_nonfinite(p->gradients, p->gradient_dtype, p->item[i].offset,
                                 p->item[i].count))
            continue;
        snprintf(text, room, "the sum over the ranks of the gradient of %.120s is not finite",
                 p->span.param[p->item_param[i]].name);
        return;
    }
    snprintf(text, room, "the global norm of the gradients is not finite");
}

/* Collective: which parameter, on which rank. */
static cadre_status find_blame(cadre_parallel *p, running *r) {
    enum { NONE = -1, LOSS = -2 };
    int size = cadre_comm_size(p->world);
    int64_t mine = p->bad_param >= 0 ? p->bad_param : isfinite(r->own_loss) ? NONE : LOSS;
    int64_t *all = NULL;
    char *text = r->result.nonfinite;
    size_t room = sizeof r->result.nonfinite;
    CADRE_TRY(cadre_alloc_array(&all, CADRE_MEM_OTHER, size, sizeof *all));
    cadre_status st = cadre_all_gather(p->world, &mine, all, 1, CADRE_I64, "not finite", NULL);
    for (int rank = 0; rank < size && !st && !text[0]; rank++)
        if (all[rank] >= 0)
            snprintf(text, room, "gradient of %.120s is not finite on rank %d",
                     p->span.param[all[rank]].name, rank);
    for (int rank = 0; rank < size && !st && !text[0]; rank++)
        if (all[rank] == LOSS) snprintf(text, room, "the loss is not finite on rank %d", rank);
    if (!st && !text[0]) blame_sum(p, text, room);
    cadre_free(&all);
    return st;
}

static cadre_status clip(cadre_parallel *p, running *r, const cadre_action *a) {
    (void)a;
    cadre_step_result *to = &r->result;
    double squared;
    if (p->queue->meta) return CADRE_OK;
    CADRE_TRY(
        cadre_norm_squared(&p->norm, p->gradients, p->gradient_dtype, p->queue->pool, &squared));
    to->count = r->sum.count;
    for (int v = 0; v < CADRE_VOTES; v++) to->vote[v] = r->sum.vote[v] > 0;
    if (to->count == 0) return CADRE_OK;
    to->loss = r->sum.loss / to->count;
    to->grad_norm = sqrt(squared) / to->count;
    r->update = isfinite(to->grad_norm) && isfinite(to->loss);
    if (r->update) {
        r->grad_scale = cadre_clip_factor(to->grad_norm, p->optim.clip) / to->count;
        return CADRE_OK;
    }
    CADRE_TRY(find_blame(p, r));
    to->skipped = p->optim.nonfinite == 1;
    if (to->skipped) {
        p->skipped_steps++;
        return CADRE_OK;
    }
    r->agreed_stop = true;
    return CADRE_FAIL(CADRE_ENUMERIC,
                      "step %" PRId64 ": %s (optim.nonfinite=skip would leave such a step out)",
                      r->step, to->nonfinite);
}

static cadre_status update(cadre_parallel *p, running *r, const cadre_action *a) {
    (void)a;
    if (!r->update) return CADRE_OK;
    cadre_optim_step step = {.step = r->step, .lr = r->result.lr, .grad_scale = r->grad_scale};
    cadre_optim_arrays arrays = {.dtype = p->master_dtype,
                                 .gradient_dtype = p->gradient_dtype,
                                 .values = p->master ? (void *)p->master : p->values,
                                 .gradients = p->gradients,
                                 .copy = p->master ? p->values : NULL};
    memcpy(arrays.state, p->state, sizeof arrays.state);
    p->optimizer->apply(&p->optim, p->segment, p->items, &step, &arrays, p->queue->pool);
    return CADRE_OK;
}

static action_fn *const actions[CADRE_ACTIONS] = {
    [CADRE_ACT_FORWARD] = forward, [CADRE_ACT_BACKWARD] = backward, [CADRE_ACT_REDUCE] = reduce,
    [CADRE_ACT_CLIP] = clip,       [CADRE_ACT_UPDATE] = update,
};

/* Time in communication so far, as the statistics count it. */
static int64_t in_communication(const cadre_parallel *p) {
    cadre_comm_stats stats;
    cadre_comm_statistics(p->world, &stats);
    return stats.wait_ns + stats.busy_ns;
}

/* Gathering the norm's squares is communication's time, and no part of the update's. */
static cadre_status run_action(cadre_parallel *p, running *r, const cadre_action *a) {
    if (a->kind != CADRE_ACT_CLIP && a->kind != CADRE_ACT_UPDATE) return actions[a->kind](p, r, a);
    int64_t begin = cadre_now_ns(), other = in_communication(p);
    cadre_status st = actions[a->kind](p, r, a);
    r->result.update_ns += cadre_now_ns() - begin - (in_communication(p) - other);
    return st;
}

static cadre_status run_schedule(cadre_parallel *p, running *r) {
    CADRE_CHECK(r->micros >= 0 && r->micros < INT32_MAX / 2, CADRE_EUSAGE,
                "%" PRId64 " micro-batches a step; 0 to 10^9 would be accepted", r->micros);
    if (p->schedule_micros != r->micros) {
        cadre_schedule_free(&p->schedule);
        p->schedule_micros = -1;
        CADRE_TRY(cadre_schedules[p->cfg.schedule].write((int)r->micros, 0, 1, 1, &p->schedule));
        p->schedule_micros = r->micros;
    }
    p->serial++;
    p->last_micro = false;
    p->bad_param = -1;
    cadre_buckets_begin(p->buckets, false);
    for (int i = 0; i < p->schedule.count; i++) {
        const cadre_action *a = &p->schedule.at[i];
        cadre_trace_span span = cadre_trace_enter(CADRE_TRACE_COMPUTE, cadre_action_name(a->kind));
        cadre_status st = run_action(p, r, a);
        cadre_trace_leave(span, 0);
        CADRE_TRY(st);
        if (p->after_action) p->after_action(p->after_self);
    }
    return CADRE_OK;
}

void cadre_parallel_on_action(cadre_parallel *p, void (*after)(void *self), void *self) {
    p->after_action = after;
    p->after_self = self;
}

cadre_status cadre_parallel_step(cadre_parallel *p, const cadre_micro_source *source,
                                 int64_t micros, int64_t step, const bool vote[CADRE_VOTES],
                                 cadre_step_result *ret_result) {
    running r = {.source = source, .micros = micros, .step = step};
    cadre_comm_stats before, after;
    int64_t start = cadre_now_ns();
    cadre_comm_statistics(p->world, &before);
    for (int v = 0; v < CADRE_VOTES; v++) r.sum.vote[v] = vote && vote[v];
    r.result.lr = cadre_lr_at(&p->optim, step);
    cadre_status st = run_schedule(p, &r);
    if (st < 0 && st != CADRE_EPEER && !r.agreed_stop) {
        /* The others wait for this rank's gradients. */
        cadre_error error;
        cadre_error_save(&error);
        cadre_comm_abort(p->world, &error);
    }
    CADRE_TRY(st);
    cadre_comm_statistics(p->world, &after);
    r.result.exposed_ns = after.wait_ns - before.wait_ns;
    r.result.comm_ns = r.result.exposed_ns + after.busy_ns - before.busy_ns;
    r.result.step_ns = cadre_now_ns() - start;
    r.result.skipped_steps = p->skipped_steps;
    *ret_result = r.result;
    return CADRE_OK;
}
