/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums themselves: element by element over P arrays, along the tree T over the arrays' order.
 */
#ifndef CADRE_COMM_REDUCE_H
#define CADRE_COMM_REDUCE_H

#include <cadre/comm.h>

/* outs[k][i] = reduction over p of ins[p][i], i in [0, n), for each of `out_count` outputs. An
 * output may be an input. dtype: f32 f64 bf16 i32 i64. bf16 is added in f32 and rounded once. The
 * same bits on every instruction set. `large`: outputs that are no inputs are written past the
 * caches. */
void cadre_reduce(cadre_dtype dtype, cadre_reduction op, const void *const *ins, int in_count,
                  void *const *outs, int out_count, int64_t n, bool large);
bool cadre_reducible(cadre_dtype dtype);

#endif
