/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operation on every backend against the reference in f64, on awkward shapes; the same bits
 * for any number of threads.
 */
#include "base/alloc.h"
#include "tensor/cases.h"
#include "tensor/ops/cpu/dnnl.h"

#define GELU                                                                                       \
    { .in_out = true, .gelu = true }
#define HEADS(n)                                                                                   \
    { .heads = (n) }

static const op_case cases[] = {
    {CADRE_OP_LINEAR, {0}, {D2(1, 1)}, {D2(1, 1), D1(1)}, 1e-6},
    {CADRE_OP_LINEAR, {0}, {D2(3, 17)}, {D2(65, 17), D1(65)}, 1e-6},
    {CADRE_OP_LINEAR, {0}, {D3(5, 13, 65)}, {D2(130, 65)}, 1e-6},
    {CADRE_OP_LINEAR, {0}, {D2(17, 64)}, {D2(3, 64), D1(3)}, 1e-6},
    {CADRE_OP_LINEAR, {.in_out = true}, {D2(7, 130)}, {D2(130, 3), D1(3)}, 1e-6},
    {CADRE_OP_LINEAR, {.in_out = true}, {D3(2, 33, 128)}, {D2(128, 96), D1(96)}, 1e-6},
    {CADRE_OP_LINEAR, {0}, {D2(2200, 8)}, {D2(5, 8), D1(5)}, 2e-6},
    {CADRE_OP_LINEAR, {.gelu = true}, {D2(2, 3)}, {D2(17, 3), D1(17)}, 1e-6},
    {CADRE_OP_LINEAR, GELU, {D2(65, 17)}, {D2(17, 130), D1(130)}, 1e-6},
    {CADRE_OP_LINEAR, GELU, {D2(161, 32)}, {D2(32, 65)}, 1e-6},
    /* Enough work for tiles: by columns, by rows, more than two, the last one narrow. */
    {CADRE_OP_LINEAR, {.in_out = true}, {D2(70, 130)}, {D2(130, 200), D1(200)}, 1e-6},
    {CADRE_OP_LINEAR, {0}, {D2(70, 130)}, {D2(200, 130), D1(200)}, 1e-6},
    {CADRE_OP_LINEAR, GELU, {D2(300, 70)}, {D2(70, 65), D1(65)}, 2e-6},
    {CADRE_OP_LINEAR, {0}, {D2(1, 1100)}, {D2(2305, 1100)}, 2e-6},
    {CADRE_OP_LINEAR, {.in_out = true}, {D2(0, 5)}, {D2(5, 3), D1(3)}, 1e-6},
    {CADRE_OP_LINEAR, {0}, {D2(0, 5)}, {D2(3, 5), D1(3)}, 1e-6},
    {CADRE_OP_EMBEDDING, {0}, {D1(1)}, {D2(1, 1)}, 1e-7},
    {CADRE_OP_EMBEDDING, {0}, {D2(7, 65)}, {D2(65, 130)}, 1e-6},
    {CADRE_OP_EMBEDDING, {0}, {D2(3, 5)}, {D2(1000, 17)}, 1e-6},
    {CADRE_OP_POSITIONS, {0}, {D3(1, 1, 1)}, {D2(1, 1)}, 1e-7},
    {CADRE_OP_POSITIONS, {0}, {D3(7, 65, 17)}, {D2(100, 17)}, 1e-6},
    {CADRE_OP_LAYER_NORM, {.eps = 1e-5}, {D2(1, 3)}, {D1(3), D1(3)}, 1e-5},
    {CADRE_OP_LAYER_NORM, {.eps = 1e-5}, {D2(7, 17)}, {D1(17), D1(17)}, 2e-6},
    {CADRE_OP_LAYER_NORM, {.eps = 1e-5}, {D3(3, 65, 130)}, {D1(130), D1(130)}, 2e-6},
    {CADRE_OP_ATTENTION, HEADS(1), {D3(1, 1, 3)}, {{0}}, 1e-6},
    {CADRE_OP_ATTENTION, HEADS(2), {D3(3, 5, 6)}, {{0}}, 2e-6},
    {CADRE_OP_ATTENTION, HEADS(3), {D3(2, 64, 3 * 3 * 17)}, {{0}}, 2e-6},
    {CADRE_OP_ATTENTION, HEADS(4), {D3(2, 64, 3 * 128)}, {{0}}, 2e-6},
    {CADRE_OP_ATTENTION, HEADS(1), {D3(1, 100, 3 * 65)}, {{0}}, 2e-6},
    {CADRE_OP_ATTENTION, HEADS(2), {D3(1, 257, 3 * 2 * 9)}, {{0}}, 2e-6},
    {CADRE_OP_GELU, {0}, {D1(1)}, {{0}}, 1e-6},
    {CADRE_OP_GELU, {0}, {D2(130, 65)}, {{0}}, 1e-6},
    {CADRE_OP_ADD, {0}, {D1(3), D1(3)}, {{0}}, 1e-7},
    {CADRE_OP_ADD, {0}, {D3(7, 17, 65), D3(7, 17, 65)}, {{0}}, 1e-7},
    {CADRE_OP_DROPOUT, {.rate = 0.25}, {D2(1, 1)}, {{0}}, 1e-6},
    {CADRE_OP_DROPOUT, {.rate = 0.5}, {D3(3, 17, 65)}, {{0}}, 1e-6},
    {CADRE_OP_DROPOUT, {.rate = 0.1}, {D2(7, 3001)}, {{0}}, 1e-6},
    {CADRE_OP_CROSS_ENTROPY, {0}, {D2(1, 2), D1(1)}, {{0}}, 1e-6},
    {CADRE_OP_CROSS_ENTROPY, {0}, {D3(7, 5, 65), D2(7, 5)}, {{0}}, 1e-6},
    {CADRE_OP_CROSS_ENTROPY, {.label_smoothing = 0.1}, {D2(65, 1000), D1(65)}, {{0}}, 1e-6},
    {CADRE_OP_LINEAR_CROSS_ENTROPY, {0}, {D2(1, 3), D1(1)}, {D2(2, 3)}, 1e-6},
    {CADRE_OP_LINEAR_CROSS_ENTROPY, {0}, {D2(0, 3), D1(0)}, {D2(2, 3)}, 1e-6},
    {CADRE_OP_LINEAR_CROSS_ENTROPY, {0}, {D2(130, 70), D1(130)}, {D2(401, 70)}, 2e-6},
    {CADRE_OP_LINEAR_CROSS_ENTROPY, {0}, {D3(7, 5, 17), D2(7, 5)}, {D2(65, 17)}, 2e-6},
    {CADRE_OP_LINEAR_CROSS_ENTROPY,
     {.label_smoothing = 0.1},
     {D2(65, 32), D1(65)},
     {D2(1000, 32)},
     2e-6},
    {CADRE_OP_SQUARED_ERROR, {0}, {D2(7, 17), D2(7, 17)}, {{0}}, 1e-6},
    {CADRE_OP_SUM, {0}, {D2(65, 17)}, {{0}}, 1e-6},
};

