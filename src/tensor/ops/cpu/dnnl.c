/* SPDX-License-Identifier: Apache-2.0
 *
 * oneDNN behind one function.
 *
 *   f32    dnnl_sgemm, which packs both operands: as fast as the best layout, in any layout. (Its
 *          matmul primitives lose half their rate where rows are a multiple of 4 KiB apart.)
 *   bf16   matmul primitives where the processor has fast products of bf16; elsewhere the operands
 *          are widened into scratch and multiplied in f32, which is faster there.
 *
 * Each thread keeps the primitives it has made in a table of its own, by shape, with their memory
 * objects: a call sets three addresses and executes. What 2.6 and 3.x name differently is in the
 * first part of this file.
 *
 * Signals wait while a product runs: oneDNN's generated code uses the stack pointer as an ordinary
 * register, so the frame of a handler that ran then would be written over data.
 */
#include "tensor/ops/cpu/dnnl.h"

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

#include "base/clock.h"
#include "base/hash.h"
#include "tensor/device.h"
#include "tensor/ops/cpu/pooled.h"

/* ---- the two interfaces ---- */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t matrix_desc;

static dnnl_status_t make_desc(matrix_desc *ret, dnnl_data_type_t type, const dnnl_dims_t dims,
                               const dnnl_dims_t strides) {
    return dnnl_memory_desc_create_with_strides(ret, 2, dims, type, strides);
}

static void drop_desc(matrix_desc *d) {
    if (*d) dnnl_memory_desc_destroy(*d);
}

