/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan as people read it before step 0, and as a JSON document. Both say the same numbers.
 */
#include "insight/insight.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "insight/document.h"

typedef struct view {
    const cadre_plan *plan;
    const cadre_settings *set;
    cadre_config cfg;
    double lr; /* after scaling */
    int64_t dp, accumulation, total_bytes;
} view;

static cadre_status look(view *v, const cadre_plan *plan, const cadre_settings *set) {
    *v = (view){.plan = plan, .set = set};
    CADRE_TRY(cadre_config_fill(set, &v->cfg));
    const cadre_train_cfg *t = &v->cfg.train;
    v->dp = v->cfg.parallel.dp > 0 ? v->cfg.parallel.dp : plan->ranks;
    v->accumulation = t->micro_batch > 0 ? t->batch / (t->micro_batch * v->dp) : 0;
    cadre_optim_cfg scaled = v->cfg.optim;
    if (!isnan(plan->lr_scaled_from)) scaled.lr = plan->lr_scaled_from;
    cadre_optim_scale(&scaled, t->batch);
    v->lr = scaled.lr;
    for (int i = 0; i < CADRE_MEM_KINDS; i++) v->total_bytes += plan->bytes_per_rank[i];
    return CADRE_OK;
}

/* A setting as the user would write it. */
static const char *text_of(const view *v, const char *name) {
    const char *text = cadre_settings_get(v->set, name);
    return text ? text : "-";
}

/* `auto` as it will turn out on one machine. */
static const char *transport_of(const view *v) {
    const char *named = text_of(v, "comm.transport");
    if (strcmp(named, "auto") != 0) return named;
    return v->plan->ranks == 1 ? "self" : "shm";
}

/* ---- text ---- */

static void add_mesh(const view *v, cadre_text *to) {
    const cadre_run_cfg *r = &v->cfg.run;
    cadre_text_add(to, "mesh        dp %" PRId64 " = %d rank%s, transport %s, %d thread%s each",
                   v->dp, v->plan->ranks, v->plan->ranks == 1 ? "" : "s", transport_of(v),
                   v->plan->threads, v->plan->threads == 1 ? "" : "s");
    /* Of the machine: the calling thread may be bound already. */
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    bool room = (long)v->plan->ranks * v->plan->threads <= cores;
    cadre_text_add(to, r->pin && room ? ", pinned\n" : ", not pinned (%ld cores)\n", cores);
}

static void add_model(const view *v, cadre_text *to) {
    const cadre_model_cfg *m = &v->cfg.model;
    char count[32], trainable[32];
    cadre_text_add(to, "model       %s", text_of(v, "model.kind"));
    if (m->layers > 0)
        cadre_text_add(to,
                       ", %" PRId64 " layers, %" PRId64 " heads, width %" PRId64
                       ", context %" PRId64 ", vocabulary %" PRId64,
                       m->layers, m->heads, m->width, m->context, m->vocab);
    cadre_text_add(to, ": %s parameters",
                   cadre_show_count(count, sizeof count, v->plan->parameters));
    if (v->plan->trainable != v->plan->parameters)
        cadre_text_add(to, ", %s of them trained",
                       cadre_show_count(trainable, sizeof trainable, v->plan->trainable));
    if (m->from && m->dropout > 0 && !cadre_settings_given(v->set, "model.dropout"))
        cadre_text_add(to, "; model.dropout=%g is that of the weights", m->dropout);
    cadre_text_add(to, "\n");
}

static void add_data(const view *v, cadre_text *to) {
    char train[32], valid[32], samples[32];
    if (v->plan->train_tokens == 0) {
        cadre_text_add(to, "data        none looked at");
        if (!v->cfg.model.from && !cadre_settings_given(v->set, "model.vocab"))
            cadre_text_add(to,
                           "; a vocabulary of %" PRId64 " is assumed (data.train or model.vocab "
                           "would decide it)",
                           v->cfg.model.vocab);
        cadre_text_add(to, "\n");
        return;
    }
    cadre_text_add(to, "data        %s tokens to train on, %s to validate; %s samples an epoch\n",
                   cadre_show_count(train, sizeof train, v->plan->train_tokens),
                   cadre_show_count(valid, sizeof valid, v->plan->valid_tokens),
                   cadre_show_count(samples, sizeof samples, v->plan->samples_per_epoch));
}

