/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix products of a step: listed from the calls that its queue runs, and run alone, in
 * several ways. The ways differ in how operands lie and how the work is cut; the numbers that go in
 * do not matter, and each writes memory of its own, so that nothing grows or vanishes over repeats.
 *
 *   step      the step's kernel: rows of the result in tiles
 *   whole     as the step's operands lie, rows shared over the threads in one piece each
 *   plain     the same, and no operand transposed
 *   columns   no operand transposed, columns shared over the threads
 */
#include <jansson.h>
#include <stdatomic.h>
#include <string.h>

#include "insight/bench_model.h"
#include "tensor/ops/cpu/dnnl.h"

const char *const cadre_bench_ways[CADRE_BENCH_WAYS] = {"step", "whole", "plain", "columns"};
enum { STEP, WHOLE, PLAIN, COLUMNS };

int cadre_bench_way_count(const cadre_queue *queue) {
    return cadre_pool_threads(queue->pool) > 1 ? CADRE_BENCH_WAYS : COLUMNS;
}

cadre_status cadre_bench_ways_find(const cadre_bench_products *list, int ways, cadre_bench_try *try,
                                   void *self, int *ret_way, double *ret_best, double *ret_own_ns) {
    *ret_own_ns = 0;
    for (int i = 0; i < list->count; i++) {
        ret_best[i] = 0;
        for (int way = 0; way < ways; way++) {
            double ns = 0;
            CADRE_TRY(try(self, i, way, ret_best[i], &ns));
            if (way == STEP) *ret_own_ns += ns * (double)list->calls[i];
            if (way != STEP && ns >= ret_best[i]) continue;
            ret_best[i] = ns;
            ret_way[i] = way;
        }
    }
    return CADRE_OK;
}

double cadre_bench_product_flops(const cadre_bench_product *p) {
    return 2.0 * (double)p->rows * (double)p->in * (double)p->out;
}

/* ---- listing ---- */

static bool same(const cadre_bench_product *a, const cadre_bench_product *b) {
    return a->rows == b->rows && a->in == b->in && a->out == b->out && a->phase == b->phase &&
           a->dtype == b->dtype && a->gradient == b->gradient && a->in_out == b->in_out &&
           a->add == b->add;
}

static cadre_status find_or_add(cadre_bench_products *l, const cadre_bench_product *p,
                                int *ret_which) {
    int which = 0;
    while (which < l->count && !same(&l->at[which], p)) which++;
    if (which == l->count) {
        CADRE_TRY(cadre_realloc(&l->at, CADRE_MEM_OTHER, (size_t)(which + 1) * sizeof *l->at));
        CADRE_TRY(
            cadre_realloc(&l->calls, CADRE_MEM_OTHER, (size_t)(which + 1) * sizeof *l->calls));
        l->at[which] = *p;
        l->calls[which] = 0;
        l->count++;
    }
    *ret_which = which;
    return CADRE_OK;
}

static cadre_status add_place(cadre_bench_products *l, const cadre_bench_product *p, void *weight,
                              void *gradient) {
    int which = 0;
    CADRE_TRY(find_or_add(l, p, &which));
    CADRE_TRY(
        cadre_realloc(&l->place, CADRE_MEM_OTHER, (size_t)(l->places + 1) * sizeof *l->place));
    l->place[l->places++] = (cadre_bench_place){which, weight, gradient};
    l->calls[which]++;
    return CADRE_OK;
}

static cadre_status list_linear(cadre_bench_products *l, const cadre_call *c, cadre_phase phase) {
    if (phase == CADRE_BACKWARD_INPUTS && !c->din[0]) return CADRE_OK;
    if (phase == CADRE_BACKWARD_PARAMS && !c->dparam[0]) return CADRE_OK;
    bool params = phase == CADRE_BACKWARD_PARAMS;
    const cadre_bench_product p = {
        .rows = cadre_rows(c->in[0]),
        .in = cadre_columns(c->in[0]),
        .out = cadre_columns(c->out),
        .phase = phase,
        .dtype = c->in[0]->dtype,
        .gradient = params ? c->dparam[0]->dtype : c->in[0]->dtype,
        .in_out = c->a.in_out,
        .add = params                           ? c->dparam_add[0]
               : phase == CADRE_BACKWARD_INPUTS ? c->din_add[0]
                                                : false,
    };
    return add_place(l, &p, l->dry ? NULL : c->param[0]->data,
                     l->dry || !params ? NULL : c->dparam[0]->data);
}