static cadre_queue *queue_of(const char *backend, cadre_pool *pool) {
    cadre_queue *q = NULL;
    OK(cadre_queue_open(&q, backend, pool));
    return q;
}

/* ||a - b|| <= gap ||b||; `what` names the place. */
static void near(const cadre_tensor *a, const cadre_tensor *b, double gap, const op_case *row,
                 int i, const char *what) {
    if (!a) return;
    assert_true(cadre_dims_equal(&a->dims, &b->dims));
    double apart = 0, size = 0;
    for (int64_t k = 0; k < cadre_count(a); k++) {
        double x = real_at(a, k), y = real_at(b, k);
        apart += (x - y) * (x - y);
        size += y * y;
    }
    if (!(sqrt(apart) <= gap * sqrt(size)))
        fail_msg("%s: %s is off by %g of %g, allowed %g", case_name(row, i), what, sqrt(apart),
                 sqrt(size), gap);
}

static void compare(const char *backend, cadre_dtype dtype, const op_case *row, int i, double gap,
                    bool add) {
    cadre_queue *ref = queue_of("ref", NULL), *q = queue_of(backend, NULL);
    op_run want, got;
    open_run(&want, row, CADRE_F64, true, add);
    open_run(&got, row, dtype, true, add);
    run_all(ref, &want);
    run_all(q, &got);
    near(got.c.out, want.c.out, gap, row, i, "out");
    if (cadre_op_table[row->op].gradient_in_place)
        near(got.c.in[0], want.c.in[0], gap, row, i, "the gradient in place");
    else
        for (int k = 0; k < CADRE_OP_IN; k++)
            near(got.c.din[k], want.c.din[k], gap, row, i, k ? "din 1" : "din 0");
    for (int k = 0; k < CADRE_OP_PARAM; k++)
        near(got.c.dparam[k], want.c.dparam[k], gap, row, i, k ? "dparam 1" : "dparam 0");
    close_run(&want);
    close_run(&got);
    cadre_queue_close(&ref);
    cadre_queue_close(&q);
}

