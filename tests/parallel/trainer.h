/* SPDX-License-Identifier: Apache-2.0
 *
 * A small training for the tests of this room: a model, a global batch that every number of ranks
 * cuts in its own way, a few steps, and a record of what came out. Included by test programs.
 */
#ifndef CADRE_TESTS_TRAINER_H
#define CADRE_TESTS_TRAINER_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/hash.h"
#include "parallel/context.h"
#include "support/ranks.h"

/* TRAINER_LARGE: the size of gpt2-char instead. */
#ifdef TRAINER_LARGE
enum { ROOM = 830000, LENGTH = 64, CLASSES = 65 };
#define TRAINER_SIZE "4", "4", "128", "64", "65"
#else
enum { ROOM = 12000, LENGTH = 8, CLASSES = 11 };
#define TRAINER_SIZE "2", "2", "16", "8", "11"
#endif
enum { STEPS_MOST = 6, SAMPLES = 6, FEATURES = 7, LATE_NS = 200000000 };

typedef struct training {
    const char *kind;    /* "gpt2", "mlp" */
    bool wide;           /* f64 on ref; else f32 on cpu */
    bool narrow;         /* bf16 on cpu */
    bool narrow_wire;    /* gradients travel in bf16 */
    int steps;           /* 0: 1 */
    int64_t micro_batch; /* samples of one forward; 0: all of a rank's at once */
    int64_t bucket_bytes, first_bucket_bytes;
    bool no_overlap;
    int threads; /* 0: no pool */
    const char *optimizer;
    double clip;
    const char *freeze, *decay;
    const char *nonfinite;
    const char *poison; /* a parameter that one rank sets to NaN, on rank `poison_rank` */
    int poison_rank, poison_step;
    bool no_labels; /* nothing counts */
    double dropout;
    bool check; /* compare the weights over the ranks after every step */
    int plant;  /* rank + 1 that changes a weight after step 1; 0: none */
    bool meta;  /* a dry run; the world then has one rank */
    const char *dp;
    int recompute; /* blocks to be computed again */
    int late_rank; /* rank + 1 that sleeps LATE_NS behind every action; 0: none */
    bool faulty;
    int64_t fault;
} training;

typedef struct trained {
    double loss[STEPS_MOST], norm[STEPS_MOST], count[STEPS_MOST];
    bool skipped[STEPS_MOST];
    char nonfinite[192];
    int64_t skipped_steps;
    uint64_t hash;         /* of the weights at the end */
    int params;            /* of the model */
    int64_t first[64];     /* where each parameter's gradient lies; NULL where frozen: -1 */
    char name[64][64];     /* */
    double gradient[ROOM]; /* of the first step: sums over all ranks */
    double start[ROOM];    /* weights before and after */
    double end[ROOM];      /* */
    int in_flight;         /* operations of the backward pass beside which a bucket travelled */
    int64_t exposed_ns, update_ns; /* of the last step */
    int64_t traffic, buckets, bytes[CADRE_MEM_KINDS];
    int64_t live[CADRE_MEM_KINDS]; /* as counted, of all ranks of this process */
    int64_t first_live;            /* activations after the first step, the same */
    int64_t allocations;           /* of all ranks after the first step */
    int64_t apart;                 /* weights the model computes with that are not those kept */
} trained;

/* The settings that rooms above own and a model reads. */
static const cadre_setting trainer_rows[] = {
    {.name = "train.seed", .type = CADRE_SET_INT, .fallback = "1", .help = "seed"},
    {.name = "train.context", .type = CADRE_SET_INT, .help = "context", .derived = "context"},
    {.name = "precision.compute",
     .type = CADRE_SET_CHOICE,
     .fallback = "f32",
     .choices = "f32|bf16|auto|f64",
     .help = "type"},
    {.name = "run.device", .type = CADRE_SET_TEXT, .fallback = "cpu", .help = "device"},
};
static const cadre_setting_table trainer_table = {"test", trainer_rows, CADRE_COUNT(trainer_rows)};

