/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tree.h"

double cadre_tree_sum(const double *values, int64_t n) {
    if (n <= 0) return 0;
    if (n == 1) return values[0];
    if (n == 2) return values[0] + values[1];
    int64_t m = cadre_tree_split(n);
    return cadre_tree_sum(values, m) + cadre_tree_sum(values + m, n - m);
}
