/* SPDX-License-Identifier: Apache-2.0
 *
 * The tape's contracts: order and number of the store's calls, frozen parameters, memory (nothing
 * new after the first pass, a dry pass counts what a real one holds, blocks leave nothing), sticky
 * failures, every k-th allocation failing.
 */
#include "witness.h"

#include "base/alloc.h"
#include "base/fault.h"

/* ---- blocks, written down too ---- */

static cadre_status enter_block(void *self, int block, int backward) {
    char name[8];
    snprintf(name, sizeof name, "%d", block);
    say(self, backward ? "(" : "[", name);
    return CADRE_OK;
}

static cadre_status leave_block(void *self, int block, int backward) {
    char name[8];
    snprintf(name, sizeof name, "%d", block);
    say(self, backward ? ")" : "]", name);
    return CADRE_OK;
}

static cadre_param_store view_of(witness *w) {
    cadre_param_store view = witness_view(w);
    view.enter_block = enter_block;
    view.leave_block = leave_block;
    return view;
}

/* Two blocks; the table is used in both. */
static cadre_tensor *two_blocks(bench *b) {
    cadre_tape *t = b->tape;
    cadre_tape_enter(t, 0);
    cadre_tensor *h = cadre_embedding(t, cadre_input(t, "ids"), &b->param[TABLE]);
    h = cadre_linear(t, h, &b->param[W], &b->param[BIAS]);
    cadre_tape_hand_over(t, h);
    cadre_tape_leave(t);
    cadre_tape_enter(t, 1);
    h = cadre_linear(t, h, &b->param[U], NULL);
    h = cadre_linear(t, h, &b->param[TABLE], NULL);
    h = cadre_cross_entropy(t, h, cadre_input(t, "labels"));
    cadre_tape_hand_over(t, h);
    cadre_tape_leave(t);
    return h;
}

static void run_two_blocks(witness *w, const char *want) {
    bench b;
    cadre_param_store view = view_of(w);
    w->b = &b;
    w->said[0] = '\0';
    w->between = 0;
    bench_open(&b, "ref", &view);
    OK(cadre_tape_begin(b.tape, &b.pass));
    cadre_tensor *loss = two_blocks(&b);
    OK(cadre_tape_status(b.tape));
    assert_int_equal(cadre_tape_length(b.tape), 5);
    OK(cadre_tape_backward(b.tape, loss, NULL));
    assert_string_equal(w->said, want);
    assert_int_equal(w->between, 10); /* after each operation, both ways */
    bench_close(&b);
}

static void order_of_calls(void **state) {
    (void)state;
    witness w = {0};
    run_two_blocks(&w, "[0 ]0 [1 ]1 (1 =table =u !u )1 (0 =w =bias !w !bias +table !table )0 ");
    w.frozen = 1u << W;
    run_two_blocks(&w, "[0 ]0 [1 ]1 (1 =table =u !u )1 (0 =bias !bias +table !table )0 ");
    w.knows = true;
    run_two_blocks(&w, "[0 ]0 [1 ]1 (1 =table =u !u )1 (0 =bias !bias +table !table )0 ");
    w.frozen = 1u << TABLE; /* nothing below needs a gradient but w and bias */
    run_two_blocks(&w, "[0 ]0 [1 ]1 (1 =u !u )1 (0 =w =bias !w !bias )0 ");
}

/* A use that no gradient reaches counts as over. */
static void unreached_use(void **state) {
    (void)state;
    bench b;
    witness w = {.b = &b};
    cadre_param_store view = view_of(&w);
    bench_open(&b, "ref", &view);
    OK(cadre_tape_begin(b.tape, &b.pass));
    (void)cadre_linear(b.tape, input(&b), &b.param[W], &b.param[BIAS]);
    cadre_tensor *h = cadre_linear(b.tape, input(&b), &b.param[W], NULL);
    (void)cadre_gelu(b.tape, h);
    OK(cadre_tape_backward(b.tape, cadre_sum(b.tape, h), NULL));
    assert_string_equal(w.said, "=w !w ");
    bench_close(&b);
}

/* ---- memory ---- */