static void backends_agree_with_the_reference(void **state) {
    (void)state;
    each_operation_has_a_case(cases, CADRE_COUNT(cases));
    for (int b = 0; b < cadre_backend_count(); b++) {
        const char *name = cadre_backend_at(b)->name;
        if (strcmp(name, "meta") == 0) continue;
        for (int i = 0; i < (int)CADRE_COUNT(cases); i++)
            for (int add = 0; add < 2; add++) {
                compare(name, CADRE_F32, &cases[i], i, cases[i].gap, add);
                compare(name, CADRE_F64, &cases[i], i, 1e-13, add);
            }
    }
}

/* Same inputs, so what differs is how results and what is saved for the backward pass are rounded:
 * half a unit of bf16 is 2^-9 = 0.002; the logits of a fused head are rounded on their way too. */
static void bf16_agrees_with_the_reference(void **state) {
    (void)state;
    for (int way = -1; way <= 1; way += 2) { /* widened; as products of bf16 */
        if (way == 1 && !cadre_has_bf16()) continue;
        cadre_product_choose_bf16(way);
        for (int i = 0; i < (int)CADRE_COUNT(cases); i++)
            for (int add = 0; add < 2; add++) compare("cpu", CADRE_BF16, &cases[i], i, 6e-3, add);
    }
    cadre_product_choose_bf16(0);
}

/* A bias costs no second rounding. 1 x 1.5 x 2^-8 rounded and then added to 1 + 2^-7 would round to
 * even twice; here 1 + 2^-7 + 1.53125 x 2^-8 lies past the middle and only the exact sum shows it.
 */
static void a_bias_is_rounded_with_the_sum(void **state) {
    (void)state;
    const op_case row = {CADRE_OP_LINEAR, {0}, {D2(3, 2)}, {D2(5, 2), D1(5)}, 0};
    cadre_queue *q = queue_of("cpu", NULL);
    for (int way = -1; way <= 1; way += 2) {
        if (way == 1 && !cadre_has_bf16()) continue;
        cadre_product_choose_bf16(way);
        op_run r;
        open_run(&r, &row, CADRE_BF16, false, false);
        for (int64_t i = 0; i < 6; i++) real_put(r.c.in[0], i, i % 2 ? 1 : 0x1p-8);
        /* The product is 2^-8 + 2^-17: rounded alone it is 2^-8, and 1 + 2^-8 goes down to even. */
        for (int64_t i = 0; i < 10; i++) real_put(r.c.param[0], i, i % 2 ? 0x1p-17 : 1);
        for (int64_t i = 0; i < 5; i++) real_put(r.c.param[1], i, 1);
        OK(cadre_op_run(q, &r.c, CADRE_FORWARD));
        for (int64_t i = 0; i < 15; i++) assert_true(real_at(r.c.out, i) == 1 + 0x1p-7);
        close_run(&r);
    }
    cadre_product_choose_bf16(0);
    cadre_queue_close(&q);
}

