/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that are computed again in the backward pass: the same bits of loss and gradients, the
 * same calls of the store, less memory, and a dry pass that counts exactly what a real one holds.
 */
#include "witness.h"

#include "base/alloc.h"
#include "base/fault.h"

enum { LAYERS = 6, ALL = 1000 };

static cadre_tensor *hand_over(bench *b, cadre_tensor *x) {
    cadre_tape_hand_over(b->tape, x);
    cadre_tape_leave(b->tape);
    return x;
}

static cadre_tensor *embed(bench *b) {
    cadre_tape_enter(b->tape, 0);
    cadre_tensor *h = cadre_embedding(b->tape, cadre_input(b->tape, "ids"), &b->param[TABLE]);
    h = cadre_positions(b->tape, h, &b->param[PLACES]);
    return hand_over(b, cadre_dropout(b->tape, h, 0.2, "embed"));
}

/* The layer of a transformer, with everything that a tape may find in a block. */
static cadre_tensor *layer(bench *b, cadre_tensor *x, int i) {
    cadre_tape *t = b->tape;
    cadre_tape_enter(t, i);
    cadre_tensor *h = cadre_layer_norm(t, x, &b->param[SCALE], &b->param[BIAS], 1e-5);
    h = cadre_attention(t, cadre_linear_in_out(t, h, &b->param[QKV], NULL), 2);
    x = cadre_add(t, x, cadre_dropout(t, h, 0.1, "attn"));
    h = cadre_layer_norm(t, x, &b->param[SCALE], &b->param[BIAS], 1e-5);
    h = cadre_linear_gelu(t, h, &b->param[W], &b->param[BIAS]);
    h = cadre_dropout(t, cadre_linear(t, h, &b->param[U], NULL), 0.1, "mlp");
    return hand_over(b, cadre_add(t, x, h));
}

static cadre_tensor *head(bench *b, cadre_tensor *x, int i) {
    cadre_tape_enter(b->tape, i);
    x = cadre_linear(b->tape, x, &b->param[TABLE], NULL);
    return hand_over(b, cadre_cross_entropy(b->tape, x, cadre_input(b->tape, "labels")));
}

static cadre_tensor *transformer(bench *b) {
    cadre_tensor *x = embed(b);
    for (int i = 1; i <= LAYERS; i++) x = layer(b, x, i);
    return head(b, x, LAYERS + 1);
}

/* Results that the block itself reads again (attention, gelu), logits whose memory holds their
 * gradient when their block's turn comes, a block that hands on what it got, one tensor twice. */
static cadre_tensor *odd_ends(bench *b) {
    cadre_tape *t = b->tape;
    cadre_tensor *x = embed(b);
    cadre_tape_enter(t, 1);
    x = hand_over(b, cadre_attention(t, cadre_linear_in_out(t, x, &b->param[QKV], NULL), 1));
    cadre_tape_enter(t, 2);
    hand_over(b, x);
    cadre_tape_enter(t, 3);
    cadre_tensor *h = cadre_gelu(t, cadre_gelu(t, x));
    x = hand_over(b, cadre_add(t, cadre_add(t, h, h), h));
    cadre_tape_enter(t, 4);
    x = cadre_gelu(t, cadre_linear(t, x, &b->param[W], NULL));
    x = hand_over(b, cadre_linear_gelu(t, x, &b->param[TABLE], NULL));
    cadre_tape_enter(t, 5); /* nothing in it reads x in the backward pass */
    h = cadre_gelu(t, cadre_gelu(t, cadre_dropout(t, x, 0.1, "first")));
    x = hand_over(b, cadre_add(t, x, h));
    cadre_tape_enter(t, 6);
    return hand_over(b, cadre_cross_entropy(t, x, cadre_input(t, "labels")));
}

/* ---- the same bits ---- */

typedef struct result {
    double loss, dx[ROWS * LENGTH * WIDTH], gradient[PARAMS][64];
    int blocks;
    double flops;
    size_t peak;
} result;

static void run(bench *b, formula *f, int blocks, result *ret) {
    memset(ret, 0, sizeof *ret);
    cadre_tape_recompute(b->tape, blocks);
    cadre_plain_store_zero(b->store);
    OK(cadre_tape_begin(b->tape, &b->pass));
    cadre_tensor *loss = f(b);
    OK(cadre_tape_status(b->tape));
    OK(cadre_tape_backward(b->tape, loss, NULL));
    cadre_tape_recomputed(b->tape, &ret->blocks, &ret->flops);
    ret->peak = cadre_tape_peak_bytes(b->tape);
    if (b->queue->meta) return;
    ret->loss = ((double *)cadre_tensor_data(loss))[0];
    for (int i = 0; i < b->params; i++)
        memcpy(ret->gradient[i], cadre_plain_store_gradient(b->store, i),
               (size_t)cadre_dims_count(&b->param[i].dims) * sizeof(double));
}

