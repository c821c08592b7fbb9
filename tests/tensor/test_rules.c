/* SPDX-License-Identifier: Apache-2.0
 *
 * What operations refuse and in which words, what they cost, the properties of dropout and of
 * ignored labels, data types.
 */
#include "base/alloc.h"
#include "tensor/cases.h"
#include "tensor/ops/kernels.h"

static void data_types(void **state) {
    (void)state;
    assert_string_equal(cadre_dtype_name(CADRE_BF16), "bf16");
    assert_int_equal(cadre_dtype_size(CADRE_F64), 8);
    assert_int_equal(cadre_dtype_size((cadre_dtype)99), 0);
    for (int t = 0; t < CADRE_DTYPES; t++) {
        assert_true(cadre_dtype_size((cadre_dtype)t) > 0);
        assert_string_not_equal(cadre_dtype_name((cadre_dtype)t), "unknown");
    }
    cadre_dims dims = cadre_dims3(4, 64, 128);
    char text[32], narrow[8];
    assert_string_equal(cadre_dims_text(text, sizeof text, &dims), "(4, 64, 128)");
    assert_string_equal(cadre_dims_text(narrow, sizeof narrow, &dims), "(4, 64,");
    cadre_tensor t = {.dtype = CADRE_F32, .dims = dims};
    assert_int_equal(cadre_rows(&t), 256);
    assert_int_equal(cadre_columns(&t), 128);
    assert_int_equal(cadre_tensor_bytes(&t), 4 * 64 * 128 * 4);
    cadre_tensor scalar = {.dtype = CADRE_F32, .dims = cadre_dims0()};
    assert_int_equal(cadre_rows(&scalar) * cadre_columns(&scalar), 1);
}

static void bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float x = cadre_bf16_to_f32((uint16_t)bits);
        if (isnan(x))
            assert_true(isnan(cadre_bf16_to_f32(cadre_f32_to_bf16(x))));
        else
            assert_int_equal(cadre_f32_to_bf16(x), bits);
    }
    assert_int_equal(cadre_f32_to_bf16(1.0f), 0x3f80);
    assert_int_equal(cadre_f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);            /* a tie, to even */
    assert_int_equal(cadre_f32_to_bf16(1.0f + 0x1p-7f + 0x1p-8f), 0x3f82);  /* a tie, to even */
    assert_int_equal(cadre_f32_to_bf16(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81); /* above a tie */
    assert_int_equal(cadre_f32_to_bf16(-3.4e38f * 1.0001f), 0xff80);        /* to infinity */
    uint32_t low_nan = 0x7f800001; /* its upper half alone would be infinity */
    float nan_value;
    memcpy(&nan_value, &low_nan, sizeof nan_value);
    assert_true(isnan(cadre_bf16_to_f32(cadre_f32_to_bf16(nan_value))));
}

static void backends_are_known_by_name(void **state) {
    (void)state;
    cadre_queue *q = NULL;
    FAILS(cadre_queue_open(&q, "gpu", NULL), CADRE_EUSAGE,
          "unknown backend gpu; it takes ref, cpu, meta");
    assert_null(q);
    cadre_queue_close(&q);
    OK(cadre_queue_open(&q, "cpu", NULL));
    OK(cadre_queue_wait(q));
    cadre_queue_close(&q);
    assert_null(q);
    for (int op = 0; op < CADRE_OPS; op++) {
        const cadre_op *o = &cadre_op_table[op];
        assert_true(strlen(o->name) > 0 && strlen(o->help) > 0);
        assert_true(cadre_backend_find("ref")->kernel[op][CADRE_FORWARD] != NULL);
        assert_true(cadre_backend_find("cpu")->kernel[op][CADRE_FORWARD] != NULL);
        assert_int_equal(cadre_backend_find("ref")->kernel[op][CADRE_BACKWARD_PARAMS] != NULL,
                         o->params > 0 && !o->params_in_forward);
    }
}

typedef struct refused_case {
    op_case row;
    const char *words;
} refused_case;

