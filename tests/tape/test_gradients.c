/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of composed formulas against central differences, in f64 on ref: tensors and parameters
 * used several times, one tensor as both inputs, given output gradients, every recorder once.
 */
#include "tape_of.h"

static cadre_tensor *chain(bench *b) {
    cadre_tape *t = b->tape;
    cadre_tensor *h = cadre_linear_gelu(t, input(b), &b->param[W], &b->param[BIAS]);
    return cadre_sum(t, cadre_gelu(t, cadre_linear_in_out(t, h, &b->param[U], NULL)));
}

static cadre_tensor *twice(bench *b) {
    cadre_tape *t = b->tape;
    cadre_tensor *h = cadre_linear(t, input(b), &b->param[W], NULL);
    cadre_tensor *a = cadre_gelu(t, h), *c = cadre_add(t, a, h);
    return cadre_sum(t, cadre_gelu(t, cadre_add(t, cadre_add(t, c, h), input(b))));
}

static cadre_tensor *doubled(bench *b) {
    cadre_tape *t = b->tape;
    cadre_tensor *h = cadre_linear(t, input(b), &b->param[W], NULL);
    return cadre_sum(t, cadre_gelu(t, cadre_add(t, h, h)));
}

static cadre_tensor *tied(bench *b) {
    cadre_tape *t = b->tape;
    cadre_tensor *h = cadre_embedding(t, cadre_input(t, "ids"), &b->param[TABLE]);
    h = cadre_positions(t, cadre_add(t, h, input(b)), &b->param[PLACES]);
    h = cadre_linear(t, h, &b->param[W], &b->param[BIAS]);
    h = cadre_linear(t, cadre_gelu(t, h), &b->param[W], &b->param[BIAS]);
    cadre_tensor *logits = cadre_linear(t, h, &b->param[TABLE], NULL);
    return cadre_cross_entropy(t, logits, cadre_input(t, "labels"));
}

static cadre_tensor *fused_head(bench *b) {
    cadre_tape *t = b->tape;
    cadre_tensor *h = cadre_embedding(t, cadre_input(t, "ids"), &b->param[TABLE]);
    h = cadre_linear_gelu(t, cadre_add(t, h, input(b)), &b->param[W], &b->param[BIAS]);
    return cadre_linear_cross_entropy(t, h, &b->param[TABLE], cadre_input(t, "labels"));
}

static cadre_tensor *one_parameter_twice(bench *b) {
    cadre_tape *t = b->tape;
    cadre_tensor *h = cadre_layer_norm(t, input(b), &b->param[SCALE], &b->param[SCALE], 1e-5);
    return cadre_sum(t, cadre_gelu(t, h));
}

static cadre_tensor *transformer(bench *b) {
    cadre_tape *t = b->tape;
    cadre_tensor *x = input(b);
    cadre_tensor *h = cadre_layer_norm(t, x, &b->param[SCALE], &b->param[BIAS], 1e-5);
    h = cadre_attention(t, cadre_linear_in_out(t, h, &b->param[QKV], NULL), 2);
    x = cadre_add(t, x, cadre_dropout(t, h, 0.4, "here"));
    h = cadre_linear_in_out_gelu(t, x, &b->param[U], &b->param[BIAS]);
    cadre_tensor *logits = cadre_linear(t, cadre_add(t, x, h), &b->param[TABLE], NULL);
    return cadre_cross_entropy(t, logits, cadre_input(t, "labels"));
}

static cadre_tensor *squared(bench *b) {
    cadre_tape *t = b->tape;
    cadre_tensor *h = cadre_linear(t, input(b), &b->param[W], NULL);
    return cadre_squared_error(t, h, input(b));
}

static void formulas(void **state) {
    (void)state;
    static formula *const all[] = {
        chain, twice, doubled, tied, fused_head, one_parameter_twice, transformer, squared};
    bench b;
    bench_open(&b, "ref", NULL);
    for (int i = 0; i < CADRE_COUNT(all); i++) check_gradients(&b, all[i]);
    b.pass.label_smoothing = 0.1;
    check_gradients(&b, tied);
    bench_close(&b);
}