static void add_batch(const view *v, cadre_text *to) {
    const cadre_train_cfg *t = &v->cfg.train;
    char tokens[32];
    cadre_text_add(to,
                   "batch       %" PRId64 " = micro_batch %" PRId64 " x dp %" PRId64
                   " x accumulation %" PRId64,
                   t->batch, t->micro_batch, v->dp, v->accumulation);
    if (t->context > 0)
        cadre_text_add(to, "; %s tokens a step",
                       cadre_show_count(tokens, sizeof tokens, t->batch * t->context));
    if (cadre_settings_given(v->set, "train.micro_batch") &&
        !cadre_settings_given(v->set, "train.batch"))
        cadre_text_add(to, " (train.micro_batch alone is given: the batch follows the ranks)");
    cadre_text_add(to, "\n");
}

static void add_steps(const view *v, cadre_text *to) {
    const cadre_train_cfg *t = &v->cfg.train;
    cadre_text_add(to, "steps       %" PRId64, t->steps);
    if (v->plan->samples_per_epoch > 0)
        cadre_text_add(to, " = %.3g epochs",
                       (double)t->steps * (double)t->batch / (double)v->plan->samples_per_epoch);
    if (v->plan->valid_tokens > 1 || v->plan->train_tokens == 0)
        cadre_text_add(to,
                       t->eval_every > 0 ? ", evaluation every %" PRId64 " and at the end"
                                         : ", evaluation at the end (every %" PRId64 ")",
                       t->eval_every);
    cadre_text_add(to, ", checkpoint every %s%s and at the end\n", text_of(v, "checkpoint.every"),
                   v->cfg.checkpoint.every.steps > 0 ? " steps" : "");
}

static void add_lr(const view *v, cadre_text *to) {
    const cadre_optim_cfg *o = &v->cfg.optim;
    cadre_text_add(to, "optimizer   %s, lr %g", text_of(v, "optim.kind"), v->lr);
    if (!isnan(v->plan->lr_scaled_from) && v->plan->lr_scaled_from != 0)
        cadre_text_add(to, " = %g x %.4g (scale_lr %s, batch %" PRId64 " / base_batch %" PRId64 ")",
                       v->plan->lr_scaled_from, v->lr / v->plan->lr_scaled_from,
                       text_of(v, "optim.scale_lr"), v->cfg.train.batch, o->base_batch);
    cadre_text_add(to, ", %s", text_of(v, "optim.schedule"));
    if (o->warmup_steps > 0) cadre_text_add(to, ", warm-up %" PRId64 " steps", o->warmup_steps);
    if (o->clip > 0) cadre_text_add(to, ", clip %g", o->clip);
    cadre_text_add(to, "\n");
}

static cadre_dtype compute_dtype(const view *v) {
    cadre_dtype dtype = CADRE_F32;
    (void)cadre_compute_dtype(text_of(v, "precision.compute"), &dtype); /* checked when set */
    return dtype;
}

static void add_precision(const view *v, cadre_text *to) {
    const char *asked = text_of(v, "precision.compute"), *reduce = text_of(v, "precision.reduce");
    cadre_dtype dtype = compute_dtype(v);
    cadre_text_add(to, "precision   %s", cadre_dtype_name(dtype));
    if (strcmp(asked, "auto") == 0)
        cadre_text_add(to, " (auto: this processor has %s bf16)",
                       cadre_has_bf16() ? "instructions for" : "no instructions for");
    if (dtype == CADRE_BF16) cadre_text_add(to, "; weights and their gradients are kept in f32");
    if (strcmp(reduce, "bf16") == 0) cadre_text_add(to, "; gradients travel in bf16");
    cadre_text_add(to, "\n");
}

static void add_memory(const view *v, cadre_text *to) {
    char part[32];
    int64_t limit = v->cfg.train.memory_limit; /* not given: what this machine has */
    bool above = v->total_bytes > limit && !cadre_settings_given(v->set, "train.memory_limit");
    cadre_text_add(to, "memory      ");
    for (int i = 0; i < CADRE_MEM_KINDS; i++)
        if (v->plan->bytes_per_rank[i] > 0)
            cadre_text_add(to, "%s %s  ", cadre_mem_name((cadre_mem)i),
                           cadre_show_bytes(part, sizeof part, (double)v->plan->bytes_per_rank[i]));
    cadre_text_add(to, "= %s a rank", cadre_show_bytes(part, sizeof part, (double)v->total_bytes));
    if (limit != CADRE_UNSET)
        cadre_text_add(to,
                       above ? ", above the %s a rank that this machine has" : ", of %s allowed",
                       cadre_show_bytes(part, sizeof part, (double)limit));
    cadre_text_add(to, "\n");
}