static cadre_status trainer_settings(const training *t, cadre_settings **ret_set) {
    const cadre_setting_table *const tables[] = {&cadre_model_settings, &cadre_optim_settings,
                                                 &cadre_parallel_settings, &trainer_table};
    const bool gpt2 = strcmp(t->kind, "gpt2") == 0;
    static const char *const size[] = {TRAINER_SIZE};
    char clip[32], bytes[32], first[32], dropout[32];
    snprintf(clip, sizeof clip, "%.17g", t->clip);
    snprintf(bytes, sizeof bytes, "%lld", (long long)t->bucket_bytes);
    snprintf(first, sizeof first, "%lld", (long long)t->first_bucket_bytes);
    snprintf(dropout, sizeof dropout, "%.17g", t->dropout);
    const char *pairs[][2] = {
        {"model.kind", t->kind},
        {"model.layers", size[0]},
        {gpt2 ? "model.heads" : NULL, size[1]},
        {"model.width", size[2]},
        {"model.context", gpt2 ? size[3] : "7"},
        {"model.vocab", size[4]},
        {t->dropout > 0 ? "model.dropout" : NULL, dropout},
        {t->wide ? "precision.compute" : NULL, "f64"},
        {t->narrow ? "precision.compute" : NULL, "bf16"},
        {t->wide ? "run.device" : NULL, "ref"},
        {"optim.kind", t->optimizer ? t->optimizer : "adamw"},
        {"optim.lr", "0.01"},
        {"optim.schedule", "constant"},
        {"optim.warmup_steps", "0"},
        {"optim.clip", clip},
        {t->freeze ? "optim.freeze" : NULL, t->freeze},
        {t->decay ? "optim.decay" : NULL, t->decay},
        {t->nonfinite ? "optim.nonfinite" : NULL, t->nonfinite},
        {t->bucket_bytes ? "parallel.bucket_bytes" : NULL, bytes},
        {t->first_bucket_bytes ? "parallel.first_bucket_bytes" : NULL, first},
        {t->no_overlap ? "parallel.overlap" : NULL, "false"},
        {t->dp ? "parallel.dp" : NULL, t->dp},
    };
    cadre_settings *set = NULL;
    cadre_status st = cadre_settings_make(&set, tables, CADRE_COUNT(tables));
    for (int i = 0; i < CADRE_COUNT(pairs) && !st; i++)
        if (pairs[i][0])
            st = cadre_settings_put(set, pairs[i][0], pairs[i][1], CADRE_FROM_COMMAND, NULL);
    if (!st) st = cadre_model_apply_preset(set);
    if (!st) st = cadre_model_resolve(set);
    if (!st) st = cadre_optim_resolve(set, 100, SAMPLES);
    if (st) cadre_settings_close(&set);
    *ret_set = set;
    return st;
}

/* ---- data: sample s of step t is the same whoever computes it ---- */

typedef struct feed {
    const training *t;
    int64_t step, begin, end, micro_batch;
    int32_t tokens[SAMPLES * LENGTH], labels[SAMPLES * LENGTH];
    double wide[SAMPLES * FEATURES];
    float narrow[SAMPLES * FEATURES];
    int64_t ids[SAMPLES];
} feed;

static void fill_sample(feed *f, int64_t row, int64_t sample) {
    uint64_t at = (uint64_t)(f->step * 1000 + sample);
    bool gpt2 = strcmp(f->t->kind, "gpt2") == 0;
    f->ids[row] = (f->step - 1) * SAMPLES + sample;
    for (int i = 0; i < (gpt2 ? LENGTH : 1); i++) {
        uint32_t word = cadre_hash(&(uint64_t[2]){at, (uint64_t)i}, 16, 5) >> 32;
        int64_t k = gpt2 ? row * LENGTH + i : row;
        f->tokens[k] = (int32_t)(word % CLASSES);
        f->labels[k] = (int32_t)(word / 64 % CLASSES);
        /* Ranks have different counts. */
        if (f->t->no_labels || (gpt2 && i >= 2 + sample) || (!gpt2 && sample == 4))
            f->labels[k] = -1;
    }
    for (int i = 0; i < FEATURES && !gpt2; i++) {
        double x = (double)(cadre_hash(&(uint64_t[2]){at, (uint64_t)i}, 16, 6) % 1000) / 500 - 1;
        f->narrow[row * FEATURES + i] = (float)x;
        f->wide[row * FEATURES + i] = (float)x;
    }
}

