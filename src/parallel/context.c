/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a context: span, memory, buckets, segments. Nothing here runs a step
 * (executor.c).
 */
#include "parallel/context.h"

#include <inttypes.h>
#include <string.h>

/* ---- agreement ---- */

/* Collective: do all ranks train the same model? Named is the first rank whose differs from rank
 * 0's. */
static cadre_status compare_models(const cadre_parallel *p) {
    int size = cadre_comm_size(p->world);
    int64_t mine = (int64_t)cadre_span_hash(&p->span, p->model), *all = NULL;
    CADRE_TRY(cadre_alloc_array(&all, CADRE_MEM_OTHER, size, sizeof *all));
    cadre_status st = cadre_all_gather(p->world, &mine, all, 1, CADRE_I64, "model", NULL);
    for (int r = 1; r < size && !st; r++)
        if (all[r] != all[0])
            st = CADRE_FAIL(CADRE_EUSAGE,
                            "rank %d has another model than rank 0: names, shapes, types and "
                            "frozen parameters have to agree on all ranks",
                            r);
    cadre_free(&all);
    return st;
}

static cadre_status plan_mesh(cadre_parallel *p) {
    const cadre_parallel_cfg *c = &p->cfg;
    int dp = c->dp == CADRE_UNSET ? 0 : (int)c->dp;
    const int degree[CADRE_AXES] = {[CADRE_AXIS_PP] = (int)c->pp,
                                    [CADRE_AXIS_DP] = dp,
                                    [CADRE_AXIS_CP] = (int)c->cp,
                                    [CADRE_AXIS_TP] = (int)c->tp};
    int size = cadre_comm_size(p->world);
    /* A dry run plans for ranks that are not there. */
    if (p->queue->meta && dp > 0) size = degree[0] * degree[1] * degree[2] * degree[3];
    CADRE_CHECK(c->zero == 0 && c->tp == 1 && c->pp == 1 && c->cp == 1, CADRE_EUSAGE,
                "parallel: zero %" PRId64 ", tp %" PRId64 ", pp %" PRId64 ", cp %" PRId64
                ": not built yet; zero 0 and degrees of 1 would be accepted",
                c->zero, c->tp, c->pp, c->cp);
    return cadre_mesh_plan(&p->mesh, size, degree);
}

/* ---- parts ---- */

static cadre_status list_items(cadre_parallel *p) {
    const cadre_span *span = &p->span;
    const cadre_list *decay = &p->optim.decay;
    CADRE_TRY(cadre_list_check(decay, p->model, "optim.decay"));
    CADRE_TRY(cadre_alloc_array(&p->item, CADRE_MEM_OTHER, span->params, sizeof *p->item));
    CADRE_TRY(cadre_alloc_array(&p->segment, CADRE_MEM_OTHER, span->params, sizeof *p->segment));
    CADRE_TRY(
        cadre_alloc_array(&p->item_param, CADRE_MEM_OTHER, span->params, sizeof *p->item_param));
    CADRE_TRY(
        cadre_alloc_array(&p->param_item, CADRE_MEM_OTHER, span->params, sizeof *p->param_item));
    CADRE_TRY(cadre_alloc_array(&p->written, CADRE_MEM_OTHER, span->params, sizeof *p->written));
    for (int id = 0; id < span->params; id++) {
        const cadre_span_param *at = &span->param[id];
        const cadre_parameter *param = cadre_model_param(p->model, id);
        p->param_item[id] = at->frozen ? -1 : p->items;
        if (at->frozen) continue;
        bool decayed = decay->count ? cadre_list_matches(decay, at->name) : param->decay;
        p->item_param[p->items] = id;
        p->item[p->items] = (cadre_bucket_item){at->offset, at->count, param->block, true};
        p->segment[p->items] = (cadre_segment){.param = id,
                                               .offset = at->offset,
                                               .length = at->count,
                                               .decay = decayed ? p->optim.weight_decay : 0,
                                               .lr_scale = 1};
        p->items++;
    }
    return CADRE_OK;
}

