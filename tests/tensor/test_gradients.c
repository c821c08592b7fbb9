/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of every operation against central finite differences of the reference in f64, for
 * each element of each input and parameter.
 */
#include "base/alloc.h"
#include "tensor/cases.h"

static const op_case cases[] = {
    {CADRE_OP_LINEAR, {0}, {D2(3, 4)}, {D2(2, 4), D1(2)}, 0},
    {CADRE_OP_LINEAR, {.in_out = true}, {D3(2, 2, 3)}, {D2(3, 5)}, 0},
    {CADRE_OP_LINEAR, {.gelu = true}, {D2(3, 4)}, {D2(2, 4), D1(2)}, 0},
    {CADRE_OP_EMBEDDING, {0}, {D2(2, 5)}, {D2(4, 3)}, 0},
    {CADRE_OP_POSITIONS, {0}, {D3(2, 3, 2)}, {D2(4, 2)}, 0},
    {CADRE_OP_LAYER_NORM, {.eps = 1e-5}, {D2(3, 5)}, {D1(5), D1(5)}, 0},
    {CADRE_OP_ATTENTION, {.heads = 2}, {D3(2, 4, 12)}, {{0}}, 0},
    {CADRE_OP_GELU, {0}, {D2(3, 4)}, {{0}}, 0},
    {CADRE_OP_ADD, {0}, {D2(3, 4), D2(3, 4)}, {{0}}, 0},
    {CADRE_OP_DROPOUT, {.rate = 0.5}, {D2(3, 9)}, {{0}}, 0},
    {CADRE_OP_CROSS_ENTROPY, {0}, {D2(8, 5), D1(8)}, {{0}}, 0},
    {CADRE_OP_CROSS_ENTROPY, {.label_smoothing = 0.2}, {D2(8, 5), D1(8)}, {{0}}, 0},
    {CADRE_OP_LINEAR_CROSS_ENTROPY, {0}, {D2(8, 3), D1(8)}, {D2(5, 3)}, 0},
    {CADRE_OP_LINEAR_CROSS_ENTROPY, {.label_smoothing = 0.2}, {D2(8, 3), D1(8)}, {D2(5, 3)}, 0},
    {CADRE_OP_SQUARED_ERROR, {0}, {D2(3, 4), D2(3, 4)}, {{0}}, 0},
    {CADRE_OP_SUM, {0}, {D2(3, 4)}, {{0}}, 0},
};

/* What the gradient is of: out . dout, or the loss itself. */
static double value(cadre_queue *q, op_run *r) {
    bool training = r->c.a.training;
    r->c.a.training =
        training && !cadre_op_table[r->c.op].gradient_in_place; /* it would eat in[0] */
    OK(cadre_op_run(q, &r->c, CADRE_FORWARD));
    r->c.a.training = training;
    if (!r->c.dout) return real_at(r->c.out, 0);
    double sum = 0;
    for (int64_t i = 0; i < cadre_count(r->c.out); i++)
        sum += real_at(r->c.out, i) * real_at(r->c.dout, i);
    return sum;
}

static void slope_matches(cadre_queue *q, op_run *r, const cadre_tensor *x,
                          const cadre_tensor *gradient, const char *name) {
    const double step = 1e-5;
    for (int64_t i = 0; i < cadre_count(x); i++) {
        double here = real_at(x, i);
        real_put(x, i, here + step);
        double above = value(q, r);
        real_put(x, i, here - step);
        double below = value(q, r);
        real_put(x, i, here);
        double slope = (above - below) / (2 * step), got = real_at(gradient, i);
        if (!(fabs(got - slope) <= 1e-8 * (1 + fabs(slope))))
            fail_msg("%s: element %lld of a tensor of %lld: gradient %.12g, differences %.12g",
                     name, (long long)i, (long long)cadre_count(x), got, slope);
    }
}

static void gradients_match_differences(void **state) {
    (void)state;
    each_operation_has_a_case(cases, CADRE_COUNT(cases));
    cadre_queue *q = NULL;
    OK(cadre_queue_open(&q, "ref", NULL));
    for (int i = 0; i < (int)CADRE_COUNT(cases); i++) {
        op_run gradients, probe;
        open_run(&gradients, &cases[i], CADRE_F64, true, false);
        open_run(&probe, &cases[i], CADRE_F64, true, false);
        run_all(q, &gradients);
        bool in_place = cadre_op_table[cases[i].op].gradient_in_place;
        const char *name = case_name(&cases[i], i);
        for (int k = 0; k < CADRE_OP_IN; k++)
            if (is_real(probe.c.in[k]))
                slope_matches(q, &probe, probe.c.in[k],
                              in_place ? gradients.c.in[k] : gradients.c.din[k], name);
        for (int k = 0; k < CADRE_OP_PARAM; k++)
            if (probe.c.param[k])
                slope_matches(q, &probe, probe.c.param[k], gradients.c.dparam[k], name);
        close_run(&gradients);
        close_run(&probe);
    }
    cadre_queue_close(&q);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_match_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