static cadre_status next_micro(void *self, int64_t micro, cadre_pass *ret_pass) {
    feed *f = self;
    int64_t begin = f->begin + micro * f->micro_batch, end = begin + f->micro_batch;
    if (end > f->end) end = f->end;
    for (int64_t s = begin; s < end; s++) fill_sample(f, s - begin, s);
    bool gpt2 = strcmp(f->t->kind, "gpt2") == 0;
    int64_t n = end - begin;
    *ret_pass = (cadre_pass){.inputs = 2, .key = {.seed = 1, .samples = f->ids, .sample_count = n}};
    ret_pass->input[0].name = "inputs";
    ret_pass->input[1].name = "labels";
    if (gpt2) {
        ret_pass->input[0].tensor =
            (cadre_tensor){CADRE_I32, cadre_dims2(n, LENGTH), f->tokens, -1};
        ret_pass->input[1].tensor =
            (cadre_tensor){CADRE_I32, cadre_dims2(n, LENGTH), f->labels, -1};
    } else {
        void *x = f->t->wide ? (void *)f->wide : (void *)f->narrow;
        ret_pass->input[0].tensor =
            (cadre_tensor){f->t->wide ? CADRE_F64 : CADRE_F32, cadre_dims2(n, FEATURES), x, -1};
        ret_pass->input[1].tensor = (cadre_tensor){CADRE_I32, cadre_dims1(n), f->labels, -1};
    }
    return CADRE_OK;
}

/* ---- a training ---- */

static void keep(cadre_dtype dtype, const void *from, int64_t n, double *to) {
    cadre_convert(from, dtype, to, CADRE_F64, n);
}

static void keep_values(cadre_parallel *p, double *to) {
    const cadre_span *span = cadre_parallel_span(p);
    int64_t at = 0;
    for (int id = 0; id < span->params; id++) {
        keep(cadre_parallel_value_dtype(p, id), cadre_parallel_value(p, id), span->param[id].count,
             to + at);
        at += span->param[id].count;
    }
}

static void keep_gradients(cadre_parallel *p, trained *to) {
    const cadre_span *span = cadre_parallel_span(p);
    int64_t at = 0;
    to->params = span->params;
    for (int id = 0; id < span->params; id++) {
        const void *g = cadre_parallel_gradient(p, id);
        to->first[id] = g ? at : -1;
        snprintf(to->name[id], sizeof to->name[id], "%s", span->param[id].name);
        if (g) keep(cadre_parallel_gradient_dtype(p), g, span->param[id].count, to->gradient + at);
        at += span->param[id].count;
    }
    to->first[span->params] = at;
}

static void set_value(cadre_parallel *p, const cadre_model *m, const char *name, double x) {
    const cadre_parameter *param = cadre_model_find(m, name);
    void *v = cadre_parallel_value(p, param->id);
    cadre_convert(&x, CADRE_F64, v, cadre_parallel_value_dtype(p, param->id), 1);
    cadre_parallel_settle(p);
}