/* Without a backward pass to come the result is the same and nothing is kept. */
static void forward_alone_gives_the_same(void **state) {
    (void)state;
    cadre_queue *q = queue_of("cpu", NULL);
    for (int i = 0; i < (int)CADRE_COUNT(cases); i++) {
        if (cases[i].op == CADRE_OP_DROPOUT) continue; /* off then: test_rules */
        op_run a, b;
        open_run(&a, &cases[i], CADRE_F32, true, false);
        open_run(&b, &cases[i], CADRE_F32, false, false);
        OK(cadre_op_run(q, &a.c, CADRE_FORWARD));
        OK(cadre_op_run(q, &b.c, CADRE_FORWARD));
        near(b.c.out, a.c.out, 1e-7, &cases[i], i, "out");
        if (cadre_op_table[cases[i].op].gradient_in_place) {
            op_run fresh;
            open_run(&fresh, &cases[i], CADRE_F32, false, false);
            assert_memory_equal(b.c.in[0]->data, fresh.c.in[0]->data,
                                cadre_tensor_bytes(b.c.in[0]));
            close_run(&fresh);
        }
        close_run(&a);
        close_run(&b);
    }
    cadre_queue_close(&q);
}

static void same_bytes(const op_run *a, const op_run *b, const op_case *row, int i, int threads) {
    for (int t = 0; t < a->count; t++)
        if (memcmp(a->tensor[t].data, b->tensor[t].data, cadre_tensor_bytes(&a->tensor[t])) != 0)
            fail_msg("%s: tensor %d has other bits with %d threads", case_name(row, i), t, threads);
}

static void threads_do_not_change_bits(void **state) {
    (void)state;
    for (int threads = 2; threads <= 3; threads++) {
        cadre_pool *pool = NULL;
        OK(cadre_pool_open(&pool, threads, NULL, cadre_kernel_thread_start));
        cadre_queue *alone = queue_of("cpu", NULL), *many = queue_of("cpu", pool);
        for (int i = 0; i < (int)CADRE_COUNT(cases); i++) {
            for (int narrow = 0; narrow < 2; narrow++) {
                cadre_dtype dtype = narrow ? CADRE_BF16 : CADRE_F32;
                op_run a, b;
                open_run(&a, &cases[i], dtype, true, true);
                open_run(&b, &cases[i], dtype, true, true);
                run_all(alone, &a);
                run_all(many, &b);
                same_bytes(&a, &b, &cases[i], i, threads);
                close_run(&a);
                close_run(&b);
            }
        }
        cadre_queue_close(&many);
        cadre_queue_close(&alone);
        cadre_pool_close(&pool);
    }
}

/* Rows [first, first + rows) of a call of linear_cross_entropy, adding to its gradient. */
static void run_rows(cadre_queue *q, const op_run *whole, int64_t first, int64_t rows,
                     double ret_loss[2]) {
    cadre_call c = whole->c;
    cadre_tensor x = *c.in[0], labels = *c.in[1], losses = *c.saved[0], out = *c.out;
    cadre_tensor scratch = *c.scratch;
    x.dims.at[0] = labels.dims.at[0] = losses.dims.at[0] = rows;
    scratch.dims.at[0] = rows;
    x.data = (float *)x.data + first * x.dims.at[1];
    labels.data = (int32_t *)labels.data + first;
    losses.data = (double *)losses.data + first;
    out.data = ret_loss;
    c.in[0] = &x, c.in[1] = &labels, c.saved[0] = &losses, c.out = &out, c.scratch = &scratch;
    c.dparam_add[0] = first > 0;
    OK(cadre_op_run(q, &c, CADRE_FORWARD));
}

