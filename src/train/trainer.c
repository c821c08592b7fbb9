/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer: a step on batches of the caller's own. The same context, buckets and update as a
 * run; only where the numbers come from differs. Ranks may bring different numbers of samples, cut
 * into different numbers of forwards, or none.
 */
#include <cadre/train.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "train/resolve.h"
#include "train/run_private.h"

struct cadre_trainer {
    cadre_comm *world;
    cadre_model *model;
    cadre_settings *set; /* a resolved copy */
    cadre_config cfg;
    cadre_pool *pool;
    cadre_queue *queue;
    cadre_parallel *parallel;
    cadre_tape *eval_tape;
    int64_t base_bytes; /* of the process before the trainer opened anything */
    int64_t fitted;     /* numbers in the largest forward that memory was looked at for */
    int64_t step, samples;
    int64_t *counts; /* samples of each rank in this step */
    int64_t *ids;    /* global index of each sample of this rank */
    int64_t id_room;
};

/* The rank that fails by itself tells its peers; they fail at their next call. */
static cadre_status announce(cadre_trainer *t, cadre_status st) {
    if (st >= 0) return st;
    cadre_error error;
    char text[CADRE_ERROR_TEXT];
    cadre_error_save(&error);
    if (cadre_comm_first_failure(t->world, text, sizeof text) < 0)
        cadre_comm_abort(t->world, &error);
    return cadre_error_restore(&error);
}

static cadre_status open_all(cadre_trainer *t, const cadre_settings *set) {
    cadre_binding binding;
    const cadre_facts facts = {.world = cadre_comm_size(t->world),
                               .local_size = cadre_comm_local_size(t->world)};
    CADRE_TRY(cadre_settings_copy(&t->set, set));
    CADRE_TRY(cadre_settings_resolve_trainer(t->set, &facts));
    CADRE_TRY(cadre_config_fill(t->set, &t->cfg));
    cadre_optim_scale(&t->cfg.optim, t->cfg.train.batch);
    CADRE_TRY(cadre_alloc_array(&t->counts, CADRE_MEM_OTHER, facts.world, sizeof *t->counts));
    CADRE_TRY(cadre_rank_threads(t->world, t->cfg.run.threads, false, &t->pool, &binding));
    CADRE_TRY(cadre_queue_open(&t->queue, t->cfg.run.device, t->pool));
    CADRE_TRY(cadre_parallel_open(&t->parallel, t->world, t->model, t->queue, &t->cfg.parallel,
                                  &t->cfg.optim));
    CADRE_TRY(cadre_parallel_tape(t->parallel, &t->eval_tape));
    return cadre_parallel_draw(t->parallel);
}

cadre_status cadre_trainer_open(cadre_trainer **ret_trainer, cadre_comm *world, cadre_model *model,
                                const cadre_settings *set) {
    cadre_trainer *t = NULL;
    CADRE_CHECK(ret_trainer && world && model && set, CADRE_EUSAGE,
                "cadre_trainer_open takes a world, a model and settings");
    CADRE_TRY(cadre_alloc(&t, CADRE_MEM_OTHER, sizeof *t));
    t->world = world;
    t->model = model;
    t->base_bytes = cadre_memory_now();
    cadre_status st = announce(t, open_all(t, set));
    if (st) {
        cadre_trainer_close(&t);
        return cadre_pass_at(__FILE__, __LINE__, __func__, st);
    }
    *ret_trainer = t;
    return CADRE_OK;
}

void cadre_trainer_close(cadre_trainer **trainer) {
    cadre_trainer *t = trainer ? *trainer : NULL;
    if (!t) return;
    cadre_free(&t->ids);
    cadre_tape_close(&t->eval_tape);
    cadre_parallel_close(&t->parallel);
    cadre_queue_close(&t->queue);
    cadre_pool_close(&t->pool);
    cadre_free(&t->counts);
    cadre_settings_close(&t->set);
    cadre_free(trainer);
}

/* ---- batches ---- */

static cadre_status check_array(const char *what, const cadre_dims *dims, const void *data,
                                int64_t samples) {
    CADRE_CHECK(data || samples == 0, CADRE_EUSAGE, "the batch has %" PRId64 " samples and no %s",
                samples, what);
    CADRE_CHECK(samples == 0 || (dims->n >= 1 && dims->at[0] == samples), CADRE_EUSAGE,
                "the first dim of the batch's %s is %" PRId64 ", but it has %" PRId64 " samples",
                what, dims->n ? dims->at[0] : 0, samples);
    return CADRE_OK;
}

static cadre_status check_range(const char *what, const cadre_dims *dims, const int32_t *at,
                                int32_t low, int64_t high) {
    int64_t count = cadre_dims_count(dims), row = dims->at[0] ? count / dims->at[0] : 1;
    for (int64_t i = 0; i < count; i++)
        if (at[i] < low || at[i] >= high)
            return CADRE_FAIL(CADRE_EDATA,
                              "%s of sample %" PRId64 ", place %" PRId64 " is %" PRId32
                              "; it must be from %" PRId32 " to %" PRId64,
                              what, i / row, i % row, at[i], low, high - 1);
    return CADRE_OK;
}

