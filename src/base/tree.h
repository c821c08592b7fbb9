/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree T that every sum follows: T(a, b) = T(a, m) + T(m, b), m - a the largest power of two
 * below b - a. The shape depends on the number of terms alone, so a sum has the same bits whoever
 * computes which part of it.
 */
#ifndef CADRE_BASE_TREE_H
#define CADRE_BASE_TREE_H

#include <stdint.h>

/* The largest power of two below n (n >= 2): where T cuts n terms. */
static inline int64_t cadre_tree_split(int64_t n) {
    int64_t m = 1;
    while (m * 2 < n) m *= 2;
    return m;
}

double cadre_tree_sum(const double *values, int64_t n); /* along T; 0 for n = 0 */

#endif