static cadre_tensor *deep(bench *b) {
    cadre_tensor *h = input(b);
    for (int i = 0; i < 40; i++) {
        cadre_tape_enter(b->tape, i);
        cadre_tensor *y = cadre_linear_gelu(b->tape, h, &b->param[W], &b->param[BIAS]);
        h = cadre_add(b->tape, h, cadre_linear(b->tape, y, &b->param[U], NULL));
        cadre_tape_hand_over(b->tape, h);
        cadre_tape_leave(b->tape);
    }
    return cadre_sum(b->tape, h);
}

static void pass_over(bench *b, formula *f) {
    OK(cadre_tape_begin(b->tape, &b->pass));
    cadre_tensor *loss = f(b);
    OK(cadre_tape_status(b->tape));
    if (b->pass.training) OK(cadre_tape_backward(b->tape, loss, NULL));
}

static void nothing_new_after_the_first_pass(void **state) {
    (void)state;
    bench b;
    bench_open(&b, "ref", NULL);
    for (int training = 0; training < 2; training++) {
        b.pass.training = training;
        pass_over(&b, deep);
        pass_over(&b, deep); /* its begin joins the arena's blocks */
        int64_t live = cadre_live_bytes();
        size_t peak = cadre_tape_peak_bytes(b.tape);
        cadre_fault_at(0); /* any allocation fails */
        pass_over(&b, deep);
        pass_over(&b, deep);
        cadre_fault_at(-1);
        assert_false(cadre_fault_hit());
        assert_int_equal(cadre_live_bytes(), live);
        assert_int_equal(cadre_tape_peak_bytes(b.tape), peak);
    }
    bench_close(&b);
}

static size_t peak_of(const char *backend, bool training, formula *f) {
    bench b;
    bench_open(&b, backend, NULL);
    b.pass.training = training;
    pass_over(&b, f);
    size_t first = cadre_tape_peak_bytes(b.tape);
    pass_over(&b, f);
    assert_int_equal(cadre_tape_peak_bytes(b.tape), first);
    bench_close(&b);
    return first;
}

static void dry_pass_counts_the_same(void **state) {
    (void)state;
    for (int training = 0; training < 2; training++) {
        size_t dry = peak_of("meta", training, deep), real = peak_of("ref", training, deep);
        assert_int_equal(dry, real);
        assert_int_equal(peak_of("meta", training, two_blocks),
                         peak_of("ref", training, two_blocks));
        /* a tensor has ROWS x LENGTH x WIDTH x 8 = 192 bytes; without training two blocks' worth */
        if (!training) assert_true(real <= 192 * 6);
        if (training) assert_true(real >= 192 * 40 * 3 && real <= 192 * (40 * 3 + 8));
    }
}

static void reserved_memory_is_enough(void **state) {
    (void)state;
    bench b;
    size_t bytes = peak_of("meta", true, deep);
    bench_open(&b, "ref", NULL);
    OK(cadre_tape_reserve(b.tape, bytes));
    int64_t before = cadre_mem_live(CADRE_MEM_ACTIVATIONS);
    assert_int_equal(before, bytes);
    pass_over(&b, deep);
    pass_over(&b, deep);
    assert_int_equal(cadre_mem_live(CADRE_MEM_ACTIVATIONS), before);
    FAILS(cadre_tape_reserve(b.tape, bytes), CADRE_EUSAGE, "before its first pass");
    bench_close(&b);
}

static void all_of_it_is_reserved(void **state) {
    (void)state;
    for (int training = 0; training < 2; training++) {
        bench dry, b;
        bench_open(&dry, "meta", NULL);
        bench_open(&b, "ref", NULL);
        dry.pass.training = b.pass.training = training;
        pass_over(&dry, deep);
        OK(cadre_tape_reserve_like(b.tape, dry.tape));
        int64_t before = cadre_mem_allocations();
        pass_over(&b, deep);
        pass_over(&b, deep);
        assert_int_equal(cadre_mem_allocations(), before);
        bench_close(&dry);
        bench_close(&b);
    }
}

