/* SPDX-License-Identifier: Apache-2.0
 *
 * What optimizers promise beyond the formula: bits that do not depend on threads or on the cut into
 * segments, per-segment decay and learning rate, schedules, settings.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "optim/optim.h"
#include "support/check.h"

enum { N = 70001, ARRAYS = 4 }; /* value, gradient, two states */

static cadre_optim_cfg plain_config(void) {
    return (cadre_optim_cfg){.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .momentum = 0.9};
}

/* Fills the four arrays with the same numbers each time; states are positive. */
static void fill(cadre_dtype dtype, void *arrays[ARRAYS]) {
    for (int a = 0; a < ARRAYS; a++)
        for (int64_t i = 0; i < N; i++) {
            double x = cadre_uniform_f32(cadre_philox_draw(7, (uint64_t)i, (uint64_t)a).v[0]);
            if (a < 2) x -= 0.5;
            if (dtype == CADRE_F64)
                ((double *)arrays[a])[i] = x;
            else
                ((float *)arrays[a])[i] = (float)x;
        }
}

static void move(const cadre_optimizer *o, cadre_dtype dtype, void *arrays[ARRAYS],
                 const cadre_segment *segments, int count, int threads) {
    cadre_optim_cfg cfg = plain_config();
    cadre_optim_step step = {.step = 3, .lr = 0.01, .grad_scale = 0.125};
    cadre_pool *pool = NULL;
    OK(cadre_pool_open(&pool, threads, NULL, NULL));
    fill(dtype, arrays);
    const cadre_optim_arrays at = {.dtype = dtype,
                                   .gradient_dtype = dtype,
                                   .values = arrays[0],
                                   .gradients = arrays[1],
                                   .state = {arrays[2], arrays[3]}};
    o->apply(&cfg, segments, count, &step, &at, pool);
    cadre_pool_close(&pool);
}

static void bits_do_not_depend_on_threads_or_cut(void **unused) {
    (void)unused;
    const cadre_segment whole = {.length = N, .decay = 0.1, .lr_scale = 1};
    cadre_segment cut[40];
    int cuts = 0;
    for (int64_t at = 0; at < N; cuts++) {
        int64_t length = cuts < 30 ? 1 + 37 * cuts : N - at; /* many small, one large */
        cut[cuts] = (cadre_segment){
            .param = cuts, .offset = at, .length = length, .decay = 0.1, .lr_scale = 1};
        at += length;
    }
    void *one[ARRAYS], *other[ARRAYS];
    for (int a = 0; a < ARRAYS; a++) {
        one[a] = calloc(N, sizeof(double));
        other[a] = calloc(N, sizeof(double));
        assert_non_null(one[a]);
        assert_non_null(other[a]);
    }
    for (int o = 0; o < cadre_optimizer_count; o++) {
        if (!cadre_optimizers[o].apply) continue;
        for (cadre_dtype dtype = CADRE_F32; dtype <= CADRE_F64; dtype++) {
            move(&cadre_optimizers[o], dtype, one, &whole, 1, 1);
            for (int threads = 1; threads <= 4; threads++) {
                move(&cadre_optimizers[o], dtype, other, cut, cuts, threads);
                for (int a = 0; a < ARRAYS; a++)
                    assert_memory_equal(one[a], other[a], N * (dtype == CADRE_F64 ? 8 : 4));
            }
        }
    }
    for (int a = 0; a < ARRAYS; a++) {
        free(one[a]);
        free(other[a]);
    }
}

static void segments_keep_to_their_range(void **unused) {
    (void)unused;
    cadre_optim_cfg cfg = plain_config();
    cadre_optim_step step = {.step = 1, .lr = 0.5, .grad_scale = 1};
    double value[8] = {1, 1, 1, 1, 1, 1, 1, 1}, gradient[8] = {0}, m[8] = {0}, v[8] = {0};
    const cadre_optim_arrays at = {CADRE_F64, CADRE_F64, value, gradient, {m, v}, NULL};
    const cadre_segment segments[] = {
        {.offset = 1, .length = 2, .decay = 0.1, .lr_scale = 1},
        {.offset = 4, .length = 1, .decay = 0.1, .lr_scale = 0.5},
        {.offset = 5, .length = 0, .decay = 0.1, .lr_scale = 1},
        {.offset = 6, .length = 1, .decay = 0, .lr_scale = 1},
    };
    cadre_optimizers[CADRE_ADAMW].apply(&cfg, segments, 4, &step, &at, NULL);
    const double want[8] = {1, 1 - 0.05, 1 - 0.05, 1, 1 - 0.025, 1, 1, 1};
    for (int i = 0; i < 8; i++) assert_true(fabs(value[i] - want[i]) < 1e-15);
}