static void add_recompute(const view *v, cadre_text *to) {
    const cadre_plan *p = v->plan;
    if (v->cfg.train.recompute == 0) return;
    cadre_text_add(to,
                   "recompute   %s: %d of %d blocks, %.3g GFLOP a step more over all ranks "
                   "(%.1f %%)\n",
                   text_of(v, "train.recompute"), p->recomputed_blocks, p->blocks,
                   p->recompute_flops_per_step * 1e-9,
                   100 * p->recompute_flops_per_step / p->flops_per_step);
}

static void add_traffic(const view *v, cadre_text *to) {
    char part[32];
    if (v->dp > 1)
        cadre_text_add(to, "traffic     dp: %s in %d bucket%s a step\n",
                       cadre_show_bytes(part, sizeof part, (double)v->plan->traffic_bytes),
                       v->plan->buckets, v->plan->buckets == 1 ? "" : "s");
    else
        cadre_text_add(to, "traffic     none: one rank\n");
    cadre_text_add(to, "work        %.3g GFLOP a step over all ranks\n",
                   v->plan->flops_per_step * 1e-9);
}

cadre_status cadre_plan_text(const cadre_plan *plan, const cadre_settings *set, const char *folder,
                             cadre_text *to) {
    view v;
    CADRE_TRY(look(&v, plan, set));
    if (folder) cadre_text_add(to, "run         %s\n", folder);
    add_mesh(&v, to);
    add_model(&v, to);
    add_data(&v, to);
    add_batch(&v, to);
    add_steps(&v, to);
    add_lr(&v, to);
    add_precision(&v, to);
    add_memory(&v, to);
    add_recompute(&v, to);
    add_traffic(&v, to);
    return to->status;
}

/* ---- JSON ---- */

cadre_status cadre_plan_json(const cadre_plan *plan, const cadre_settings *set, cadre_text *to) {
    view v;
    CADRE_TRY(look(&v, plan, set));
    const cadre_train_cfg *t = &v.cfg.train;
    json_t *bytes = json_object();
    for (int i = 0; i < CADRE_MEM_KINDS; i++)
        json_object_set_new(bytes, cadre_mem_name((cadre_mem)i),
                            json_integer(plan->bytes_per_rank[i]));
    json_object_set_new(bytes, "total", json_integer(v.total_bytes));
    json_t *root = json_pack(
        "{s:i, s:i, s:i, s:{s:I, s:i, s:i, s:i}, s:I, s:I, s:{s:I, s:I, s:I, s:I}, s:I}", "schema",
        1, "ranks", plan->ranks, "threads", plan->threads, "mesh", "dp", (json_int_t)v.dp, "tp", 1,
        "pp", 1, "cp", 1, "parameters", (json_int_t)plan->parameters, "trainable",
        (json_int_t)plan->trainable, "batch", "batch", (json_int_t)t->batch, "micro_batch",
        (json_int_t)t->micro_batch, "dp", (json_int_t)v.dp, "accumulation",
        (json_int_t)v.accumulation, "steps", (json_int_t)t->steps);
    json_object_set_new(root, "bytes_per_rank", bytes);
    cadre_document_number(root, "flops_per_step", plan->flops_per_step);
    json_t *again = json_pack("{s:i, s:i}", "blocks", plan->recomputed_blocks, "of", plan->blocks);
    cadre_document_number(again, "flops_per_step", plan->recompute_flops_per_step);
    json_object_set_new(root, "recompute", again);
    if (t->memory_limit != CADRE_UNSET)
        json_object_set_new(root, "memory_limit", json_integer(t->memory_limit));
    json_object_set_new(root, "traffic",
                        json_pack("{s:{s:I, s:i}}", "dp", "bytes",
                                  (json_int_t)(v.dp > 1 ? plan->traffic_bytes : 0), "buckets",
                                  plan->buckets));
    cadre_document_number(root, "lr", v.lr);
    json_object_set_new(root, "precision",
                        json_pack("{s:s, s:s}", "compute", cadre_dtype_name(compute_dtype(&v)),
                                  "reduce", text_of(&v, "precision.reduce")));
    json_object_set_new(root, "data",
                        json_pack("{s:I, s:I, s:I}", "train_tokens", (json_int_t)plan->train_tokens,
                                  "valid_tokens", (json_int_t)plan->valid_tokens,
                                  "samples_per_epoch", (json_int_t)plan->samples_per_epoch));
    return cadre_document_add(root, false, to);
}
