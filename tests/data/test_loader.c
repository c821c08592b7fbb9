/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader against direct computation, from any position, however far ahead; closed at any
 * moment; and evaluation, which predicts every token but the first exactly once.
 */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/trace.h"
#include "data/loader.h"

enum { TOKENS = 501, CONTEXT = 7 };

static uint16_t narrow[TOKENS];
static int32_t wide[TOKENS];
static const cadre_run_of_tokens narrow_run = {.data = narrow, .count = TOKENS};
static const cadre_run_of_tokens wide_run = {.data = wide, .wide = true, .count = TOKENS};

static int fill_tokens(void **state) {
    (void)state;
    for (int i = 0; i < TOKENS; i++) {
        narrow[i] = (uint16_t)(65535 - i);
        wide[i] = 1000000 + i;
    }
    return 0;
}

static void compare(const cadre_micro_batch *b, const cadre_run_of_tokens *run,
                    const cadre_sampler *s, int64_t first, int64_t end) {
    int64_t valid = 0;
    for (int64_t r = 0; r < b->rows; r++) {
        assert_int_equal(b->samples[r], first + r);
        bool counts = first + r < end;
        int64_t start = counts ? cadre_sampler_start(s, first + r) : 0;
        valid += counts ? b->context : 0;
        for (int64_t i = 0; i < b->context; i++) {
            int64_t at = r * b->context + i;
            assert_int_equal(b->inputs[at], counts ? cadre_token_at(run, start + i) : 0);
            assert_int_equal(b->labels[at], counts ? cadre_token_at(run, start + i + 1) : -1);
        }
    }
    assert_int_equal(b->valid, valid);
}

static void equals_direct_computation(void **state) {
    (void)state;
    const cadre_run_of_tokens *runs[] = {&narrow_run, &wide_run};
    for (int ahead = 1; ahead <= 5; ahead += 2)
        for (int64_t position = 0; position <= 36; position += 12)
            for (int rank = 0; rank < 2; rank++) {
                const cadre_run_of_tokens *run = runs[rank];
                cadre_sampler s;
                cadre_batching b;
                cadre_loader *l = NULL;
                OK(cadre_sampler_plan(&s, 9, TOKENS, CONTEXT, true));
                OK(cadre_batching_plan(&b, 12, 3, 2, rank));
                OK(cadre_loader_open(&l, run, &s, &b, position, ahead));
                for (int step = 0; step < 20; step++)
                    for (int64_t m = 0; m < b.accumulation; m++) {
                        const cadre_micro_batch *batch = NULL;
                        OK(cadre_loader_next(l, &batch));
                        assert_int_equal(batch->rows, 3);
                        assert_int_equal(batch->context, CONTEXT);
                        compare(batch, run, &s, cadre_batching_first(&b, position + 12 * step, m),
                                INT64_MAX);
                    }
                assert_true(cadre_loader_wait_ns(l) >= 0);
                cadre_loader_close(&l);
                assert_null(l);
            }
}

static void rows_past_the_end_do_not_count(void **state) {
    (void)state;
    cadre_sampler s;
    cadre_batching b;
    cadre_loader *l = NULL;
    int64_t valid = 0;
    OK(cadre_sampler_plan(&s, 9, TOKENS, CONTEXT, true));
    for (int rank = 0; rank < 3; rank++) {
        OK(cadre_batching_plan(&b, 24, 4, 3, rank));
        b.end = s.per_epoch; /* 70: two whole batches and 22 samples */
        OK(cadre_loader_open(&l, &narrow_run, &s, &b, 0, 2));
        for (int i = 0; i < 6; i++) {
            const cadre_micro_batch *batch = NULL;
            OK(cadre_loader_next(l, &batch));
            compare(batch, &narrow_run, &s, cadre_batching_first(&b, i / 2 * 24, i % 2), b.end);
            valid += batch->valid;
        }
        cadre_loader_close(&l);
    }
    assert_int_equal(valid, s.per_epoch * CONTEXT);
}

static void closes_at_any_moment(void **state) {
    (void)state;
    cadre_sampler s;
    cadre_batching b;
    OK(cadre_sampler_plan(&s, 9, TOKENS, CONTEXT, true));
    OK(cadre_batching_plan(&b, 2, 1, 1, 0));
    int64_t before = cadre_live_bytes();
    for (int round = 0; round < 200; round++) {
        cadre_loader *l = NULL;
        const cadre_micro_batch *batch = NULL;
        OK(cadre_loader_open(&l, &narrow_run, &s, &b, round, 1 + round % 3));
        for (int i = 0; i < round % 7; i++) OK(cadre_loader_next(l, &batch));
        cadre_loader_close(&l);
    }
    cadre_loader *none = NULL;
    cadre_loader_close(&none);
    assert_int_equal(cadre_live_bytes(), before);
}