static const refused_case refused[] = {
    {{CADRE_OP_LINEAR, {0}, {D2(2, 3)}, {D2(5, 4)}, 0},
     "linear: the input is (2, 3), the weight takes 4 columns"},
    {{CADRE_OP_LINEAR, {0}, {D2(2, 3)}, {D1(3)}, 0}, "linear: the weight has 1 dims; it takes 2"},
    {{CADRE_OP_LINEAR, {0}, {D2(2, 3)}, {D2(5, 3), D1(4)}, 0},
     "linear: the bias is (4), the weight gives 5 columns"},
    {{CADRE_OP_POSITIONS, {0}, {D3(2, 9, 4)}, {D2(8, 4)}, 0},
     "positions: (2, 9, 4) does not fit the table (8, 4)"},
    {{CADRE_OP_LAYER_NORM, {0}, {D2(2, 3)}, {D1(4), D1(3)}, 0},
     "layer norm: the weight must have 3 elements"},
    {{CADRE_OP_LAYER_NORM, {0}, {D2(2, 3)}, {D1(3)}, 0},
     "layer norm: the bias must have 3 elements"},
    {{CADRE_OP_ATTENTION, {.heads = 2}, {D3(1, 2, 4)}, {{0}}, 0},
     "attention takes (B, T, 3C), not (1, 2, 4)"},
    {{CADRE_OP_ATTENTION, {.heads = 3}, {D3(1, 2, 12)}, {{0}}, 0},
     "attention: 3 heads do not divide the width 4"},
    {{CADRE_OP_ADD, {0}, {D2(2, 3), D2(3, 2)}, {{0}}, 0}, "add: f32 (2, 3) and f32 (3, 2)"},
    {{CADRE_OP_DROPOUT, {.rate = 1}, {D2(2, 3)}, {{0}}, 0},
     "dropout rate 1; it takes 0 to below 1"},
    {{CADRE_OP_CROSS_ENTROPY, {0}, {D2(4, 3), D1(5)}, {{0}}, 0},
     "cross-entropy: 5 labels for 4 rows"},
    {{CADRE_OP_CROSS_ENTROPY, {.label_smoothing = 1}, {D2(4, 3), D1(4)}, {{0}}, 0},
     "cross-entropy: label smoothing 1; it takes 0 to below 1"},
    {{CADRE_OP_LINEAR_CROSS_ENTROPY, {0}, {D2(4, 3), D1(4)}, {D2(5, 2)}, 0},
     "linear_cross_entropy: a weight of 3 columns is needed, not (5, 2)"},
    {{CADRE_OP_SQUARED_ERROR, {0}, {D2(2, 3), D1(6)}, {{0}}, 0},
     "squared error: (2, 3) and its target (6)"},
};

static void shapes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    for (int i = 0; i < (int)CADRE_COUNT(refused); i++) {
        op_run r;
        cadre_inferred made;
        open_operands(&r, &refused[i].row, CADRE_F32);
        FAILS(cadre_op_table[refused[i].row.op].infer(&r.c, &made), CADRE_EUSAGE, refused[i].words);
        close_run(&r);
    }
}

static void types_that_do_not_fit_are_refused(void **state) {
    (void)state;
    op_run r = {0};
    cadre_inferred made;
    r.c = (cadre_call){.op = CADRE_OP_GELU, .in = {new_ids(&r, cadre_dims1(3), 5, false)}};
    FAILS(cadre_gelu_infer(&r.c, &made), CADRE_EUSAGE, "gelu takes f32, f64 or bf16, not i32");
    close_run(&r);
    r.c = (cadre_call){.op = CADRE_OP_LINEAR,
                       .in = {new_reals(&r, CADRE_F32, cadre_dims2(3, 2), 1)},
                       .param = {new_reals(&r, CADRE_F64, cadre_dims2(4, 2), 2)}};
    FAILS(cadre_linear_infer(&r.c, &made), CADRE_EUSAGE,
          "linear: the input is f32, parameter 0 is f64; they must be of one type");
    close_run(&r);
    r.c = (cadre_call){.op = CADRE_OP_EMBEDDING,
                       .in = {new_reals(&r, CADRE_F32, cadre_dims1(3), 1)},
                       .param = {new_reals(&r, CADRE_F32, cadre_dims2(3, 2), 2)}};
    FAILS(cadre_embedding_infer(&r.c, &made), CADRE_EUSAGE, "embedding takes ids in i32, not f32");
    close_run(&r);
    r.c = (cadre_call){.op = CADRE_OP_CROSS_ENTROPY,
                       .in = {new_reals(&r, CADRE_F32, cadre_dims2(3, 2), 2),
                              new_reals(&r, CADRE_F32, cadre_dims1(3), 1)}};
    FAILS(cadre_cross_entropy_infer(&r.c, &made), CADRE_EUSAGE,
          "cross-entropy takes labels in i32, not f32");
    close_run(&r);
}