/* Memory that peers can read, counted under `kind`. */
static cadre_status take_shared(cadre_parallel *p, cadre_mem kind, void **ret_at) {
    size_t bytes = (size_t)p->predicted[kind];
    CADRE_TRY(cadre_comm_alloc(p->world, bytes, ret_at));
    cadre_mem_note(kind, (int64_t)bytes);
    p->noted[kind] = (int64_t)bytes;
    return CADRE_OK;
}

static void give_shared(cadre_parallel *p, cadre_mem kind, void **at) {
    if (*at) cadre_comm_free(p->world, *at);
    *at = NULL;
    cadre_mem_note(kind, -p->noted[kind]);
    p->noted[kind] = 0;
}

static void predict_bytes(cadre_parallel *p) {
    int64_t dp = p->mesh.degree[CADRE_AXIS_DP], chunks = p->span.trained / CADRE_CHUNK;
    int64_t kept = p->optimizer->states + (p->master_dtype != p->span.dtype); /* and the master */
    p->predicted[CADRE_MEM_PARAMETERS] = p->span.length * (int64_t)cadre_dtype_size(p->span.dtype);
    p->predicted[CADRE_MEM_GRADIENTS] =
        p->span.trained * (int64_t)cadre_dtype_size(p->gradient_dtype);
    p->predicted[CADRE_MEM_OPTIMIZER] =
        kept * p->span.trained * (int64_t)cadre_dtype_size(p->master_dtype);
    p->predicted[CADRE_MEM_BUCKETS] = (chunks + dp - 1) / dp * dp * (int64_t)sizeof(double);
}

static cadre_status take_memory(cadre_parallel *p) {
    size_t size = cadre_dtype_size(p->master_dtype);
    CADRE_TRY(take_shared(p, CADRE_MEM_PARAMETERS, &p->values));
    CADRE_TRY(take_shared(p, CADRE_MEM_GRADIENTS, &p->gradients));
    for (int k = 0; k < p->optimizer->states; k++)
        CADRE_TRY(cadre_alloc_array(&p->state[k], CADRE_MEM_OPTIMIZER, p->span.trained, size));
    if (p->master_dtype != p->span.dtype)
        CADRE_TRY(cadre_alloc_array(&p->master, CADRE_MEM_OPTIMIZER, p->span.trained, size));
    return cadre_norm_open(&p->norm, p->world, p->span.trained);
}

static cadre_status open_parts(cadre_parallel *p) {
    CADRE_TRY(plan_mesh(p));
    CADRE_TRY(cadre_span_open(&p->span, p->model, &p->optim.freeze));
    CADRE_TRY(compare_models(p));
    CADRE_TRY(list_items(p));
    p->master_dtype = p->gradient_dtype = cadre_sum_dtype(p->span.dtype);
    p->wire_dtype = p->cfg.narrow_wire ? CADRE_BF16 : p->gradient_dtype;
    predict_bytes(p);
    if (!p->queue->meta) CADRE_TRY(take_memory(p));
    int64_t bytes = p->cfg.bucket_bytes, first = p->cfg.first_bucket_bytes;
    if (first == CADRE_UNSET) first = bytes < (1 << 20) ? bytes : 1 << 20;
    CADRE_TRY(cadre_buckets_open(&p->buckets, p->world, p->item, p->items, p->span.trained,
                                 p->gradient_dtype, p->wire_dtype, p->gradients, bytes, first,
                                 p->cfg.overlap));
    cadre_buckets_on_start(p->buckets, cadre_parallel_scan, p);
    cadre_parallel_stores(p);
    return cadre_tape_open(&p->tape, p->queue, &p->training, p->span.dtype);
}