static cadre_status one_step(test_rank *me, cadre_parallel *p, const cadre_model *m, feed *f,
                             int step, trained *to) {
    const training *t = f->t;
    cadre_step_result r;
    int64_t mine = f->end - f->begin;
    int64_t micros = mine ? (mine + f->micro_batch - 1) / f->micro_batch : 0;
    const cadre_micro_source source = {f, next_micro};
    f->step = step;
    if (t->poison && t->poison_rank == me->rank && t->poison_step == step)
        set_value(p, m, t->poison, NAN);
    CADRE_TRY(cadre_parallel_step(p, &source, micros, step, NULL, &r));
    if (!to) return CADRE_OK;
    to->loss[step - 1] = r.loss;
    to->norm[step - 1] = r.grad_norm;
    to->count[step - 1] = r.count;
    to->skipped[step - 1] = r.skipped;
    to->skipped_steps = r.skipped_steps;
    to->exposed_ns = r.exposed_ns;
    to->update_ns = r.update_ns;
    if (r.nonfinite[0]) memcpy(to->nonfinite, r.nonfinite, sizeof to->nonfinite);
    if (step == 1 && !t->meta) keep_gradients(p, to);
    if (t->poison && t->poison_rank == me->rank && t->poison_step == step)
        set_value(p, m, t->poison, 0.25);
    return CADRE_OK;
}

static void sleep_late(void *unused) {
    (void)unused;
    cadre_sleep_ms(LATE_NS / 1000000);
}

static cadre_status all_steps(test_rank *me, cadre_parallel *p, const cadre_model *m,
                              const training *t) {
    trained *to = me->record;
    feed *f = calloc(1, sizeof *f);
    if (!f) return CADRE_FAIL(CADRE_ERESOURCE, "no memory");
    f->t = t;
    f->begin = (int64_t)me->rank * SAMPLES / me->size;
    f->end = (int64_t)(me->rank + 1) * SAMPLES / me->size;
    f->micro_batch = t->micro_batch ? t->micro_batch : SAMPLES;
    cadre_status st = cadre_parallel_draw(p);
    int64_t allocations = 0;
    if (to && !t->meta) keep_values(p, to->start);
    if (t->recompute) cadre_parallel_recompute(p, t->recompute);
    if (t->late_rank == me->rank + 1) cadre_parallel_on_action(p, sleep_late, NULL);
    for (int step = 1; step <= (t->steps ? t->steps : 1) && !st; step++) {
        st = one_step(me, p, m, f, step, to);
        if (step == 1 && t->plant == me->rank + 1) set_value(p, m, "transformer.wpe.weight", 7);
        if (!st && t->check) st = cadre_parallel_check_equal(p, step);
        if (st || step > 1) continue;
        if (to) to->first_live = cadre_mem_live(CADRE_MEM_ACTIVATIONS);
        st = cadre_barrier(me->comm, "after the first step"); /* all have taken what they need */
        allocations = cadre_mem_allocations();
    }
    if (!st) st = cadre_barrier(me->comm, "after the last step");
    if (to) {
        to->allocations = cadre_mem_allocations() - allocations;
        int64_t bytes[CADRE_MEM_KINDS];
        if (!t->meta) keep_values(p, to->end);
        for (int64_t i = 0; p->master && i < p->span.trained; i++)
            to->apart += ((uint16_t *)p->values)[i] != cadre_f32_to_bf16(p->master[i]);
        to->hash = cadre_parallel_hash(p);
        to->traffic = cadre_parallel_traffic(p);
        to->buckets = cadre_parallel_bucket_count(p);
        cadre_parallel_bytes(p, bytes);
        memcpy(to->bytes, bytes, sizeof bytes);
        for (int k = 0; k < CADRE_MEM_KINDS; k++) to->live[k] = cadre_mem_live((cadre_mem)k);
    }
    free(f);
    return st;
}

/* Counts the moments between two operations in which a bucket travels. */
typedef struct watch {
    cadre_parallel *p;
    cadre_status (*between)(void *self);
    int in_flight;
} watch;
static _Thread_local watch watching;

static cadre_status watched_between(void *self) {
    watching.in_flight += cadre_buckets_in_flight(watching.p->buckets);
    return watching.between(self);
}