static dnnl_status_t make_product(dnnl_primitive_desc_t *ret, dnnl_engine_t engine, matrix_desc *a,
                                  matrix_desc *b, matrix_desc *c,
                                  dnnl_primitive_attr_t attributes) {
    return dnnl_matmul_primitive_desc_create(ret, engine, *a, *b, NULL, *c, attributes);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t make_memory(dnnl_memory_t *ret, matrix_desc *d, dnnl_engine_t engine) {
    return dnnl_memory_create(ret, *d, engine, DNNL_MEMORY_NONE);
}
#else
typedef dnnl_memory_desc_t matrix_desc;

static dnnl_status_t make_desc(matrix_desc *ret, dnnl_data_type_t type, const dnnl_dims_t dims,
                               const dnnl_dims_t strides) {
    return dnnl_memory_desc_init_by_strides(ret, 2, dims, type, strides);
}

static void drop_desc(matrix_desc *d) {
    (void)d;
}

static dnnl_status_t make_product(dnnl_primitive_desc_t *ret, dnnl_engine_t engine, matrix_desc *a,
                                  matrix_desc *b, matrix_desc *c,
                                  dnnl_primitive_attr_t attributes) {
    dnnl_matmul_desc_t desc;
    dnnl_status_t st = dnnl_matmul_desc_init(&desc, a, b, NULL, c);
    return st == dnnl_success ? dnnl_primitive_desc_create(ret, &desc, attributes, engine, NULL)
                              : st;
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

static dnnl_status_t make_memory(dnnl_memory_t *ret, matrix_desc *d, dnnl_engine_t engine) {
    return dnnl_memory_create(ret, d, engine, DNNL_MEMORY_NONE);
}
#endif

/* ---- which products of bf16 ---- */

/* AMD's processors multiply pairs of bf16 at twice the rate of f32, and so do Intel's matrix units
 * (AMX); Intel's vector instruction for bf16 alone has the rate of f32, and oneDNN reaches half. */
static int chosen_way;

void cadre_product_choose_bf16(int way) {
    chosen_way = way;
}

bool cadre_product_bf16_is_fast(void) {
    if (chosen_way) return chosen_way > 0;
#if defined(__x86_64__) && defined(__GNUC__)
    unsigned a, b, c, d;
    if (!cadre_has_bf16()) return false;
    if (__builtin_cpu_is("amd")) return true;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & 1u << 22) != 0;
#else
    return false;
#endif
}

/* ---- a thread's primitives ---- */

enum { SLOTS = 1024, ARGUMENTS = 3 };

typedef struct entry {
    cadre_product shape;
    dnnl_primitive_t primitive; /* NULL: free */
    dnnl_exec_arg_t arg[ARGUMENTS];
    int args;
} entry;

typedef struct thread_cache {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    bool quiet; /* this thread has all signals blocked for good, as a pool's threads have */
    int used;
    entry at[SLOTS];
} thread_cache;

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local thread_cache *mine;

static void drop_entry(entry *e) {
    for (int i = 0; i < e->args; i++) dnnl_memory_destroy(e->arg[i].memory);
    if (e->primitive) dnnl_primitive_destroy(e->primitive);
    *e = (entry){0};
}

static void drop_cache(void *cache) {
    thread_cache *t = cache;
    for (int i = 0; i < SLOTS; i++) drop_entry(&t->at[i]);
    if (t->stream) dnnl_stream_destroy(t->stream);
    if (t->engine) dnnl_engine_destroy(t->engine);
    free(t);
}

static void make_key(void) {
    pthread_key_create(&key, drop_cache);
}

static bool all_blocked(void) {
    sigset_t now;
    bool all = pthread_sigmask(SIG_SETMASK, NULL, &now) == 0;
    for (int number = 1; number <= SIGRTMAX; number++)
        if (number < __SIGRTMIN || number >= SIGRTMIN)
            all = all && (number == SIGKILL || number == SIGSTOP || sigismember(&now, number) == 1);
    return all;
}

static cadre_status open_cache(void) {
    thread_cache *t = calloc(1, sizeof *t);
    CADRE_CHECK(t, CADRE_ERESOURCE, "no memory for oneDNN's primitives");
    if (dnnl_engine_create(&t->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&t->stream, t->engine, dnnl_stream_default_flags) != dnnl_success) {
        drop_cache(t);
        return CADRE_FAIL(CADRE_EINTERNAL, "oneDNN gives no CPU engine");
    }
    pthread_once(&once, make_key);
    pthread_setspecific(key, t);
    t->quiet = all_blocked();
    cadre_kernel_thread_start(0); /* whoever calls: one OpenMP thread */
    mine = t;
    return CADRE_OK;
}

static dnnl_status_t add_argument(entry *e, int which, matrix_desc *d) {
    dnnl_memory_t memory;
    dnnl_status_t st = make_memory(&memory, d, mine->engine);
    if (st == dnnl_success) e->arg[e->args++] = (dnnl_exec_arg_t){which, memory};
    return st;
}

static dnnl_status_t make_primitive(entry *e, matrix_desc *a, matrix_desc *b, matrix_desc *c) {
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t st = dnnl_primitive_attr_create(&attributes);
    if (st == dnnl_success && e->shape.add) {
        st = dnnl_post_ops_create(&ops);
        if (st == dnnl_success) st = append_sum(ops);
        if (st == dnnl_success) st = dnnl_primitive_attr_set_post_ops(attributes, ops);
    }
    if (st == dnnl_success) st = make_product(&desc, mine->engine, a, b, c, attributes);
    if (st == dnnl_success) st = dnnl_primitive_create(&e->primitive, desc);
    if (desc) dnnl_primitive_desc_destroy(desc);
    if (ops) dnnl_post_ops_destroy(ops);
    if (attributes) dnnl_primitive_attr_destroy(attributes);
    return st;
}

/* Strides of an operand of `rows` x `columns`. With one row or column its own stride means nothing,
 * and oneDNN 3.7 takes the wrong one for the distance between elements unless it is the larger. */
static void strides_of(int64_t rows, int64_t columns, int64_t ld, bool transposed,
                       dnnl_dims_t ret) {
    ret[0] = transposed ? 1 : ld;
    ret[1] = transposed ? ld : 1;
    if (rows == 1 && transposed) ret[0] = ld * columns;
    if (columns == 1 && !transposed) ret[1] = ld * rows;
}

static dnnl_data_type_t type_of(cadre_dtype dtype) {
    return dtype == CADRE_BF16 ? dnnl_bf16 : dnnl_f32;
}

static cadre_status make_entry(entry *e, const cadre_product *p) {
    matrix_desc a = {0}, b = {0}, c = {0};
    e->shape = *p;
    dnnl_dims_t a_strides, b_strides;
    strides_of(p->m, p->k, p->lda, p->a_transposed, a_strides);
    strides_of(p->k, p->n, p->ldb, p->b_transposed, b_strides);
    dnnl_dims_t a_dims = {p->m, p->k}, b_dims = {p->k, p->n}, c_dims = {p->m, p->n},
                c_strides = {p->ldc, 1};
    dnnl_status_t st = make_desc(&a, type_of(p->ab), a_dims, a_strides);
    if (st == dnnl_success) st = make_desc(&b, type_of(p->ab), b_dims, b_strides);
    if (st == dnnl_success) st = make_desc(&c, type_of(p->c), c_dims, c_strides);
    if (st == dnnl_success) st = make_primitive(e, &a, &b, &c);
    if (st == dnnl_success) st = add_argument(e, DNNL_ARG_SRC, &a);
    if (st == dnnl_success) st = add_argument(e, DNNL_ARG_WEIGHTS, &b);
    if (st == dnnl_success) st = add_argument(e, DNNL_ARG_DST, &c);
    drop_desc(&a);
    drop_desc(&b);
    drop_desc(&c);
    if (st == dnnl_success) return CADRE_OK;
    drop_entry(e);
    return CADRE_FAIL(CADRE_EINTERNAL, "oneDNN makes no product of %lld x %lld x %lld: status %d",
                      (long long)p->m, (long long)p->n, (long long)p->k, (int)st);
}

static cadre_status find(const cadre_product *p, entry **ret_entry) {
    uint64_t at = cadre_hash(p, sizeof *p, 0) % SLOTS;
    while (mine->at[at].primitive && memcmp(&mine->at[at].shape, p, sizeof *p) != 0)
        at = (at + 1) % SLOTS;
    entry *e = &mine->at[at];
    if (!e->primitive) {
        if (mine->used >= SLOTS / 2) { /* far more shapes than a model has: start anew */
            for (int i = 0; i < SLOTS; i++) drop_entry(&mine->at[i]);
            mine->used = 0;
        }
        CADRE_TRY(make_entry(e, p));
        mine->used++;
    }
    *ret_entry = e;
    return CADRE_OK;
}

_Thread_local int64_t *cadre_product_timer;

/* ---- the products ---- */

static dnnl_status_t run_sgemm(const cadre_product *p, const float *a, const float *b, float *c) {
    return dnnl_sgemm(p->a_transposed ? 'T' : 'N', p->b_transposed ? 'T' : 'N', p->m, p->n, p->k,
                      1.0f, a, p->lda, b, p->ldb, p->add ? 1.0f : 0.0f, c, p->ldc);
}

static dnnl_status_t run_primitive(const entry *e, const void *a, const void *b, void *c) {
    dnnl_memory_set_data_handle(e->arg[0].memory, (void *)a);
    dnnl_memory_set_data_handle(e->arg[1].memory, (void *)b);
    dnnl_memory_set_data_handle(e->arg[2].memory, c);
    return dnnl_primitive_execute(e->primitive, mine->stream, e->args, e->arg);
}

/* `rows` of `columns` elements, `ld` apart, one after the other in f32. */
static void widen_matrix(const uint16_t *from, int64_t rows, int64_t columns, int64_t ld,
                         float *to) {
    if (ld == columns)
        cadre_widen(from, to, rows * columns);
    else
        for (int64_t r = 0; r < rows; r++) cadre_widen(from + r * ld, to + r * columns, columns);
}

/* Elements of an operand, or of the result, that are wide at a time. */
enum { WIDE_MOST = 1 << 20, WIDE_COLUMNS = 1024 };

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A product of bf16 is widened `depth` of k and `step` columns at a time. */
typedef struct wide_blocks {
    int64_t depth, step;
    int64_t a, b, c; /* floats of scratch */
} wide_blocks;

static wide_blocks blocks_of(const cadre_product *p) {
    wide_blocks w;
    w.depth = least(p->k, WIDE_MOST / (p->m > WIDE_COLUMNS ? p->m : WIDE_COLUMNS));
    w.step = least(p->n, WIDE_MOST / (p->m > w.depth ? p->m : w.depth));
    w.a = p->m * w.depth;
    w.b = w.depth * w.step;
    w.c = p->c == CADRE_BF16 ? p->m * w.step : 0;
    return w;
}

/* Columns [n, n + columns) of the product, over blocks of k. */
static dnnl_status_t run_widened_columns(const cadre_product *p, const uint16_t *a,
                                         const uint16_t *b, int64_t n, int64_t columns,
                                         const wide_blocks *w, float *room, float *c, int64_t ldc) {
    dnnl_status_t st = dnnl_success;
    float *b_room = room + w->a;
    for (int64_t k = 0; st == dnnl_success && k < p->k; k += w->depth) {
        int64_t part = least(w->depth, p->k - k);
        cadre_product f = *p;
        f.n = columns, f.k = part, f.ldc = ldc;
        f.lda = p->a_transposed ? p->m : part;
        f.ldb = p->b_transposed ? part : columns;
        f.add = p->add || k > 0;
        widen_matrix(a + (p->a_transposed ? k * p->lda : k), p->a_transposed ? part : p->m, f.lda,
                     p->lda, room);
        widen_matrix(b + (p->b_transposed ? n * p->ldb + k : k * p->ldb + n),
                     p->b_transposed ? columns : part, f.ldb, p->ldb, b_room);
        st = run_sgemm(&f, room, b_room, c);
    }
    return st;
}

/* The product in f32 of operands in bf16, in blocks: what is widened at a time stays small. */
static cadre_status run_widened(const cadre_product *p, const uint16_t *a, const uint16_t *b,
                                void *c, dnnl_status_t *ret_status) {
    bool narrow = p->c == CADRE_BF16;
    float *room = NULL;
    CADRE_CHECK(p->m <= WIDE_MOST, CADRE_EINTERNAL, "a product of %lld rows in bf16; %lld at most",
                (long long)p->m, (long long)WIDE_MOST);
    const wide_blocks w = blocks_of(p);
    CADRE_TRY(cadre_scratch((size_t)(w.a + w.b + w.c) * sizeof *room, &room));
    float *wide = room + w.a + w.b;
    for (int64_t n = 0; *ret_status == dnnl_success && n < p->n; n += w.step) {
        int64_t columns = least(w.step, p->n - n);
        uint16_t *narrow_c = (uint16_t *)c + n;
        if (narrow && p->add) widen_matrix(narrow_c, p->m, columns, p->ldc, wide);
        *ret_status =
            run_widened_columns(p, a, b, n, columns, &w, room, narrow ? wide : (float *)c + n,
                                narrow ? columns : p->ldc);
        for (int64_t r = 0; narrow && r < p->m; r++)
            cadre_narrow(wide + r * columns, narrow_c + r * p->ldc, columns);
    }
    return CADRE_OK;
}

cadre_kept cadre_product_keeps(const cadre_product *p) {
    enum { PACKED_DEPTH = 384, PACKED_LEAST = 600 << 10 }; /* of oneDNN's sgemm, as measured */
    cadre_kept kept = {0};
    wide_blocks w = {0};
    bool widened = p->ab == CADRE_BF16 && !cadre_product_bf16_is_fast();
    if (widened && p->m > 0 && p->n > 0 && p->k > 0) w = blocks_of(p);
    kept.scratch = (w.a + w.b + w.c) * (int64_t)sizeof(float);
    kept.packed = least(p->k, PACKED_DEPTH) * (widened ? w.step : p->n) * (int64_t)sizeof(float);
    if (kept.packed < PACKED_LEAST) kept.packed = PACKED_LEAST;
    return kept;
}

static cadre_status run(const cadre_product *p, const void *a, const void *b, void *c,
                        dnnl_status_t *ret_status) {
    entry *e = NULL;
    if (p->ab == CADRE_F32) {
        *ret_status = run_sgemm(p, a, b, c);
        return CADRE_OK;
    }
    if (!cadre_product_bf16_is_fast()) return run_widened(p, a, b, c, ret_status);
    cadre_product shape; /* padding bytes count in the key */
    memset(&shape, 0, sizeof shape);
    shape.m = p->m, shape.n = p->n, shape.k = p->k;
    shape.lda = p->lda, shape.ldb = p->ldb, shape.ldc = p->ldc;
    shape.ab = p->ab, shape.c = p->c;
    shape.a_transposed = p->a_transposed, shape.b_transposed = p->b_transposed;
    shape.add = p->add;
    CADRE_TRY(find(&shape, &e));
    *ret_status = run_primitive(e, a, b, c);
    return CADRE_OK;
}

cadre_status cadre_product_run(const cadre_product *p, const void *a, const void *b, void *c) {
    dnnl_status_t result = dnnl_success;
    sigset_t all, before;
    if (p->m == 0 || p->n == 0) return CADRE_OK;
    if (p->k == 0) { /* a sum of nothing, which oneDNN leaves out */
        size_t size = cadre_dtype_size(p->c);
        for (int64_t r = 0; r < p->m && !p->add; r++)
            memset((char *)c + (size_t)(r * p->ldc) * size, 0, (size_t)p->n * size);
        return CADRE_OK;
    }
    if (!mine) CADRE_TRY(open_cache());
    sigfillset(&all);
    int64_t begin = cadre_product_timer ? cadre_now_ns() : 0;
    if (!mine->quiet) pthread_sigmask(SIG_SETMASK, &all, &before);
    cadre_status st = run(p, a, b, c, &result);
    if (!mine->quiet) pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (cadre_product_timer) *cadre_product_timer += cadre_now_ns() - begin;
    CADRE_TRY(st);
    CADRE_CHECK(result == dnnl_success, CADRE_EINTERNAL,
                "oneDNN failed in a product of %lld x %lld x %lld: status %d", (long long)p->m,
                (long long)p->n, (long long)p->k, (int)result);
    return CADRE_OK;
}
