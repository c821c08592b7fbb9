/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox 4x32-10 and what is drawn from it.
 */
#include "base/rng.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

enum { ROUNDS = 10, FEISTEL_ROUNDS = 4 };

cadre_philox cadre_philox_draw(uint64_t key, uint64_t c0, uint64_t c1) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t x0 = (uint32_t)c0, x1 = (uint32_t)(c0 >> 32), x2 = (uint32_t)c1,
             x3 = (uint32_t)(c1 >> 32);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * x0, p1 = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)p1;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (cadre_philox){{x0, x1, x2, x3}};
}

uint64_t cadre_rng_key(uint64_t seed, const char *purpose) {
    return cadre_hash(purpose, strlen(purpose), seed);
}

double cadre_uniform_f64(uint32_t high, uint32_t low) {
    return (double)((((uint64_t)high << 32) | low) >> 11) * 0x1p-53;
}

void cadre_normal_pair(cadre_philox block, double ret_two[2]) {
    double u = 1.0 - cadre_uniform_f64(block.v[0], block.v[1]); /* in (0, 1] */
    double angle = 6.283185307179586 * cadre_uniform_f64(block.v[2], block.v[3]);
    double radius = sqrt(-2.0 * log(u));
    ret_two[0] = radius * cos(angle);
    ret_two[1] = radius * sin(angle);
}

uint64_t cadre_below(uint64_t word, uint64_t n) {
    return (uint64_t)(((unsigned __int128)word * n) >> 64);
}

/* A Feistel network over the smallest square of a power of two that holds n; values past n are
 * permuted again until they fall inside (cycle walking), fewer than four times on average. */
uint64_t cadre_permute(uint64_t key, uint64_t n, uint64_t i) {
    int half = 1;
    while (half < 32 && ((uint64_t)1 << (2 * half)) < n) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
            uint64_t mixed = cadre_philox_draw(key, right, round).v[0] & mask;
            uint64_t next = left ^ mixed;
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}