static void ids_and_labels_out_of_range_are_refused(void **state) {
    (void)state;
    const op_case embedding = {CADRE_OP_EMBEDDING, {0}, {D2(3, 4)}, {D2(5, 2)}, 0};
    const op_case entropy = {CADRE_OP_CROSS_ENTROPY, {0}, {D2(3, 5), D1(3)}, {{0}}, 0};
    const char *backends[] = {"ref", "cpu"};
    for (int b = 0; b < 2; b++) {
        cadre_queue *q = NULL;
        OK(cadre_queue_open(&q, backends[b], NULL));
        op_run r;
        open_run(&r, &embedding, CADRE_F32, true, false);
        ((int32_t *)r.c.in[0]->data)[7] = 5;
        FAILS(cadre_op_run(q, &r.c, CADRE_FORWARD), CADRE_EDATA,
              "token 5 at place 7 is out of range; it takes 0 to 4");
        ((int32_t *)r.c.in[0]->data)[7] = -1;
        FAILS(cadre_op_run(q, &r.c, CADRE_FORWARD), CADRE_EDATA, "token -1 at place 7");
        close_run(&r);
        open_run(&r, &entropy, CADRE_F32, true, false);
        ((int32_t *)r.c.in[1]->data)[2] = 5;
        FAILS(cadre_op_run(q, &r.c, CADRE_FORWARD), CADRE_EDATA,
              "label 5 at place 2 is out of range; it takes 0 to 4, or -1 for none");
        ((int32_t *)r.c.in[1]->data)[2] = -2;
        FAILS(cadre_op_run(q, &r.c, CADRE_FORWARD), CADRE_EDATA, "label -2 at place 2");
        close_run(&r);
        cadre_queue_close(&q);
    }
}

static void ignored_rows_count_nothing(void **state) {
    (void)state;
    const op_case row = {CADRE_OP_CROSS_ENTROPY, {0}, {D2(2, 4), D1(2)}, {{0}}, 0};
    cadre_queue *q = NULL;
    OK(cadre_queue_open(&q, "cpu", NULL));
    op_run r;
    open_run(&r, &row, CADRE_F32, true, false);
    for (int i = 0; i < 8; i++) real_put(r.c.in[0], i, 3); /* all classes alike: loss log 4 */
    ((int32_t *)r.c.in[1]->data)[0] = -1;
    ((int32_t *)r.c.in[1]->data)[1] = 2;
    OK(cadre_op_run(q, &r.c, CADRE_FORWARD));
    assert_true(fabs(real_at(r.c.out, 0) - log(4)) < 1e-6);
    assert_true(real_at(r.c.out, 1) == 1);
    const double want[8] = {0, 0, 0, 0, 0.25, 0.25, -0.75, 0.25};
    for (int i = 0; i < 8; i++) assert_true(fabs(real_at(r.c.in[0], i) - want[i]) < 1e-6);
    close_run(&r);
    cadre_queue_close(&q);
}