static cadre_status check_batch(const cadre_trainer *t, const cadre_batch *b) {
    const cadre_model_cfg *m = cadre_model_config(t->model);
    int64_t vocab = m && m->vocab != CADRE_UNSET ? m->vocab : INT32_MAX;
    CADRE_CHECK(b && b->size == sizeof *b, CADRE_EUSAGE,
                "a batch starts from CADRE_BATCH, which fills its size");
    CADRE_CHECK(b->samples >= 0, CADRE_EUSAGE, "the batch has %" PRId64 " samples", b->samples);
    if (b->samples == 0) return CADRE_OK;
    CADRE_TRY(check_array("inputs", &b->inputs_dims, b->inputs, b->samples));
    if (b->inputs_dtype == CADRE_I32)
        CADRE_TRY(check_range("the token", &b->inputs_dims, b->inputs, 0, vocab));
    if (!b->labels) return CADRE_OK;
    CADRE_TRY(check_array("labels", &b->labels_dims, b->labels, b->samples));
    if (b->labels_dtype == CADRE_I32)
        CADRE_TRY(check_range("the label", &b->labels_dims, b->labels, -1, vocab));
    return CADRE_OK;
}

/* How many samples all ranks bring, and the index of each of this rank's. */
static cadre_status number_samples(cadre_trainer *t, const cadre_batch *b, int64_t *ret_total) {
    int64_t mine = b->samples, first = t->samples, total = 0;
    CADRE_TRY(
        cadre_all_gather(t->world, &mine, t->counts, 1, CADRE_I64, "samples of the step", NULL));
    for (int r = 0; r < cadre_comm_size(t->world); r++) {
        if (r < cadre_comm_rank(t->world)) first += t->counts[r];
        total += t->counts[r];
    }
    if (t->id_room < mine) {
        CADRE_TRY(cadre_realloc(&t->ids, CADRE_MEM_OTHER, (size_t)mine * sizeof *t->ids));
        t->id_room = mine;
    }
    for (int64_t i = 0; i < mine; i++) t->ids[i] = b->ids ? b->ids[i] : first + i;
    *ret_total = total;
    return CADRE_OK;
}

/* A batch cut into forwards. */
typedef struct cutter {
    const cadre_trainer *t;
    const cadre_batch *batch;
    int64_t micro_batch;
    bool training;
} cutter;

static cutter cutter_of(const cadre_trainer *t, const cadre_batch *b, bool training,
                        int64_t *ret_micros) {
    int64_t micro = t->cfg.train.micro_batch;
    if (!cadre_settings_given(t->set, "train.micro_batch")) micro = b->samples;
    *ret_micros = micro > 0 ? (b->samples + micro - 1) / micro : 0;
    return (cutter){t, b, micro, training};
}

static cadre_named_tensor cut(const char *name, const void *data, cadre_dtype dtype,
                              cadre_dims dims, int64_t first, int64_t rows) {
    int64_t row = dims.at[0] ? cadre_dims_count(&dims) / dims.at[0] : 0;
    dims.at[0] = rows;
    return (cadre_named_tensor){
        name,
        {.dtype = dtype,
         .dims = dims,
         .data = (char *)data + (size_t)(first * row) * cadre_dtype_size(dtype),
         .id = -1}};
}

static cadre_status next_cut(void *self, int64_t micro, cadre_pass *ret_pass) {
    const cutter *c = self;
    const cadre_batch *b = c->batch;
    int64_t first = micro * c->micro_batch, rows = b->samples - first;
    if (rows > c->micro_batch) rows = c->micro_batch;
    memset(ret_pass, 0, sizeof *ret_pass);
    ret_pass->training = c->training;
    ret_pass->label_smoothing = c->training ? c->t->cfg.optim.label_smoothing : 0;
    ret_pass->key = (cadre_draw_key){.seed = (uint64_t)c->t->cfg.train.seed,
                                     .step = c->t->step + 1,
                                     .samples = c->t->ids + first,
                                     .sample_count = rows};
    ret_pass->input[ret_pass->inputs++] =
        cut("inputs", b->inputs, b->inputs_dtype, b->inputs_dims, first, rows);
    if (b->labels)
        ret_pass->input[ret_pass->inputs++] =
            cut("labels", b->labels, b->labels_dtype, b->labels_dims, first, rows);
    return CADRE_OK;
}

/* ---- a step ---- */

/* Before a forward that is larger than any so far: which blocks are computed again for it. */
static cadre_status fit(cadre_trainer *t, cutter *c) {
    cadre_pass step;
    if (!cadre_recompute_asked(&t->cfg.train)) return CADRE_OK;
    CADRE_TRY(next_cut(c, 0, &step));
    int64_t size = cadre_count(&step.input[0].tensor);
    if (size <= t->fitted) return CADRE_OK;
    CADRE_TRY(cadre_recompute_fit(&t->cfg, t->parallel, &step, t->base_bytes));
    t->fitted = size;
    return CADRE_OK;
}