/* A second tape in the memory of the first: no byte more, and one pass at a time. */
static void a_tape_may_lend_its_memory(void **state) {
    (void)state;
    bench b;
    bench_open(&b, "ref", NULL);
    pass_over(&b, deep);
    pass_over(&b, deep);
    int64_t before = cadre_mem_live(CADRE_MEM_ACTIVATIONS);
    OK(cadre_tape_begin(b.tape, &b.pass));
    cadre_tensor *loss = two_blocks(&b);
    cadre_tape *first = b.tape;
    b.tape = NULL;
    OK(cadre_tape_open(&b.tape, b.queue, cadre_plain_store_view(b.store), CADRE_F64));
    cadre_tape_borrow(b.tape, first);
    pass_over(&b, deep);
    assert_int_equal(cadre_mem_live(CADRE_MEM_ACTIVATIONS), before);
    FAILS(cadre_tape_backward(first, loss, NULL), CADRE_EUSAGE, "another tape");
    cadre_tape_close(&b.tape);
    b.tape = first;
    pass_over(&b, deep);
    assert_int_equal(cadre_mem_live(CADRE_MEM_ACTIVATIONS), before);
    bench_close(&b);
}

/* ---- failures ---- */

static void failures_stick(void **state) {
    (void)state;
    bench b;
    bench_open(&b, "ref", NULL);
    OK(cadre_tape_begin(b.tape, &b.pass));
    cadre_tensor *bad = cadre_linear(b.tape, input(&b), &b.param[TABLE], &b.param[BIAS]);
    FAILS(cadre_tape_status(b.tape), CADRE_EUSAGE, "linear");
    int length = cadre_tape_length(b.tape);
    (void)CADRE_FAIL(CADRE_EDATA, "something else in between");
    bad = cadre_gelu(b.tape, bad);
    (void)cadre_input(b.tape, "nonsense");
    assert_int_equal(cadre_tape_length(b.tape), length);
    assert_int_equal(cadre_dims_count(&bad->dims), 1);
    FAILS(cadre_tape_status(b.tape), CADRE_EUSAGE, "linear");
    FAILS(cadre_tape_backward(b.tape, bad, NULL), CADRE_EUSAGE, "linear");
    pass_over(&b, two_blocks); /* the next pass starts afresh */
    bench_close(&b);
}

static cadre_tensor *unknown_input(bench *b) {
    return cadre_input(b->tape, "lables");
}

static cadre_tensor *unknown_parameter(bench *b) {
    static const cadre_parameter p = {.id = -1, .name = "block stem has no parameter x"};
    return cadre_linear(b->tape, input(b), &p, NULL);
}

static cadre_tensor *logits_used_before(bench *b) {
    cadre_tensor *h = cadre_linear(b->tape, input(b), &b->param[TABLE], NULL);
    (void)cadre_gelu(b->tape, h);
    return cadre_cross_entropy(b->tape, h, cadre_input(b->tape, "labels"));
}

static cadre_tensor *logits_used_after(bench *b) {
    cadre_tensor *h = cadre_linear(b->tape, input(b), &b->param[TABLE], NULL);
    (void)cadre_cross_entropy(b->tape, h, cadre_input(b->tape, "labels"));
    return cadre_gelu(b->tape, h);
}

static cadre_tensor *logits_of_the_batch(bench *b) {
    return cadre_cross_entropy(b->tape, input(b), cadre_input(b->tape, "labels"));
}

static cadre_tensor *loss_in_a_formula(bench *b) {
    return cadre_gelu(b->tape, cadre_sum(b->tape, input(b)));
}

static cadre_tensor *foreign_tensor(bench *b) {
    static cadre_tensor mine = {.dtype = CADRE_F64, .id = 0};
    return cadre_gelu(b->tape, &mine);
}

static cadre_tensor *rate_of_one(bench *b) {
    return cadre_dropout(b->tape, input(b), 1.0, "here");
}

static cadre_tensor *not_handed_over(bench *b) {
    cadre_tape_enter(b->tape, 0);
    cadre_tensor *h = cadre_linear(b->tape, input(b), &b->param[W], NULL);
    cadre_tensor *y = cadre_add(b->tape, h, h);
    cadre_tape_hand_over(b->tape, y);
    cadre_tape_leave(b->tape);
    return cadre_add(b->tape, y, h);
}

