/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums themselves, without ranks: every type and reduction over 1 to 9 arrays, in bits against
 * the tree T, written plainly and past the caches, at awkward lengths and places.
 */
#include "comm/reduce.h"

#include "comm/collectives.h"

enum { MOST = 4200, ARRAYS = 9 };

static char memory[2 * ARRAYS][MOST * 8 + 128];

static void check_one(const collective_case *c, int arrays, int outputs, int shift, bool large) {
    size_t size = cadre_dtype_size(c->dtype);
    const void *ins[ARRAYS];
    void *outs[ARRAYS];
    for (int r = 0; r < arrays; r++) {
        char *in = memory[r] + (size_t)shift * size;
        ins[r] = in;
        outs[r] = c->in_place ? in : memory[ARRAYS + r] + (size_t)shift * size;
        for (int64_t i = 0; i < c->count; i++) store(c->dtype, in, i, input_value(c, r, i));
        if (!c->in_place) memset(memory[ARRAYS + r], 0x5A, sizeof memory[0]);
    }
    cadre_reduce(c->dtype, c->op, ins, arrays, outs, outputs, c->count, large);
    for (int k = 0; k < outputs; k++)
        for (int64_t i = 0; i < c->count; i++) {
            double want[1];
            store(c->dtype, want, 0, tree_of(c, 0, arrays, i));
            if (memcmp(want, (char *)outs[k] + (size_t)i * size, size) != 0)
                fail_msg("%s op %d, %d arrays, output %d, large %d: element %lld of %lld differs",
                         cadre_dtype_name(c->dtype), c->op, arrays, k, large, (long long)i,
                         (long long)c->count);
        }
    if (c->in_place) return;
    char after = ((char *)outs[0])[(size_t)c->count * size];
    assert_int_equal(after, 0x5A); /* nothing past the end */
}

static void sums_are_the_tree(void **state) {
    (void)state;
    static const cadre_dtype dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_I32, CADRE_I64};
    static const int64_t counts[] = {0, 1, 15, 16, 17, 1024, 1025, 4099};
    int64_t salt = 0;
    for (int arrays = 1; arrays <= ARRAYS; arrays++)
        for (int d = 0; d < CADRE_COUNT(dtypes); d++)
            for (int n = 0; n < CADRE_COUNT(counts); n++)
                for (int how = 0; how < 4; how++) {
                    salt++;
                    collective_case c = {.dtype = dtypes[d],
                                         .op = (cadre_reduction)(salt % 3),
                                         .count = counts[n],
                                         .in_place = how & 1,
                                         .salt = salt};
                    check_one(&c, arrays, salt % 2 ? arrays : 1, (int)(salt % 7), how & 2);
                }
}

static void integer_sums_wrap(void **state) {
    (void)state;
    int32_t a = INT32_MAX, b = 1, sum = 0;
    const void *ins[] = {&a, &b};
    void *outs[] = {&sum};
    cadre_reduce(CADRE_I32, CADRE_SUM, ins, 2, outs, 1, 1, false);
    assert_int_equal(sum, INT32_MIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_the_tree),
        cmocka_unit_test(integer_sums_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