/* A NaN or an infinite logit must reach the loss: it is how a run learns that it diverged. */
static void broken_numbers_reach_the_loss(void **state) {
    (void)state;
    const op_case row = {CADRE_OP_CROSS_ENTROPY, {0}, {D2(3, 65), D1(3)}, {{0}}, 0};
    const double bad[] = {NAN, INFINITY};
    cadre_queue *q = NULL;
    OK(cadre_queue_open(&q, "cpu", NULL));
    for (int i = 0; i < 2; i++)
        for (int place = 65; place < 130; place += 16) {
            op_run r;
            open_run(&r, &row, CADRE_F32, true, false);
            real_put(r.c.in[0], place, bad[i]);
            OK(cadre_op_run(q, &r.c, CADRE_FORWARD));
            assert_false(isfinite(real_at(r.c.out, 0)));
            close_run(&r);
        }
    const op_case attention = {CADRE_OP_ATTENTION, {.heads = 1}, {D3(1, 3, 12)}, {{0}}, 0};
    op_run r;
    open_run(&r, &attention, CADRE_F32, true, false);
    real_put(r.c.in[0], 12 + 4, NAN); /* a key at place 1: places 1 and 2 see it, 0 does not */
    OK(cadre_op_run(q, &r.c, CADRE_FORWARD));
    for (int t = 0; t < 3; t++) assert_int_equal(isnan(real_at(r.c.out, t * 4)) != 0, t >= 1);
    close_run(&r);
    cadre_queue_close(&q);
}

static void large_scores_stay_finite(void **state) {
    (void)state;
    const op_case row = {CADRE_OP_ATTENTION, {.heads = 1}, {D3(1, 40, 12)}, {{0}}, 0};
    cadre_queue *q = NULL;
    OK(cadre_queue_open(&q, "cpu", NULL));
    op_run r;
    open_run(&r, &row, CADRE_F32, true, false);
    for (int64_t i = 0; i < cadre_count(r.c.in[0]); i++)
        real_put(r.c.in[0], i, 100 * real_at(r.c.in[0], i)); /* scores of thousands */
    run_all(q, &r);
    for (int64_t i = 0; i < cadre_count(r.c.out); i++)
        assert_true(fabs(real_at(r.c.out, i)) <= 100.01);
    for (int64_t i = 0; i < cadre_count(r.c.din[0]); i++)
        assert_true(isfinite(real_at(r.c.din[0], i)));
    close_run(&r);
    cadre_queue_close(&q);
}

static void costs_are_counted(void **state) {
    (void)state;
    const op_case linear = {CADRE_OP_LINEAR, {.in_out = true}, {D3(2, 5, 7)}, {D2(7, 3)}, 0};
    const op_case attention = {CADRE_OP_ATTENTION, {.heads = 2}, {D3(2, 5, 24)}, {{0}}, 0};
    cadre_queue *q = NULL;
    OK(cadre_queue_open(&q, "meta", NULL));
    op_run r;
    open_run(&r, &linear, CADRE_F32, true, false);
    for (int i = 0; i < r.count; i++) { /* a dry run has no data */
        free(r.tensor[i].data);
        r.tensor[i].data = NULL;
    }
    run_all(q, &r);
    assert_true(q->cost.matmul_flops == 3 * 2.0 * 10 * 7 * 3);
    assert_true(q->cost.bytes == 3 * 4.0 * (10 * 7 + 7 * 3 + 10 * 3));
    close_run(&r);
    cadre_queue_close(&q);
    OK(cadre_queue_open(&q, "ref", NULL)); /* counted on every backend */
    open_run(&r, &attention, CADRE_F32, true, false);
    OK(cadre_op_run(q, &r.c, CADRE_FORWARD));
    /* Two products of 2 x d flops for each of T (T + 1) / 2 pairs a head. */
    assert_true(q->cost.matmul_flops == 2 * 2 * 2.0 * 4 * 15 * 2);
    double forward = q->cost.matmul_flops;
    OK(cadre_op_run(q, &r.c, CADRE_BACKWARD_INPUTS));
    assert_true(q->cost.matmul_flops == forward * 3.5);
    close_run(&r);
    cadre_queue_close(&q);
}

/* ---- dropout ---- */

enum { ROWS = 8, COLUMNS = 1001 };
static const op_case dropout = {CADRE_OP_DROPOUT, {.rate = 0.25}, {D2(ROWS, COLUMNS)}, {{0}}, 0};