static void mistakes(void **state) {
    (void)state;
    static const struct {
        formula *f;
        const char *part;
    } cases[] = {
        {unknown_input, "no tensor \"lables\"; it has inputs, labels, ids"},
        {unknown_parameter, "block stem has no parameter x"},
        {logits_used_before, "nothing else may use it"},
        {logits_used_after, "nothing else may use it"},
        {logits_of_the_batch, "a tensor of the batch"},
        {loss_in_a_formula, "has to end the formula"},
        {foreign_tensor, "not a tensor of this tape"},
        {rate_of_one, "\"here\": the rate is 1"},
        {not_handed_over, "did not hand over"},
    };
    bench b;
    bench_open(&b, "ref", NULL);
    for (int i = 0; i < CADRE_COUNT(cases); i++) {
        OK(cadre_tape_begin(b.tape, &b.pass));
        (void)cases[i].f(&b);
        FAILS(cadre_tape_status(b.tape), CADRE_EUSAGE, cases[i].part);
    }
    b.pass.key.sample_count = 1;
    OK(cadre_tape_begin(b.tape, &b.pass));
    (void)cadre_dropout(b.tape, input(&b), 0.5, "here");
    FAILS(cadre_tape_status(b.tape), CADRE_EUSAGE, "numbers 1 samples");
    bench_close(&b);
}

static void backward_refuses(void **state) {
    (void)state;
    bench b;
    bench_open(&b, "ref", NULL);
    OK(cadre_tape_begin(b.tape, &b.pass));
    cadre_tensor *h = cadre_linear(b.tape, input(&b), &b.param[W], NULL);
    FAILS(cadre_tape_backward(b.tape, h, NULL), CADRE_EUSAGE, "takes a gradient");
    pass_over(&b, two_blocks);
    OK(cadre_tape_begin(b.tape, &b.pass));
    cadre_tensor *loss = two_blocks(&b);
    OK(cadre_tape_backward(b.tape, loss, NULL));
    FAILS(cadre_tape_backward(b.tape, loss, NULL), CADRE_EUSAGE, "replayed once");
    b.pass.training = false;
    OK(cadre_tape_begin(b.tape, &b.pass));
    loss = two_blocks(&b);
    FAILS(cadre_tape_backward(b.tape, loss, NULL), CADRE_EUSAGE, "training pass");
    bench_close(&b);
}

static cadre_status open_and_step(void) {
    static const cadre_parameter w = {
        .id = 0, .name = "w", .dtype = CADRE_F64, .dims = {2, {WIDTH, WIDTH}}};
    const cadre_parameter *all[] = {&w};
    static double x[ROWS * WIDTH];
    cadre_plain_store *store = NULL;
    cadre_queue *queue = NULL;
    cadre_tape *tape = NULL;
    cadre_pass pass = {.training = true, .inputs = 1};
    pass.input[0] = named("inputs", CADRE_F64, cadre_dims2(ROWS, WIDTH), x);
    cadre_status st = cadre_plain_store_open(&store, all, 1, true);
    if (!st) st = cadre_queue_open(&queue, "ref", NULL);
    if (!st) st = cadre_tape_open(&tape, queue, cadre_plain_store_view(store), CADRE_F64);
    if (!st) st = cadre_tape_begin(tape, &pass);
    if (!st) {
        cadre_tensor *h = cadre_input(tape, "inputs");
        for (int i = 0; i < 70; i++) h = cadre_add(tape, h, cadre_linear(tape, h, &w, NULL));
        st = cadre_tape_backward(tape, cadre_sum(tape, h), NULL);
    }
    cadre_tape_close(&tape);
    cadre_queue_close(&queue);
    cadre_plain_store_close(&store);
    return st;
}

static void every_allocation_fails_once(void **state) {
    (void)state;
    OK(open_and_step());
    int64_t live = cadre_live_bytes();
    int failed = 0;
    for (int k = 0;; k++) {
        cadre_fault_at(k);
        cadre_status st = open_and_step();
        bool hit = cadre_fault_hit();
        cadre_fault_at(-1);
        assert_int_equal(cadre_live_bytes(), live);
        if (!hit) break;
        assert_int_equal(st, CADRE_ERESOURCE);
        failed++;
    }
    assert_true(failed > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_of_calls),
        cmocka_unit_test(unreached_use),
        cmocka_unit_test(nothing_new_after_the_first_pass),
        cmocka_unit_test(dry_pass_counts_the_same),
        cmocka_unit_test(reserved_memory_is_enough),
        cmocka_unit_test(all_of_it_is_reserved),
        cmocka_unit_test(a_tape_may_lend_its_memory),
        cmocka_unit_test(failures_stick),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(backward_refuses),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
