/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks computed again: the same bits on every layout, the memory that a dry run says from the
 * first step on, the fewest blocks that fit, and no allocation after the first step.
 */
#include "parallel/trainer.h"

static void same_bits_as_without(void **unused) {
    (void)unused;
    for (int wide = 0; wide < 2; wide++)
        for (int size = 1; size <= 3; size++)
            for (int64_t micro = 0; micro < 2; micro++) {
                training none = {.kind = "gpt2", .wide = wide, .dropout = 0.1, .clip = 1};
                none.steps = 2;
                none.micro_batch = micro;
                none.bucket_bytes = 4096;
                training block = none;
                block.recompute = 100;
                same_bits(&none, size, &block, size);
                block.freeze = none.freeze = "transformer.h.0.*,transformer.wte.weight";
                if (size == 2) same_bits(&none, size, &block, size);
            }
}

static void memory_is_that_of_the_dry_run(void **unused) {
    (void)unused;
    int64_t without = 0;
    for (int blocks = 0; blocks <= 4; blocks++) {
        training t = {.kind = "gpt2", .wide = true, .steps = 3, .clip = 1, .recompute = blocks};
        trained *got = run_training(&t, 1);
        int64_t bytes = got->bytes[CADRE_MEM_ACTIVATIONS];
        assert_int_equal(got->live[CADRE_MEM_ACTIVATIONS], bytes);
        assert_int_equal(got->first_live, bytes); /* the first step takes no more than later ones */
        if (blocks == 0) without = bytes;
        if (blocks == 1) assert_int_equal(bytes, without); /* the embedding keeps what it has */
        if (blocks == 4) assert_true(bytes < without * 8 / 10);
        free(got);
    }
}

static void nothing_is_allocated_after_the_first_step(void **unused) {
    (void)unused;
    for (int recompute = 0; recompute <= 100; recompute += 100)
        for (int size = 1; size <= 3; size += 2) {
            training t = {.kind = "gpt2", .steps = 5, .clip = 1, .check = true, .micro_batch = 1};
            t.recompute = recompute;
            t.bucket_bytes = 4096;
            trained *got = run_training(&t, size);
            for (int r = 0; r < size; r++) assert_int_equal(got[r].allocations, 0);
            free(got);
        }
}

/* ---- the fewest blocks ---- */

static cadre_status fit_body(test_rank *me) {
    training t = {.kind = "gpt2", .clip = 1};
    cadre_settings *set = NULL;
    cadre_model *model = NULL;
    cadre_queue *queue = NULL;
    cadre_parallel *p = NULL;
    cadre_parallel_cfg parallel = {0};
    cadre_optim_cfg optim;
    OK(trainer_settings(&t, &set));
    OK(cadre_settings_put(set, "model.layers", "7", CADRE_FROM_COMMAND, NULL));
    OK(cadre_model_open(&model, set));
    OK(cadre_queue_open(&queue, "meta", NULL));
    OK(cadre_settings_fill(set, &cadre_parallel_settings, &parallel));
    OK(cadre_settings_fill(set, &cadre_optim_settings, &optim));
    OK(cadre_parallel_open(&p, me->comm, model, queue, &parallel, &optim));

    int blocks = cadre_model_block_count(model);
    cadre_pass shapes = {.training = true, .inputs = 2};
    cadre_pass_cost cost[16], got;
    for (int i = 0; i < 2; i++)
        shapes.input[i] = (cadre_named_tensor){i ? "labels" : "inputs",
                                               {CADRE_I32, cadre_dims2(64, LENGTH), NULL, -1}};
    assert_int_equal(blocks, 9);
    for (int k = 0; k <= blocks; k++) {
        OK(cadre_parallel_measure(p, &shapes, k, &cost[k]));
        assert_true(cost[k].flops == cost[0].flops);
        assert_int_equal(cost[k].again_blocks, k == 0 ? 0 : k < blocks ? k - 1 : 7);
        if (k == 0) continue;
        assert_true(cost[k].activations <= cost[k - 1].activations);
        assert_true(cost[k].again_flops >= cost[k - 1].again_flops);
    }
    for (int k = 0; k <= blocks; k++) {
        int want = 0, chosen;
        while (cost[want].activations > cost[k].activations) want++;
        OK(cadre_parallel_fit(p, &shapes, cost[k].activations, &chosen, &got));
        assert_int_equal(chosen, want);
        assert_int_equal(got.activations, cost[want].activations);
        assert_int_equal(got.again_blocks, cost[want].again_blocks);
    }
    int chosen;
    OK(cadre_parallel_fit(p, &shapes, cost[blocks].activations - 1, &chosen, &got));
    assert_int_equal(chosen, blocks); /* not enough */
    OK(cadre_parallel_fit(p, &shapes, INT64_MAX, &chosen, &got));
    assert_int_equal(chosen, 0);
    shapes.training = false;
    OK(cadre_parallel_measure(p, &shapes, blocks, &got));
    assert_true(got.again_blocks == 0 && got.flops < cost[0].flops / 2);
    assert_true(got.activations < cost[blocks].activations);
    cadre_parallel_close(&p);
    cadre_queue_close(&queue);
    cadre_model_close(&model);
    cadre_settings_close(&set);
    return CADRE_OK;
}

static void the_fewest_blocks_that_fit(void **unused) {
    (void)unused;
    test_result result;
    on_threads(1, NULL, fit_body, NULL, NULL, 0, &result);
    all_ok(&result, 1);
    assert_int_equal(cadre_live_bytes(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_without),
        cmocka_unit_test(memory_is_that_of_the_dry_run),
        cmocka_unit_test(nothing_is_allocated_after_the_first_step),
        cmocka_unit_test(the_fewest_blocks_that_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