/* The body of every rank. */
static cadre_status train_body(test_rank *me) {
    const training *t = me->arg;
    cadre_settings *set = NULL;
    cadre_model *model = NULL;
    cadre_pool *pool = NULL;
    cadre_queue *queue = NULL;
    cadre_parallel *p = NULL;
    cadre_parallel_cfg parallel = {0};
    cadre_optim_cfg optim;
    cadre_status st = trainer_settings(t, &set);
    if (!st && t->threads) st = cadre_pool_open(&pool, t->threads, NULL, cadre_kernel_thread_start);
    if (!st) st = cadre_model_open(&model, set);
    if (!st) st = cadre_queue_open(&queue, t->meta ? "meta" : t->wide ? "ref" : "cpu", pool);
    if (!st) st = cadre_settings_fill(set, &cadre_parallel_settings, &parallel);
    if (!st) st = cadre_settings_fill(set, &cadre_optim_settings, &optim);
    parallel.narrow_wire = t->narrow_wire;
    if (!st && t->faulty) st = cadre_barrier(me->comm, "before the fault");
    if (!st && t->faulty && me->rank == 0) cadre_fault_at(t->fault);
    if (!st && t->faulty) st = cadre_barrier(me->comm, "fault");
    if (!st) st = cadre_parallel_open(&p, me->comm, model, queue, &parallel, &optim);
    if (!st) {
        watching = (watch){p, p->training.between, 0};
        p->training.between = watched_between;
        st = all_steps(me, p, model, t);
        if (me->record) ((trained *)me->record)->in_flight = watching.in_flight;
    }
    cadre_parallel_close(&p);
    cadre_queue_close(&queue);
    cadre_model_close(&model);
    cadre_pool_close(&pool);
    cadre_settings_close(&set);
    return st;
}

/* Runs on `size` ranks; all have to end well and hold the same. The caller frees the records. */
__attribute__((unused)) static trained *run_training(const training *t, int size) {
    trained *records = calloc((size_t)size, sizeof *records);
    test_result results[16];
    assert_non_null(records);
    on_threads(size, NULL, train_body, t, records, sizeof *records, results);
    all_ok(results, size);
    for (int r = 1; r < size; r++) {
        assert_int_equal(records[r].hash, records[0].hash);
        assert_memory_equal(records[r].loss, records[0].loss, sizeof records[0].loss);
        assert_memory_equal(records[r].norm, records[0].norm, sizeof records[0].norm);
        assert_memory_equal(records[r].gradient, records[0].gradient, sizeof records[0].gradient);
    }
    return records;
}

/* ---- comparisons ---- */

/* Element count of parameter `id` in a record, where it has a gradient. */
static int64_t count_of(const trained *t, int id) {
    for (int next = id + 1; next <= t->params; next++)
        if (t->first[next] >= 0) return t->first[next] - t->first[id];
    return 0;
}

__attribute__((unused)) static void compare_gradients(const trained *got, const trained *want,
                                                      double tolerance) {
    assert_int_equal(got->params, want->params);
    for (int id = 0; id < want->params; id++) {
        assert_true(want->first[id] >= 0);
        double gap = relative_gap_f64(got->gradient + got->first[id],
                                      want->gradient + want->first[id], count_of(want, id));
        if (!(gap <= tolerance)) print_error("%s: gap %g\n", want->name[id], gap);
        assert_true(gap <= tolerance);
    }
    for (int s = 0; s < STEPS_MOST; s++) {
        assert_true(fabs(got->loss[s] - want->loss[s]) <= tolerance * want->loss[s]);
        assert_true(fabs(got->norm[s] - want->norm[s]) <= tolerance * want->norm[s]);
        assert_true(got->count[s] == want->count[s]);
    }
}

/* What must not change a bit. */
__attribute__((unused)) static void same_bits(const training *a, int size_a, const training *b,
                                              int size_b) {
    trained *x = run_training(a, size_a), *y = run_training(b, size_b);
    assert_int_equal(x->hash, y->hash);
    assert_memory_equal(x->gradient, y->gradient, sizeof x->gradient);
    assert_memory_equal(x->loss, y->loss, sizeof x->loss);
    assert_memory_equal(x->norm, y->norm, sizeof x->norm);
    free(x);
    free(y);
}

#endif