static cadre_status step(cadre_trainer *t, const cadre_batch *b, cadre_report *ret_report) {
    static const bool no_votes[CADRE_VOTES];
    int64_t total = 0, micros = 0, begin = cadre_now_ns();
    cadre_step_result r;
    CADRE_TRY(check_batch(t, b));
    CADRE_TRY(number_samples(t, b, &total));
    cutter c = cutter_of(t, b, true, &micros);
    if (micros > 0) CADRE_TRY(fit(t, &c));
    const cadre_micro_source source = {&c, next_cut};
    CADRE_TRY(cadre_parallel_step(t->parallel, &source, micros, t->step + 1, no_votes, &r));
    t->step++;
    t->samples += total;
    int64_t every = t->cfg.parallel.check_every;
    if (t->step == 1 || (every > 0 && t->step % every == 0))
        CADRE_TRY(cadre_parallel_check_equal(t->parallel, t->step));
    double times[3] = {(double)(cadre_now_ns() - begin) * 1e-6, (double)r.comm_ns * 1e-6,
                       (double)r.exposed_ns * 1e-6};
    CADRE_TRY(
        cadre_all_reduce(t->world, times, times, 3, CADRE_F64, CADRE_MAX, "step times", NULL));
    if (!ret_report) return CADRE_OK;
    ret_report->step = t->step;
    ret_report->samples = t->samples;
    ret_report->loss = r.loss;
    ret_report->grad_norm = r.grad_norm;
    ret_report->lr = r.lr;
    ret_report->step_ms = times[0];
    ret_report->comm_ms = times[1];
    ret_report->exposed_ms = times[2];
    ret_report->skipped = r.skipped;
    return CADRE_OK;
}

cadre_status cadre_trainer_step(cadre_trainer *t, const cadre_batch *batch,
                                cadre_report *ret_report) {
    CADRE_CHECK(!ret_report || ret_report->size == sizeof *ret_report, CADRE_EUSAGE,
                "a report starts from CADRE_REPORT, which fills its size");
    CADRE_TRY(announce(t, step(t, batch, ret_report)));
    return CADRE_OK;
}

/* ---- evaluation ---- */

static cadre_status evaluate(cadre_trainer *t, const cadre_batch *b, double sums[2]) {
    int64_t micros = 0, total = 0;
    CADRE_TRY(check_batch(t, b));
    CADRE_TRY(number_samples(t, b, &total));
    cutter c = cutter_of(t, b, false, &micros);
    for (int64_t i = 0; i < micros; i++) {
        cadre_pass pass;
        CADRE_TRY(next_cut(&c, i, &pass));
        CADRE_TRY(cadre_tape_begin(t->eval_tape, &pass));
        const cadre_tensor *loss = cadre_model_forward(t->model, t->eval_tape);
        CADRE_TRY(cadre_tape_status(t->eval_tape));
        const double *two = loss->data;
        sums[0] += two[0];
        sums[1] += two[1];
    }
    CADRE_TRY(cadre_all_reduce(t->world, sums, sums, 2, CADRE_F64, CADRE_SUM, "evaluation", NULL));
    CADRE_CHECK(sums[1] > 0, CADRE_EUSAGE, "no label of any rank's batch counts");
    return CADRE_OK;
}

cadre_status cadre_trainer_eval(cadre_trainer *t, const cadre_batch *batch, double *ret_loss,
                                double *ret_count) {
    double sums[2] = {0, 0};
    CADRE_TRY(announce(t, evaluate(t, batch, sums)));
    *ret_loss = sums[0] / sums[1];
    if (ret_count) *ret_count = sums[1];
    return CADRE_OK;
}

/* ---- checkpoints ---- */

cadre_status cadre_trainer_save(cadre_trainer *t, const char *folder) {
    char path[CADRE_PATH];
    const cadre_state_head head = {
        .step = t->step, .samples = t->samples, .valid_loss = NAN, .set = t->set};
    CADRE_TRY(announce(t, cadre_state_save(t->world, t->parallel, t->model, folder, &head, path)));
    return CADRE_OK;
}

static cadre_status resume(cadre_trainer *t, const char *path) {
    char found[CADRE_PATH] = "";
    if (cadre_comm_rank(t->world) == 0) CADRE_TRY(cadre_checkpoint_find(path, found, NULL));
    CADRE_TRY(cadre_broadcast(t->world, found, sizeof found, CADRE_U8, 0, "checkpoint", NULL));
    return cadre_state_load(t->world, t->parallel, t->model, found, 0, &t->step, &t->samples, NULL);
}

cadre_status cadre_trainer_resume(cadre_trainer *t, const char *path) {
    CADRE_TRY(announce(t, resume(t, path)));
    return CADRE_OK;
}

const void *cadre_trainer_values(cadre_trainer *t, const char *name, int64_t *ret_count,
                                 cadre_dtype *ret_dtype) {
    const cadre_parameter *p = cadre_model_find(t->model, name);
    if (!p) return NULL;
    if (ret_count) *ret_count = cadre_dims_count(&p->dims);
    if (ret_dtype) *ret_dtype = cadre_parallel_value_dtype(t->parallel, p->id);
    return cadre_parallel_value(t->parallel, p->id);
}
