/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#include <stdatomic.h>

static _Atomic int64_t left = -1; /* fault points until the one that fails; negative: off */
static atomic_bool hit;

void cadre_fault_at(int64_t k) {
    atomic_store(&hit, false);
    atomic_store(&left, k);
}

bool cadre_fault_hit(void) {
    return atomic_load(&hit);
}

bool cadre_fault_here(void) {
    if (atomic_load_explicit(&left, memory_order_relaxed) < 0) return false;
    if (atomic_fetch_sub(&left, 1) != 0) return false;
    atomic_store(&hit, true);
    return true;
}