static void a_held_batch_is_left_alone(void **state) {
    (void)state;
    cadre_sampler s;
    cadre_batching b;
    cadre_loader *l = NULL;
    const cadre_micro_batch *batch = NULL;
    OK(cadre_sampler_plan(&s, 9, TOKENS, CONTEXT, true));
    OK(cadre_batching_plan(&b, 2, 2, 1, 0));
    OK(cadre_loader_open(&l, &narrow_run, &s, &b, 0, 1));
    for (int i = 0; i < 20; i++) {
        OK(cadre_loader_next(l, &batch));
        cadre_sleep_ms(2); /* the thread could fill everything by now */
        compare(batch, &narrow_run, &s, 2 * i, INT64_MAX);
    }
    cadre_loader_close(&l);
}

static void filling_is_traced(void **state) {
    (void)state;
    cadre_sampler s;
    cadre_batching b;
    cadre_loader *l = NULL;
    cadre_trace *trace = NULL;
    const cadre_micro_batch *batch = NULL;
    OK(cadre_trace_open(&trace, 100));
    cadre_trace_attach(trace);
    OK(cadre_sampler_plan(&s, 9, TOKENS, CONTEXT, true));
    OK(cadre_batching_plan(&b, 2, 2, 1, 0));
    OK(cadre_loader_open(&l, &narrow_run, &s, &b, 0, 1));
    for (int i = 0; i < 10; i++) OK(cadre_loader_next(l, &batch));
    cadre_loader_close(&l);
    cadre_trace_attach(NULL);
    assert_in_range(cadre_trace_count(trace, NULL), 10, 12);
    cadre_trace_event event;
    cadre_trace_event_at(trace, 0, &event);
    assert_int_equal(event.row, CADRE_TRACE_DATA);
    assert_string_equal(event.name, "fill micro-batch");
    assert_int_equal(event.bytes, 2 * 2 * CONTEXT * 4);
    cadre_trace_close(&trace);
}

static void every_failure_of_open_leaves_nothing(void **state) {
    (void)state;
    cadre_sampler s;
    cadre_batching b;
    OK(cadre_sampler_plan(&s, 9, TOKENS, CONTEXT, true));
    OK(cadre_batching_plan(&b, 2, 2, 1, 0));
    int64_t before = cadre_live_bytes(), k = 0;
    for (bool failed = true; failed; k++) {
        cadre_loader *l = NULL;
        cadre_fault_at(k);
        cadre_status st = cadre_loader_open(&l, &narrow_run, &s, &b, 0, 2);
        failed = cadre_fault_hit();
        cadre_fault_at(-1);
        assert_int_equal(st, failed ? CADRE_ERESOURCE : CADRE_OK);
        assert_int_equal(l == NULL, failed);
        cadre_loader_close(&l);
        assert_int_equal(cadre_live_bytes(), before);
    }
    assert_in_range(k, 10, 12);
}

static void evaluation_predicts_each_token_once(void **state) {
    (void)state;
    for (int64_t count = 0; count <= 40; count++)
        for (int64_t context = 1; context <= 12; context++) {
            const cadre_run_of_tokens run = {.data = wide, .wide = true, .count = count};
            int64_t windows = cadre_eval_windows(count, context), valid = 0;
            assert_int_equal(windows, count < 2 ? 0 : (count - 2) / context + 1);
            int predicted[41] = {0};
            cadre_micro_batch b;
            OK(cadre_micro_batch_open(&b, 3, context));
            for (int64_t first = 0; first < windows; first += 3) {
                cadre_eval_fill(&run, context, first, 3, &b);
                valid += b.valid;
                for (int64_t i = 0; i < 3 * context; i++) {
                    if (b.labels[i] < 0) continue;
                    assert_int_equal(b.labels[i], b.inputs[i] + 1);
                    predicted[b.labels[i] - 1000000]++;
                }
                assert_int_equal(b.samples[2], first + 2);
            }
            cadre_micro_batch_close(&b);
            for (int64_t i = 1; i < count; i++) assert_int_equal(predicted[i], 1);
            assert_int_equal(predicted[0], 0);
            assert_int_equal(valid, count < 2 ? 0 : count - 1);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_direct_computation),
        cmocka_unit_test(rows_past_the_end_do_not_count),
        cmocka_unit_test(closes_at_any_moment),
        cmocka_unit_test(a_held_batch_is_left_alone),
        cmocka_unit_test(filling_is_traced),
        cmocka_unit_test(every_failure_of_open_leaves_nothing),
        cmocka_unit_test(evaluation_predicts_each_token_once),
    };
    return cmocka_run_group_tests(tests, fill_tokens, NULL);
}