/* The three products of a block of the head's rows, by phase; returns how many there are. */
static int products_of_head(const cadre_call *c, int64_t rows, bool add,
                            cadre_bench_product ret[CADRE_PHASES]) {
    int count = c->dparam[0] ? 3 : 2;
    for (int i = 0; i < count; i++)
        ret[i] = (cadre_bench_product){.rows = rows,
                                       .in = cadre_columns(c->in[0]),
                                       .out = c->param[0]->dims.at[0],
                                       .phase = (cadre_phase)i,
                                       .dtype = c->in[0]->dtype,
                                       .gradient = c->in[0]->dtype};
    if (count == 3) ret[CADRE_BACKWARD_PARAMS].gradient = c->dparam[0]->dtype;
    ret[CADRE_BACKWARD_PARAMS].add = add;
    return count;
}

/* The head and its loss: three products a block of rows; and the same without blocks. */
static cadre_status list_head(cadre_bench_products *l, const cadre_call *c) {
    int64_t rows = cadre_rows(c->in[0]), most = c->scratch->dims.at[0];
    void *weight = l->dry ? NULL : c->param[0]->data;
    void *gradient = l->dry || !c->dparam[0] ? NULL : c->dparam[0]->data;
    cadre_bench_product p[CADRE_PHASES];
    cadre_bench_swap swap = {.first = l->places};
    for (int64_t first = 0; first < rows; first += most) {
        int64_t n = rows - first < most ? rows - first : most;
        int count = products_of_head(c, n, first > 0 || c->dparam_add[0], p);
        for (int i = 0; i < count; i++)
            CADRE_TRY(add_place(l, &p[i], weight, i == CADRE_BACKWARD_PARAMS ? gradient : NULL));
    }
    swap.end = l->places;
    if (rows <= most) return CADRE_OK;
    swap.count = products_of_head(c, rows, c->dparam_add[0], p);
    for (int i = 0; i < swap.count; i++) {
        swap.whole[i] =
            (cadre_bench_place){0, weight, i == CADRE_BACKWARD_PARAMS ? gradient : NULL};
        CADRE_TRY(find_or_add(l, &p[i], &swap.whole[i].which));
    }
    CADRE_TRY(cadre_realloc(&l->swap, CADRE_MEM_OTHER, (size_t)(l->swaps + 1) * sizeof *l->swap));
    l->swap[l->swaps++] = swap;
    return CADRE_OK;
}

static void list_call(void *self, const cadre_call *c, cadre_phase phase, int64_t ns,
                      int64_t product_ns) {
    cadre_bench_products *l = self;
    (void)ns;
    (void)product_ns;
    if (!l->status && c->op == CADRE_OP_LINEAR) l->status = list_linear(l, c, phase);
    if (!l->status && c->op == CADRE_OP_LINEAR_CROSS_ENTROPY && phase == CADRE_FORWARD)
        l->status = list_head(l, c);
}

cadre_op_watch cadre_bench_lister(cadre_bench_products *list, bool dry) {
    list->dry = dry;
    return (cadre_op_watch){.self = list, .done = list_call};
}

