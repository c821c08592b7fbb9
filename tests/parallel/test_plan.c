/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known before a step: the span, the schedule, the settings, and a dry run's numbers.
 */
#include "base/alloc.h"
#include "base/fault.h"
#include "parallel/schedule.h"
#include "parallel/trainer.h"

static void schedule_is_data(void **unused) {
    (void)unused;
    cadre_schedule s = {0};
    static const char *const names[] = {"forward", "backward", "forward", "backward",
                                        "reduce",  "clip",     "update"};
    assert_string_equal(cadre_schedules[0].name, "plain");
    OK(cadre_schedules[0].write(2, 0, 1, 1, &s));
    assert_int_equal(s.count, 7);
    for (int i = 0; i < s.count; i++)
        assert_string_equal(cadre_action_name(s.at[i].kind), names[i]);
    assert_int_equal(s.at[2].micro, 1);
    cadre_schedule_free(&s);
    OK(cadre_schedules[0].write(0, 0, 1, 1, &s));
    assert_int_equal(s.count, 3);
    cadre_schedule_free(&s);
    FAILS(cadre_schedules[0].write(2, 0, 2, 1, &s), CADRE_EUSAGE, "stage 0 of 2");
}

static void span_places_every_parameter(void **unused) {
    (void)unused;
    static const char *const patterns[] = {"*.bias", "transformer.wte.*"};
    const cadre_list freeze[] = {{0, NULL}, {2, patterns}};
    training t = {.kind = "gpt2", .clip = 1};
    cadre_settings *set = NULL;
    cadre_model *m = NULL;
    OK(trainer_settings(&t, &set));
    OK(cadre_model_open(&m, set));
    for (int f = 0; f < 2; f++) {
        cadre_span span;
        OK(cadre_span_open(&span, m, &freeze[f]));
        int64_t used = 0, wanted = 0;
        int frozen = 0;
        for (int id = 0; id < span.params; id++) {
            const cadre_span_param *p = &span.param[id];
            assert_int_equal(p->offset % CADRE_CHUNK, 0);
            assert_int_equal(p->count, cadre_dims_count(&cadre_model_param(m, id)->dims));
            assert_true(p->offset + p->count <= span.length);
            assert_true(p->frozen ? p->offset >= span.trained : p->offset < span.trained);
            for (int other = 0; other < id; other++) {
                const cadre_span_param *q = &span.param[other];
                assert_true(p->offset >= q->offset + q->count || q->offset >= p->offset + p->count);
                if (p->frozen == q->frozen) assert_true(p->offset > q->offset);
            }
            used += p->count;
            wanted += p->frozen ? 0 : p->count;
            frozen += p->frozen;
        }
        assert_int_equal(span.length - span.padding, used);
        assert_int_equal(used, cadre_model_parameters(m));
        assert_int_equal(frozen > 0, f);
        assert_true(span.trained >= wanted);
        cadre_span_close(&span);
    }
    cadre_model_close(&m);
    cadre_settings_close(&set);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void settings(void **unused) {
    (void)unused;
    const cadre_setting_table *table = &cadre_parallel_settings;
    cadre_settings *set = NULL;
    cadre_parallel_cfg cfg = {0};
    OK(cadre_settings_make(&set, &table, 1));
    OK(cadre_settings_fill(set, table, &cfg));
    assert_true(cfg.dp == CADRE_UNSET && cfg.first_bucket_bytes == CADRE_UNSET);
    assert_true(cfg.tp == 1 && cfg.pp == 1 && cfg.cp == 1 && cfg.zero == 0);
    assert_true(cfg.bucket_bytes == 25 << 20 && cfg.overlap && cfg.check_every == 100);
    static const char *const later[][2] = {
        {"parallel.tp", "2"},          {"parallel.pp", "2"},
        {"parallel.cp", "2"},          {"parallel.zero", "1"},
        {"parallel.sequence", "true"}, {"parallel.replicas", "2"},
        {"parallel.schedule", "1f1b"}, {"parallel.offload", "optimizer"}};
    for (int i = 0; i < CADRE_COUNT(later); i++)
        FAILS(cadre_settings_put(set, later[i][0], later[i][1], CADRE_FROM_COMMAND, NULL),
              CADRE_EUSAGE, "not built yet");
    FAILS(cadre_settings_put(set, "parallel.bucket_bytes", "0", CADRE_FROM_COMMAND, NULL),
          CADRE_EUSAGE, "bucket_bytes");
    cadre_settings_close(&set);
}

/* Memory, traffic and buckets of a dry run with one rank are those of the real run. */
static void a_dry_run_knows_the_numbers(void **unused) {
    (void)unused;
    for (int k = 0; k < 2; k++) {
        training real = {.kind = "gpt2", .steps = 2, .clip = 1, .micro_batch = 2, .wide = k};
        real.bucket_bytes = 4096;
        training dry = real;
        dry.meta = true;
        dry.dp = "3";
        trained *want = run_training(&real, 3);
        trained *got = calloc(1, sizeof *got);
        test_result result;
        on_threads(1, NULL, train_body, &dry, got, sizeof *got, &result);
        all_ok(&result, 1);
        assert_int_equal(got->traffic, want->traffic);
        assert_int_equal(got->buckets, want->buckets);
        assert_true(want->traffic > 0 && want->buckets > 1);
        for (int kind = 0; kind < CADRE_MEM_KINDS; kind++)
            assert_int_equal(got->bytes[kind], want->bytes[kind]);
        assert_true(got->bytes[CADRE_MEM_ACTIVATIONS] > 0);
        free(want);
        free(got);
    }
    assert_int_equal(cadre_live_bytes(), 0);
}

/* What is predicted is what is counted. */
static void memory_is_as_predicted(void **unused) {
    (void)unused;
    static const cadre_mem kinds[] = {CADRE_MEM_PARAMETERS, CADRE_MEM_GRADIENTS,
                                      CADRE_MEM_OPTIMIZER, CADRE_MEM_ACTIVATIONS};
    static const char *const optimizers[] = {"adamw", "sgd"};
    for (int k = 0; k < 2; k++) {
        training t = {.kind = "gpt2", .steps = 2, .clip = 1, .optimizer = optimizers[k]};
        trained *got = run_training(&t, 1);
        for (int i = 0; i < CADRE_COUNT(kinds); i++)
            assert_int_equal(got->live[kinds[i]], got->bytes[kinds[i]]);
        free(got);
    }
}

static void a_wrong_degree_is_refused(void **unused) {
    (void)unused;
    training t = {.kind = "gpt2", .clip = 1, .dp = "3"};
    test_result results[2];
    on_threads(2, NULL, train_body, &t, NULL, 0, results);
    for (int r = 0; r < 2; r++) assert_int_equal(results[r].status, CADRE_EUSAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedule_is_data),
        cmocka_unit_test(span_places_every_parameter),
        cmocka_unit_test(settings),
        cmocka_unit_test(a_dry_run_knows_the_numbers),
        cmocka_unit_test(memory_is_as_predicted),
        cmocka_unit_test(a_wrong_degree_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