cadre_status cadre_parallel_open(cadre_parallel **ret_parallel, cadre_comm *world,
                                 const cadre_model *model, cadre_queue *queue,
                                 const cadre_parallel_cfg *cfg, const cadre_optim_cfg *optim) {
    CADRE_CHECK(optim->kind >= 0 && optim->kind < cadre_optimizer_count &&
                    cadre_optimizers[optim->kind].apply,
                CADRE_EUSAGE, "optimizer %d is not built; adamw and sgd would be accepted",
                optim->kind);
    cadre_parallel *p = NULL;
    CADRE_TRY(cadre_alloc(&p, CADRE_MEM_OTHER, sizeof *p));
    p->world = world;
    p->model = model;
    p->queue = queue;
    p->cfg = *cfg;
    p->optim = *optim;
    p->optimizer = &cadre_optimizers[optim->kind];
    p->schedule_micros = -1;
    p->bad_param = -1;
    cadre_status st = open_parts(p);
    if (st) {
        cadre_parallel_close(&p);
        return cadre_pass_at(__FILE__, __LINE__, __func__, st);
    }
    *ret_parallel = p;
    return CADRE_OK;
}

void cadre_parallel_close(cadre_parallel **parallel) {
    cadre_parallel *p = *parallel;
    if (!p) return;
    cadre_schedule_free(&p->schedule);
    cadre_tape_close(&p->tape);
    cadre_buckets_close(&p->buckets);
    cadre_norm_close(&p->norm);
    cadre_free(&p->master);
    for (int k = 0; k < CADRE_OPTIM_STATES; k++) cadre_free(&p->state[k]);
    give_shared(p, CADRE_MEM_GRADIENTS, &p->gradients);
    give_shared(p, CADRE_MEM_PARAMETERS, &p->values);
    cadre_free(&p->hashes);
    cadre_free(&p->written);
    cadre_free(&p->param_item);
    cadre_free(&p->item_param);
    cadre_free(&p->segment);
    cadre_free(&p->item);
    cadre_span_close(&p->span);
    cadre_free(parallel);
}

/* ---- start values ---- */

typedef struct draw {
    cadre_parallel *p;
    const cadre_parameter *param;
} draw;

static void draw_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const draw *d = arg;
    cadre_dtype dtype = cadre_parallel_value_dtype(d->p, d->param->id);
    char *to = cadre_parallel_value(d->p, d->param->id);
    to += (size_t)begin * cadre_dtype_size(dtype);
    cadre_model_draw(d->p->model, d->param, begin, end - begin, dtype, to);
}

cadre_status cadre_parallel_draw(cadre_parallel *p) {
    if (p->queue->meta) return CADRE_OK;
    for (int id = 0; id < p->span.params; id++) {
        draw d = {p, cadre_model_param(p->model, id)};
        cadre_pool_for(p->queue->pool, p->span.param[id].count, CADRE_CHUNK, draw_range, &d);
    }
    cadre_parallel_settle(p);
    size_t bytes = (size_t)p->span.trained * cadre_dtype_size(p->master_dtype);
    for (int k = 0; k < p->optimizer->states; k++) memset(p->state[k], 0, bytes);
    return CADRE_OK;
}

/* ---- questions ---- */

bool cadre_parallel_frozen(const cadre_parallel *p, int id) {
    return p->span.param[id].frozen;
}

const cadre_optimizer *cadre_parallel_optimizer(const cadre_parallel *p) {
    return p->optimizer;
}

const cadre_mesh *cadre_parallel_mesh(const cadre_parallel *p) {
    return &p->mesh;
}

const cadre_span *cadre_parallel_span(const cadre_parallel *p) {
    return &p->span;
}

int cadre_parallel_bucket_count(const cadre_parallel *p) {
    return cadre_buckets_count(p->buckets);
}

void cadre_parallel_bytes(const cadre_parallel *p, int64_t ret_bytes[CADRE_MEM_KINDS]) {
    memcpy(ret_bytes, p->predicted, sizeof p->predicted);
    ret_bytes[CADRE_MEM_ACTIVATIONS] = (int64_t)cadre_tape_peak_bytes(p->tape);
}

int64_t cadre_parallel_traffic(const cadre_parallel *p) {
    int64_t elements = 0;
    if (p->mesh.degree[CADRE_AXIS_DP] == 1) return 0;
    for (int i = 0; i < cadre_buckets_count(p->buckets); i++) {
        const cadre_bucket_range *r = cadre_buckets_range(p->buckets, i);
        elements += r->end - r->first;
    }
    return elements * (int64_t)cadre_dtype_size(p->wire_dtype);
}
