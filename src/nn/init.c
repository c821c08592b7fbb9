/* SPDX-License-Identifier: Apache-2.0
 *
 * How parameters start. One block of Philox gives two elements:
 *
 *   key     = cadre_rng_key(train.seed, "weight")
 *   counter = (element / 2, hash of the parameter's name)
 *   normal:   the first or second number of cadre_normal_pair, by element mod 2, times the std
 *   uniform:  words (0, 1) or (2, 3) as a number in [0, 1), stretched to (-bound, bound)
 *
 * rounded once to f32. A model in f64 starts from the same f32 values, so that runs in both
 * compare. This is permanent: tests/nn pins it.
 */
#include "base/rng.h"
#include "nn/model_private.h"

cadre_init cadre_zeros(void) {
    return (cadre_init){0, 0};
}

cadre_init cadre_ones(void) {
    return (cadre_init){1, 0};
}

cadre_init cadre_normal(float std) {
    return (cadre_init){2, std};
}

cadre_init cadre_uniform(float bound) {
    return (cadre_init){3, bound};
}

/* Elements 2 x pair and 2 x pair + 1. */
static void draw_pair(const cadre_init *init, uint64_t key, uint64_t name, int64_t pair,
                      float ret_two[2]) {
    double two[2] = {0, 0};
    if (init->kind < 2) {
        ret_two[0] = ret_two[1] = init->kind ? 1 : 0;
        return;
    }
    cadre_philox block = cadre_philox_draw(key, (uint64_t)pair, name);
    if (init->kind == 2)
        cadre_normal_pair(block, two);
    else
        for (int i = 0; i < 2; i++)
            two[i] = 2 * cadre_uniform_f64(block.v[2 * i], block.v[2 * i + 1]) - 1;
    for (int i = 0; i < 2; i++) ret_two[i] = (float)(init->a * two[i]);
}

void cadre_model_draw(const cadre_model *m, const cadre_parameter *p, int64_t first, int64_t count,
                      cadre_dtype dtype, void *ret) {
    const model_param *mp = &m->params[p->id];
    size_t size = cadre_dtype_size(dtype);
    float two[2] = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        int64_t element = first + i;
        if (i == 0 || element % 2 == 0)
            draw_pair(&mp->init, m->weight_key, mp->name_hash, element / 2, two);
        cadre_convert(&two[element % 2], CADRE_F32, (char *)ret + (size_t)i * size, dtype, 1);
    }
}
