/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers and schedules against PyTorch's and nanoGPT's values (tests/golden/optim_golden.py).
 */
#include <math.h>
#include <string.h>

#include "optim/golden.h"
#include "optim/optim.h"
#include "support/check.h"

static double start_value(int i) {
    return ((i * 5) % 11 - 5) / 4.0;
}

static double start_gradient(int i, int t) {
    return ((i * 7 + t * 13) % 17 - 8) / 8.0;
}

static cadre_optim_cfg config_of(const golden_case *c) {
    return (cadre_optim_cfg){.kind = c->kind,
                             .beta1 = c->beta1,
                             .beta2 = c->beta2,
                             .eps = c->eps,
                             .momentum = c->momentum,
                             .nesterov = c->nesterov};
}

static void take_step_f64(const golden_case *c, int t, double *value, void *const state[]) {
    cadre_optim_cfg cfg = config_of(c);
    /* Gradients arrive as sums over 4 samples: grad_scale makes the mean. */
    cadre_optim_step step = {.step = t, .lr = c->lr, .grad_scale = 0.25};
    cadre_segment whole = {.length = GOLDEN_N, .decay = c->decay, .lr_scale = 1};
    double gradient[GOLDEN_N];
    for (int i = 0; i < GOLDEN_N; i++) gradient[i] = 4 * start_gradient(i, t);
    const cadre_optim_arrays at = {CADRE_F64, CADRE_F64, value, gradient, {state[0], state[1]},
                                   NULL};
    cadre_optimizers[c->kind].apply(&cfg, &whole, 1, &step, &at, NULL);
}

static void take_step_f32(const golden_case *c, int t, float *value, void *const state[]) {
    cadre_optim_cfg cfg = config_of(c);
    cadre_optim_step step = {.step = t, .lr = c->lr, .grad_scale = 0.25};
    cadre_segment whole = {.length = GOLDEN_N, .decay = c->decay, .lr_scale = 1};
    float gradient[GOLDEN_N];
    for (int i = 0; i < GOLDEN_N; i++) gradient[i] = (float)(4 * start_gradient(i, t));
    const cadre_optim_arrays at = {CADRE_F32, CADRE_F32, value, gradient, {state[0], state[1]},
                                   NULL};
    cadre_optimizers[c->kind].apply(&cfg, &whole, 1, &step, &at, NULL);
}

static void check_case(const golden_case *c) {
    double wide[GOLDEN_N], wide_state[2][GOLDEN_N] = {0};
    float narrow[GOLDEN_N], narrow_state[2][GOLDEN_N] = {0};
    void *const wide_at[] = {wide_state[0], wide_state[1]};
    void *const narrow_at[] = {narrow_state[0], narrow_state[1]};
    for (int i = 0; i < GOLDEN_N; i++) narrow[i] = (float)(wide[i] = start_value(i));
    for (int t = 1, kept = 0; t <= GOLDEN_STEPS; t++) {
        take_step_f64(c, t, wide, wide_at);
        take_step_f32(c, t, narrow, narrow_at);
        if (t != golden_kept[kept]) continue;
        float want[GOLDEN_N];
        for (int i = 0; i < GOLDEN_N; i++) want[i] = (float)c->after[kept][i];
        assert_true(relative_gap_f64(wide, c->after[kept], GOLDEN_N) <= 1e-14);
        assert_true(relative_gap_f32(narrow, want, GOLDEN_N) <= 1e-6);
        kept++;
    }
}

static void optimizers_match_pytorch(void **unused) {
    (void)unused;
    for (int i = 0; i < CADRE_COUNT(golden_cases); i++) check_case(&golden_cases[i]);
}

static void cosine_matches_nanogpt(void **unused) {
    (void)unused;
    cadre_optim_cfg cfg = {.lr = 1e-3,
                           .min_lr = 1e-4,
                           .warmup_steps = 10,
                           .decay_steps = 100,
                           .schedule = CADRE_LR_COSINE};
    for (int i = 0; i < CADRE_COUNT(golden_lr); i++) {
        double got = cadre_lr_at(&cfg, (int64_t)golden_lr[i][0] + 1);
        assert_true(fabs(got - golden_lr[i][1]) <= 1e-15 * cfg.lr);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_match_pytorch),
        cmocka_unit_test(cosine_matches_nanogpt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