/* The vector that a tensor's gradient is multiplied with. */
static void given_gradient(void **state) {
    (void)state;
    bench b;
    double seed[ROWS * LENGTH * WIDTH];
    bench_open(&b, "ref", NULL);
    for (int i = 0; i < CADRE_COUNT(seed); i++) seed[i] = i == 5 ? 2.5 : 0;
    cadre_tensor dout = named("", CADRE_F64, cadre_dims3(ROWS, LENGTH, WIDTH), seed).tensor, *dx;
    OK(cadre_tape_begin(b.tape, &b.pass));
    cadre_tensor *y = cadre_linear(b.tape, input(&b), &b.param[W], NULL);
    OK(cadre_tape_backward_wrt(b.tape, y, &dout, input(&b), &dx));
    const double *w = cadre_plain_store_value(b.store, W), *got = cadre_tensor_data(dx);
    for (int i = 0; i < CADRE_COUNT(seed); i++) /* y[1][1] = row 1 of w times x[1] */
        assert_true(fabs(got[i] - (i / WIDTH == 1 ? 2.5 * w[WIDTH + i % WIDTH] : 0)) < 1e-15);
    bench_close(&b);
}

/* A result in the middle, the logits (whose memory holds their gradient), and a tensor that the
 * loss does not depend on. */
static void with_respect_to(void **state) {
    (void)state;
    bench b;
    cadre_tensor *d = NULL;
    bench_open(&b, "ref", NULL);
    for (int which = 0; which < 3; which++) {
        OK(cadre_tape_begin(b.tape, &b.pass));
        cadre_tensor *h = cadre_linear(b.tape, input(&b), &b.param[W], NULL);
        cadre_tensor *aside = cadre_gelu(b.tape, h);
        cadre_tensor *logits = cadre_linear(b.tape, h, &b.param[TABLE], NULL);
        cadre_tensor *loss = cadre_cross_entropy(b.tape, logits, cadre_input(b.tape, "labels"));
        cadre_tensor *of[3] = {h, logits, aside};
        OK(cadre_tape_backward_wrt(b.tape, loss, NULL, of[which], &d));
        const double *got = cadre_tensor_data(d);
        double sum = 0, most = 0;
        int64_t n = cadre_count(d);
        assert_int_equal(n, which == 1 ? ROWS * LENGTH * VOCAB : ROWS * LENGTH * WIDTH);
        for (int64_t i = 0; i < n; i++) {
            sum += got[i];
            most = fmax(most, fabs(got[i]));
        }
        if (which == 2) assert_true(most == 0);
        if (which != 2) assert_true(most > 0.1);
        if (which == 1) assert_true(fabs(sum) < 1e-12); /* softmax - onehot sums to zero */
    }
    bench_close(&b);
}

/* The gradient of a sum is handed on to its parts; what is added to a part later leaves it alone.
 */
static void gradients_share_memory(void **state) {
    (void)state;
    bench b;
    double dy[ROWS * LENGTH * WIDTH];
    cadre_tensor *d = NULL;
    bench_open(&b, "ref", NULL);
    OK(cadre_tape_begin(b.tape, &b.pass));
    cadre_tensor *h = cadre_linear(b.tape, input(&b), &b.param[W], NULL);
    cadre_tensor *g = cadre_linear(b.tape, h, &b.param[U], NULL);
    cadre_tensor *y = cadre_add(b.tape, cadre_add(b.tape, g, h), input(&b));
    double values[ROWS * LENGTH * WIDTH];
    memcpy(values, cadre_tensor_data(y), sizeof values);
    cadre_tensor *loss = cadre_sum(b.tape, cadre_gelu(b.tape, y));
    OK(cadre_tape_backward_wrt(b.tape, loss, NULL, y, &d));
    memcpy(dy, cadre_tensor_data(d), sizeof dy);

    memcpy(b.x, values, sizeof values); /* the same without anything below y */
    OK(cadre_tape_begin(b.tape, &b.pass));
    loss = cadre_sum(b.tape, cadre_gelu(b.tape, input(&b)));
    OK(cadre_tape_backward_wrt(b.tape, loss, NULL, input(&b), &d));
    assert_memory_equal(dy, cadre_tensor_data(d), sizeof dy);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(formulas), cmocka_unit_test(given_gradient),
                                       cmocka_unit_test(with_respect_to),
                                       cmocka_unit_test(gradients_share_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