static void run_fresh(const char *backend, formula *f, int blocks, result *ret) {
    bench b;
    bench_open(&b, backend, NULL);
    run(&b, f, blocks, ret);
    bench_close(&b);
}

static void check_same(formula *f, int want_blocks) {
    result plain, again;
    run_fresh("ref", f, 0, &plain);
    assert_int_equal(plain.blocks, 0);
    assert_true(plain.flops == 0 && plain.loss > 0);
    for (int blocks = 1; blocks <= LAYERS + 2; blocks++) {
        run_fresh("ref", f, blocks, &again);
        assert_memory_equal(&again.loss, &plain.loss, sizeof plain.loss);
        assert_memory_equal(again.gradient, plain.gradient, sizeof plain.gradient);
    }
    assert_int_equal(again.blocks, want_blocks);
    assert_true(again.flops > 0);
}

static void same_bits(void **state) {
    (void)state;
    check_same(transformer, LAYERS);
    check_same(odd_ends, 4); /* not the embedding, the empty block, the loss */
}

static cadre_tensor *from_inputs(bench *b) {
    cadre_tensor *x = input(b);
    for (int i = 0; i < LAYERS; i++) x = layer(b, x, i);
    return cadre_sum(b->tape, x);
}

static void against_differences(void **state) {
    (void)state;
    bench b;
    bench_open(&b, "ref", NULL);
    cadre_tape_recompute(b.tape, ALL);
    check_gradients(&b, from_inputs);
    bench_close(&b);
}

/* ---- what the store is asked ---- */

static void witnessed(witness *w, int blocks) {
    bench b;
    result r;
    const cadre_param_store view = witness_view(w);
    w->b = &b;
    w->said[0] = '\0';
    w->between = 0;
    bench_open(&b, "ref", &view);
    run(&b, transformer, blocks, &r);
    bench_close(&b);
}

static void same_calls(void **state) {
    (void)state;
    witness plain = {.knows = true}, again = plain;
    for (int frozen = 0; frozen <= PARAMS; frozen += 2) { /* the first trains nothing */
        plain.frozen = again.frozen = ~0u << frozen;
        witnessed(&plain, 0);
        witnessed(&again, ALL);
        assert_string_equal(plain.said, again.said);
        /* Communication gets its turn in the second run too; without anything to train there is
         * none. */
        if (frozen)
            assert_true(again.between > plain.between + 5 * LAYERS);
        else
            assert_int_equal(again.between, plain.between);
    }
    assert_non_null(strstr(plain.said, "!table "));
}

/* ---- memory ---- */

static void dry_counts_the_same(void **state) {
    (void)state;
    result dry, real, before;
    run_fresh("meta", transformer, 0, &before);
    for (int blocks = 0; blocks <= LAYERS + 2; blocks++) {
        run_fresh("meta", transformer, blocks, &dry);
        run_fresh("ref", transformer, blocks, &real);
        assert_int_equal(dry.peak, real.peak);
        assert_int_equal(dry.blocks, real.blocks);
        assert_true(dry.flops == real.flops);
        assert_true(dry.peak <= before.peak);
        before = dry;
    }
    run_fresh("meta", transformer, 0, &before);
    assert_true(dry.peak < before.peak * 6 / 10);
}

static void nothing_new_after_the_first_pass(void **state) {
    (void)state;
    bench b;
    result first, next;
    bench_open(&b, "ref", NULL);
    run(&b, transformer, ALL, &first);
    run(&b, transformer, ALL, &first); /* its begin joins the arena's blocks */
    int64_t live = cadre_live_bytes();
    cadre_fault_at(0); /* any allocation fails */
    run(&b, transformer, ALL, &next);
    cadre_fault_at(-1);
    assert_false(cadre_fault_hit());
    assert_int_equal(cadre_live_bytes(), live);
    assert_int_equal(next.peak, first.peak);
    run(&b, transformer, 0, &next); /* and back: more is taken again */
    assert_true(next.peak > first.peak);
    bench_close(&b);
}

/* The last projection, its dropout and the add make y alone, which nobody reads any more. */
static void the_end_is_not_made_again(void **state) {
    (void)state;
    bench b;
    result r;
    bench_open(&b, "meta", NULL);
    OK(cadre_tape_begin(b.tape, &b.pass));
    (void)layer(&b, input(&b), 0);
    OK(cadre_tape_status(b.tape));
    double forward = b.queue->cost.flops;
    run(&b, from_inputs, ALL, &r);
    int64_t projection = 2 * ROWS * LENGTH * WIDTH * WIDTH;
    assert_int_equal(r.blocks, LAYERS);
    assert_true(r.flops < LAYERS * (forward - (double)projection));
    assert_true(r.flops > LAYERS * (forward - 2 * (double)projection));
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(against_differences),
        cmocka_unit_test(same_calls),
        cmocka_unit_test(dry_counts_the_same),
        cmocka_unit_test(nothing_new_after_the_first_pass),
        cmocka_unit_test(the_end_is_not_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