static void plain_sgd_leaves_its_buffer(void **unused) {
    (void)unused;
    cadre_optim_cfg cfg = {.kind = CADRE_SGD};
    cadre_optim_step step = {.step = 1, .lr = 0.5, .grad_scale = 2};
    float value[2] = {1, 2}, gradient[2] = {0.25f, -0.5f}, buffer[2] = {7, 7};
    const cadre_optim_arrays at = {CADRE_F32, CADRE_F32, value, gradient, {buffer}, NULL};
    const cadre_segment whole = {.length = 2, .lr_scale = 1};
    cadre_optimizers[CADRE_SGD].apply(&cfg, &whole, 1, &step, &at, NULL);
    assert_true(value[0] == 0.75f && value[1] == 2.5f);
    assert_true(buffer[0] == 7 && buffer[1] == 7);
}

/* Gradients in bf16 count as the numbers they stand for; the copy is the values, rounded. */
static void bf16_beside_f32(void **unused) {
    (void)unused;
    enum { MANY = 5000 };
    static float value[MANY], other[MANY], wide[MANY], m[MANY], v[MANY], m2[MANY], v2[MANY];
    static uint16_t narrow[MANY], copy[MANY];
    cadre_optim_cfg cfg = plain_config();
    cadre_optim_step step = {.step = 1, .lr = 0.01, .grad_scale = 0.5};
    const cadre_segment segments[] = {{.length = 1700, .decay = 0.1, .lr_scale = 1},
                                      {.offset = 2048, .length = MANY - 2048, .lr_scale = 1}};
    for (int i = 0; i < MANY; i++) {
        value[i] = other[i] = 1.0f / (float)(i + 3);
        narrow[i] = cadre_f32_to_bf16((float)(i % 17) - 8.3f);
        wide[i] = cadre_bf16_to_f32(narrow[i]);
    }
    const cadre_optim_arrays plain = {CADRE_F32, CADRE_F32, value, wide, {m, v}, NULL};
    const cadre_optim_arrays mixed = {CADRE_F32, CADRE_BF16, other, narrow, {m2, v2}, copy};
    cadre_optimizers[CADRE_ADAMW].apply(&cfg, segments, 2, &step, &plain, NULL);
    cadre_optimizers[CADRE_ADAMW].apply(&cfg, segments, 2, &step, &mixed, NULL);
    assert_memory_equal(value, other, sizeof value);
    assert_memory_equal(m, m2, sizeof m);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(copy[i], i < 1700 || i >= 2048 ? cadre_f32_to_bf16(value[i]) : 0);
}

static void schedules(void **unused) {
    (void)unused;
    cadre_optim_cfg cfg = {.lr = 1, .min_lr = 0.1, .warmup_steps = 4, .decay_steps = 104};
    for (int schedule = CADRE_LR_COSINE; schedule <= CADRE_LR_STEP; schedule++) {
        cfg.schedule = schedule;
        for (int s = 0; s < 4; s++)
            assert_true(fabs(cadre_lr_at(&cfg, s + 1) - (s + 1) / 5.0) < 1e-15);
        assert_true(cadre_lr_at(&cfg, 5) == 1);
    }
    cfg.schedule = CADRE_LR_CONSTANT;
    assert_true(cadre_lr_at(&cfg, 1000) == 1);
    cfg.schedule = CADRE_LR_LINEAR;
    assert_true(fabs(cadre_lr_at(&cfg, 55) - 0.55) < 1e-15);
    assert_true(cadre_lr_at(&cfg, 105) == 0.1);
    cfg.schedule = CADRE_LR_STEP;
    cfg.decay_steps = 100;
    assert_true(cadre_lr_at(&cfg, 50) == 1);
    assert_true(fabs(cadre_lr_at(&cfg, 51) - 0.1) < 1e-15);
    assert_true(fabs(cadre_lr_at(&cfg, 75) - 0.1) < 1e-15);
    assert_true(fabs(cadre_lr_at(&cfg, 76) - 0.01) < 1e-15);
    /* A decay that ends within the warm-up goes straight down afterwards. */
    cfg = (cadre_optim_cfg){.lr = 1, .min_lr = 0.1, .warmup_steps = 10, .decay_steps = 10};
    assert_true(fabs(cadre_lr_at(&cfg, 10) - 10 / 11.0) < 1e-15);
    assert_true(cadre_lr_at(&cfg, 11) == 0.1);
}