cadre_status cadre_bench_products_list(const cadre_bench_model *m, cadre_bench_products *ret_list) {
    cadre_bench_model dry = *m;
    cadre_bench_products list = {0};
    cadre_op_watch watch = cadre_bench_lister(&list, true);
    cadre_comm *alone[1] = {NULL};
    cadre_comm_opts opts = CADRE_COMM_OPTS;
    cadre_queue *queue = NULL;
    cadre_parallel *p = NULL;
    cadre_step_result result;
    opts.transport = "self";
    CADRE_TRY(cadre_comm_open_threads(alone, 1, &opts));
    cadre_status st = cadre_queue_open(&queue, "meta", NULL);
    if (!st) st = cadre_bench_parallel_open(m, alone[0], queue, &p);
    if (!st) {
        queue->watch = &watch;
        st = cadre_bench_model_step(&dry, p, 1, &result);
    }
    if (!st) st = list.status;
    cadre_parallel_close(&p);
    cadre_queue_close(&queue);
    cadre_comm_close(&alone[0]);
    if (st)
        cadre_bench_products_free(&list);
    else
        *ret_list = list;
    return st;
}

void cadre_bench_products_free(cadre_bench_products *list) {
    cadre_free(&list->at);
    cadre_free(&list->calls);
    cadre_free(&list->place);
    cadre_free(&list->swap);
    *list = (cadre_bench_products){0};
}

/* ---- running ---- */

static void fill(void *at, cadre_dtype dtype, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float x = 0.01f * (float)(i * 7 % 13 - 6);
        if (dtype == CADRE_BF16)
            ((uint16_t *)at)[i] = cadre_f32_to_bf16(x);
        else
            ((float *)at)[i] = x;
    }
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

cadre_status cadre_bench_runner_open(cadre_bench_runner *r, cadre_queue *queue,
                                     const cadre_bench_products *list) {
    int64_t x = 0, y = 0, w = 0;
    *r = (cadre_bench_runner){.queue = queue};
    for (int i = 0; i < list->count; i++) {
        const cadre_bench_product *p = &list->at[i];
        x = most(x, p->rows * p->in);
        y = most(y, p->rows * p->out);
        w = most(w, p->in * p->out);
    }
    cadre_dtype dtype = list->count ? list->at[0].dtype : CADRE_F32;
    cadre_status st = cadre_alloc_array(&r->x, CADRE_MEM_OTHER, x, sizeof(float));
    if (!st) st = cadre_alloc_array(&r->y, CADRE_MEM_OTHER, y, sizeof(float));
    if (!st) st = cadre_alloc_array(&r->weight, CADRE_MEM_OTHER, w, sizeof(float));
    if (!st) st = cadre_alloc_array(&r->result, CADRE_MEM_OTHER, most(x, y), sizeof(float));
    if (!st) st = cadre_alloc_array(&r->gradient, CADRE_MEM_OTHER, w, sizeof(float));
    if (st) {
        cadre_bench_runner_close(r);
        return st;
    }
    fill(r->x, dtype, x);
    fill(r->y, dtype, y);
    fill(r->weight, dtype, w);
    return CADRE_OK;
}

void cadre_bench_runner_close(cadre_bench_runner *r) {
    cadre_free(&r->x);
    cadre_free(&r->y);
    cadre_free(&r->weight);
    cadre_free(&r->result);
    cadre_free(&r->gradient);
}

static void *weight_of(const cadre_bench_runner *r, const cadre_bench_place *place) {
    return place && place->weight ? place->weight : r->weight;
}

static void *gradient_of(const cadre_bench_runner *r, const cadre_bench_place *place) {
    return place && place->gradient ? place->gradient : r->gradient;
}

/* A call of the layer without bias and GELU, through the kernel of the step. */
static cadre_status run_step(cadre_bench_runner *r, const cadre_bench_product *p,
                             const cadre_bench_place *place) {
    cadre_dims w = p->in_out ? cadre_dims2(p->in, p->out) : cadre_dims2(p->out, p->in);
    cadre_tensor x = {p->dtype, cadre_dims2(p->rows, p->in), r->x, -1};
    cadre_tensor y = {p->dtype, cadre_dims2(p->rows, p->out), r->y, -1};
    cadre_tensor result = {p->gradient, p->phase == CADRE_FORWARD ? y.dims : x.dims, r->result, -1};
    cadre_tensor weight = {p->dtype, w, weight_of(r, place), -1};
    cadre_tensor gradient = {p->gradient, w, gradient_of(r, place), -1};
    cadre_call c = {.op = CADRE_OP_LINEAR, .in = {&x}, .param = {&weight}, .out = &y};
    c.a.in_out = p->in_out;
    if (p->phase == CADRE_FORWARD) c.out = &result;
    if (p->phase != CADRE_FORWARD) c.dout = &y;
    if (p->phase == CADRE_BACKWARD_INPUTS) c.din[0] = &result;
    if (p->phase == CADRE_BACKWARD_PARAMS) c.dparam[0] = &gradient;
    c.din_add[0] = c.dparam_add[0] = p->add;
    return r->queue->backend->kernel[CADRE_OP_LINEAR][p->phase](r->queue, &c);
}

