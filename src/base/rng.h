/* SPDX-License-Identifier: Apache-2.0
 *
 * Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random
 * Numbers: As Easy as 1, 2, 3; SC 2011; the vectors of Random123). A draw is a pure function of
 * (key, counter), so there is no state to save and no order to keep: every rank can draw any
 * element.
 */
#ifndef CADRE_BASE_RNG_H
#define CADRE_BASE_RNG_H

#include <stdint.h>

typedef struct cadre_philox {
    uint32_t v[4];
} cadre_philox;

/* counter = (c0, c1) as two little-endian halves each. */
cadre_philox cadre_philox_draw(uint64_t key, uint64_t c0, uint64_t c1);
/* The key for a purpose: a hash of (seed, purpose), e.g. ("weight"), ("shuffle"), ("dropout/"
 * site). */
uint64_t cadre_rng_key(uint64_t seed, const char *purpose);
/* In [0, 1), 24 bits; in [0, 1), 53 bits out of two words. */
static inline float cadre_uniform_f32(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}
double cadre_uniform_f64(uint32_t high, uint32_t low);
/* Two standard normals out of one block (Box-Muller in double). */
void cadre_normal_pair(cadre_philox block, double ret_two[2]);
/* Uniform in [0, n) without bias beyond 2^-64 x n: high half of a 64 x 64 product. */
uint64_t cadre_below(uint64_t word, uint64_t n);
/* A permutation of [0, n) keyed by `key`: where element i goes. O(1) memory: Feistel rounds with
 * cycle walking. */
uint64_t cadre_permute(uint64_t key, uint64_t n, uint64_t i);

#endif