static void run_dropout(op_run *r, const char *backend, bool training) {
    cadre_queue *q = NULL;
    OK(cadre_queue_open(&q, backend, NULL));
    for (int64_t i = 0; i < cadre_count(r->c.in[0]); i++) real_put(r->c.in[0], i, 3);
    r->c.a.training = training;
    run_all(q, r);
    cadre_queue_close(&q);
}

static bool kept(const op_run *r, int64_t i) {
    return real_at(r->c.out, i) != 0;
}

static void dropout_drops_its_share(void **state) {
    (void)state;
    op_run r;
    open_run(&r, &dropout, CADRE_F32, true, false);
    run_dropout(&r, "cpu", true);
    double left = 0;
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        left += kept(&r, i);
        assert_true(!kept(&r, i) || fabs(real_at(r.c.out, i) - 4) < 1e-6);
        double dx = real_at(r.c.din[0], i), dy = real_at(r.c.dout, i); /* the same mask */
        assert_true(fabs(dx - (kept(&r, i) ? dy / 0.75 : 0)) < 1e-6);
    }
    assert_true(fabs(left / (ROWS * COLUMNS) - 0.75) < 0.02); /* four standard deviations */
    close_run(&r);
}

static void dropout_is_off_without_training(void **state) {
    (void)state;
    op_run r;
    open_run(&r, &dropout, CADRE_F32, true, false);
    run_dropout(&r, "cpu", false);
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) assert_true(real_at(r.c.out, i) == 3);
    close_run(&r);
}

static double apart(const op_run *a, int64_t row_a, const op_run *b, int64_t row_b) {
    double count = 0;
    for (int64_t i = 0; i < COLUMNS; i++)
        count += kept(a, row_a * COLUMNS + i) != kept(b, row_b * COLUMNS + i);
    return count / COLUMNS;
}

/* The mask belongs to (seed, step, sample, site, element), not to the row or the backend. */
static void dropout_is_keyed_by_what_it_is_for(void **state) {
    (void)state;
    op_run a, b, ref;
    open_run(&a, &dropout, CADRE_F32, true, false);
    open_run(&b, &dropout, CADRE_F32, true, false);
    open_run(&ref, &dropout, CADRE_F64, true, false);
    run_dropout(&a, "cpu", true);
    run_dropout(&ref, "ref", true);
    for (int64_t r = 0; r < ROWS; r++) {
        assert_true(apart(&a, r, &ref, r) == 0);
        b.samples[r] = a.samples[ROWS - 1 - r];
    }
    b.c.a.key.samples = b.samples;
    run_dropout(&b, "cpu", true);
    for (int64_t r = 0; r < ROWS; r++) assert_true(apart(&a, r, &b, ROWS - 1 - r) == 0);
    assert_true(apart(&a, 0, &a, 1) > 0.2); /* 2 x 0.25 x 0.75 differ when independent */
    for (int k = 0; k < 3; k++) {
        b.c.a = a.c.a;
        if (k == 0) b.c.a.key.seed++;
        if (k == 1) b.c.a.key.step++;
        if (k == 2) b.c.a.site = "there";
        run_dropout(&b, "cpu", true);
        for (int64_t r = 0; r < ROWS; r++) assert_true(apart(&a, r, &b, r) > 0.2);
    }
    close_run(&a);
    close_run(&b);
    close_run(&ref);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_types),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(backends_are_known_by_name),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(types_that_do_not_fit_are_refused),
        cmocka_unit_test(ids_and_labels_out_of_range_are_refused),
        cmocka_unit_test(ignored_rows_count_nothing),
        cmocka_unit_test(broken_numbers_reach_the_loss),
        cmocka_unit_test(large_scores_stay_finite),
        cmocka_unit_test(costs_are_counted),
        cmocka_unit_test(dropout_drops_its_share),
        cmocka_unit_test(dropout_is_off_without_training),
        cmocka_unit_test(dropout_is_keyed_by_what_it_is_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