static cadre_settings *settings_of(const char *const pairs[]) {
    const cadre_setting_table *table = &cadre_optim_settings;
    cadre_settings *set = NULL;
    OK(cadre_settings_make(&set, &table, 1));
    for (; pairs && *pairs; pairs += 2)
        OK(cadre_settings_put(set, pairs[0], pairs[1], CADRE_FROM_COMMAND, NULL));
    return set;
}

static void defaults_are_worked_out(void **unused) {
    (void)unused;
    cadre_settings *set = settings_of(NULL);
    OK(cadre_optim_resolve(set, 500, 12));
    cadre_optim_cfg cfg;
    OK(cadre_settings_fill(set, &cadre_optim_settings, &cfg));
    assert_int_equal(cfg.kind, CADRE_ADAMW);
    assert_true(cfg.lr == 6e-4 && fabs(cfg.min_lr - 6e-5) < 1e-18);
    assert_true(cfg.beta1 == 0.9 && cfg.beta2 == 0.95 && cfg.eps == 1e-8);
    assert_true(cfg.weight_decay == 0.1 && cfg.clip == 1.0 && cfg.momentum == 0);
    assert_int_equal(cfg.warmup_steps, 50);
    assert_int_equal(cfg.decay_steps, 500);
    assert_int_equal(cfg.schedule, CADRE_LR_COSINE);
    assert_int_equal(cfg.nonfinite, 0);
    assert_string_equal(cadre_settings_get(set, "optim.lr"), "0.0006");
    cadre_settings_close(&set);
}

static void combinations_are_refused(void **unused) {
    (void)unused;
    const struct {
        const char *const pairs[7];
        const char *said;
    } bad[] = {
        {{"optim.kind", "lamb"}, "optim.kind=lamb is not built yet"},
        {{"optim.kind", "lars"}, "optim.kind=lars is not built yet"},
        {{"optim.kind", "sgd"}, "optim.lr has to be given for optim.kind=sgd"},
        {{"optim.scale_lr", "linear"}, "needs optim.base_batch"},
        {{"optim.lr", "1e-4", "optim.min_lr", "1e-3"}, "above optim.lr"},
        {{"optim.kind", "sgd", "optim.lr", "1", "optim.nesterov", "true"}, "optim.momentum"},
    };
    for (int i = 0; i < CADRE_COUNT(bad); i++) {
        cadre_settings *set = settings_of(bad[i].pairs);
        FAILS(cadre_optim_resolve(set, 100, 12), CADRE_EUSAGE, bad[i].said);
        cadre_settings_close(&set);
    }
}

static void scaling(void **unused) {
    (void)unused;
    cadre_optim_cfg cfg = {.lr = 0.1, .min_lr = 0.01, .base_batch = 16};
    cadre_optim_scale(&cfg, 64);
    assert_true(cfg.lr == 0.1);
    cfg.scale_lr = CADRE_SCALE_SQRT;
    cadre_optim_scale(&cfg, 64);
    assert_true(fabs(cfg.lr - 0.2) < 1e-15 && fabs(cfg.min_lr - 0.02) < 1e-15);
    cfg.scale_lr = CADRE_SCALE_LINEAR;
    cadre_optim_scale(&cfg, 64);
    assert_true(fabs(cfg.lr - 0.8) < 1e-15 && fabs(cfg.min_lr - 0.08) < 1e-15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_threads_or_cut),
        cmocka_unit_test(segments_keep_to_their_range),
        cmocka_unit_test(plain_sgd_leaves_its_buffer),
        cmocka_unit_test(bf16_beside_f32),
        cmocka_unit_test(schedules),
        cmocka_unit_test(defaults_are_worked_out),
        cmocka_unit_test(combinations_are_refused),
        cmocka_unit_test(scaling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