/* A vocabulary so large that 130 rows are three blocks: the same bits as three calls. */
static void a_head_in_blocks_is_one(void **state) {
    (void)state;
    const op_case row = {
        CADRE_OP_LINEAR_CROSS_ENTROPY, {0}, {D2(130, 2), D1(130)}, {D2(530000, 2)}, 0};
    cadre_queue *q = queue_of("cpu", NULL);
    op_run whole, cut;
    open_run(&whole, &row, CADRE_F32, true, false);
    open_run(&cut, &row, CADRE_F32, true, false);
    assert_int_equal(whole.c.scratch->dims.at[0], 44);
    OK(cadre_op_run(q, &whole.c, CADRE_FORWARD));
    double sum = 0, count = 0;
    for (int64_t first = 0; first < 130; first += 44) {
        double loss[2];
        run_rows(q, &cut, first, first + 44 < 130 ? 44 : 130 - first, loss);
        sum += loss[0];
        count += loss[1];
    }
    near(cut.c.in[0], whole.c.in[0], 0, &row, 0, "the input's gradient");
    near(cut.c.dparam[0], whole.c.dparam[0], 0, &row, 0, "the weight's gradient");
    assert_true(fabs(sum - real_at(whole.c.out, 0)) < 1e-9 * sum);
    assert_true(count == real_at(whole.c.out, 1) && count > 100);
    close_run(&whole);
    close_run(&cut);
    cadre_queue_close(&q);
}

/* The parts of backward are apart: parameters alone, and inputs alone, give what both give. */
static void parts_of_backward_stand_alone(void **state) {
    (void)state;
    cadre_queue *q = queue_of("cpu", NULL);
    for (int i = 0; i < (int)CADRE_COUNT(cases); i++) {
        if (cases[i].op != CADRE_OP_LINEAR) continue;
        op_run both, alone;
        open_run(&both, &cases[i], CADRE_F32, true, false);
        open_run(&alone, &cases[i], CADRE_F32, true, false);
        cadre_tensor *din = alone.c.din[0];
        run_all(q, &both);
        alone.c.din[0] = NULL;
        run_all(q, &alone);
        near(alone.c.dparam[0], both.c.dparam[0], 0, &cases[i], i, "dparam 0 alone");
        near(alone.c.dparam[1], both.c.dparam[1], 0, &cases[i], i, "dparam 1 alone");
        alone.c.din[0] = din;
        OK(cadre_op_run(q, &alone.c, CADRE_BACKWARD_INPUTS));
        near(din, both.c.din[0], 0, &cases[i], i, "din after dparam");
        close_run(&both);
        close_run(&alone);
    }
    cadre_queue_close(&q);
}

/* A gradient may be shared with other calls (an addition hands it on): no kernel writes to it. */
static void kernels_leave_the_gradient_of_out(void **state) {
    (void)state;
    cadre_queue *q = queue_of("cpu", NULL);
    for (int i = 0; i < (int)CADRE_COUNT(cases); i++) {
        op_run r, fresh;
        open_run(&r, &cases[i], CADRE_F32, true, false);
        open_run(&fresh, &cases[i], CADRE_F32, true, false);
        run_all(q, &r);
        if (r.c.dout)
            assert_memory_equal(r.c.dout->data, fresh.c.dout->data, cadre_tensor_bytes(r.c.dout));
        close_run(&r);
        close_run(&fresh);
    }
    cadre_queue_close(&q);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backends_agree_with_the_reference),
        cmocka_unit_test(bf16_agrees_with_the_reference),
        cmocka_unit_test(a_bias_is_rounded_with_the_sum),
        cmocka_unit_test(forward_alone_gives_the_same),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(a_head_in_blocks_is_one),
        cmocka_unit_test(parts_of_backward_stand_alone),
        cmocka_unit_test(kernels_leave_the_gradient_of_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