typedef struct pieces {
    cadre_product whole;
    const char *a, *b;
    char *c;
    bool columns;
    atomic_int status; /* of the first that failed */
} pieces;

static void run_piece(void *arg, int64_t begin, int64_t end, int worker) {
    pieces *s = arg;
    cadre_product p = s->whole;
    int64_t a = 0, b = 0, c = begin;
    size_t size = cadre_dtype_size(p.ab);
    (void)worker;
    if (s->columns) {
        p.n = end - begin;
        b = p.b_transposed ? begin * p.ldb : begin;
    } else {
        p.m = end - begin;
        a = p.a_transposed ? begin : begin * p.lda;
        c = begin * p.ldc;
    }
    cadre_status st = cadre_product_run(&p, s->a + (size_t)a * size, s->b + (size_t)b * size,
                                        s->c + (size_t)c * cadre_dtype_size(p.c));
    if (st) atomic_store(&s->status, (int)st);
}

/* The product as one of matrices: C (m, n) = A (m, k) B (k, n). */
static pieces pieces_of(cadre_bench_runner *r, const cadre_bench_product *p,
                        const cadre_bench_place *place) {
    pieces s = {.c = (char *)r->result};
    cadre_product *w = &s.whole;
    if (p->phase == CADRE_FORWARD) {
        *w = (cadre_product){.m = p->rows, .n = p->out, .k = p->in, .b_transposed = !p->in_out};
        s.a = (void *)(r->x);
        s.b = (void *)(weight_of(r, place));
    } else if (p->phase == CADRE_BACKWARD_INPUTS) {
        *w = (cadre_product){.m = p->rows, .n = p->in, .k = p->out, .b_transposed = p->in_out};
        s.a = (void *)(r->y);
        s.b = (void *)(weight_of(r, place));
    } else {
        *w = (cadre_product){.m = p->in_out ? p->in : p->out,
                             .n = p->in_out ? p->out : p->in,
                             .k = p->rows,
                             .a_transposed = true};
        s.a = (void *)(p->in_out ? r->x : r->y);
        s.b = (void *)(p->in_out ? r->y : r->x);
        s.c = (void *)(gradient_of(r, place));
    }
    w->add = p->add;
    w->ab = p->dtype;
    w->c = p->gradient;
    return s;
}

static cadre_status run_pieces(cadre_bench_runner *r, const cadre_bench_product *p, int way,
                               const cadre_bench_place *place) {
    pieces s = pieces_of(r, p, place);
    int threads = cadre_pool_threads(r->queue->pool);
    if (way != WHOLE) s.whole.a_transposed = s.whole.b_transposed = false;
    s.whole.lda = s.whole.a_transposed ? s.whole.m : s.whole.k;
    s.whole.ldb = s.whole.b_transposed ? s.whole.k : s.whole.n;
    s.whole.ldc = s.whole.n;
    s.columns = way == COLUMNS;
    int64_t n = s.columns ? s.whole.n : s.whole.m;
    cadre_pool_for(r->queue->pool, n, (n + threads - 1) / threads, run_piece, &s);
    CADRE_CHECK(s.status == 0, CADRE_EINTERNAL, "a product of a bench failed");
    return CADRE_OK;
}

cadre_status cadre_bench_runner_run(cadre_bench_runner *r, const cadre_bench_product *p, int way,
                                    const cadre_bench_place *place) {
    return way == STEP ? run_step(r, p, place) : run_pieces(r, p, way, place);
}
