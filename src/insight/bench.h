/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the bench share.
 */
#ifndef CADRE_INSIGHT_BENCH_H
#define CADRE_INSIGHT_BENCH_H

#include "insight/insight.h"

/* "8KiB,1MiB" (NULL: the standard list) into at most 32 sizes. */
cadre_status cadre_bench_sizes(const char *text, int64_t *ret_sizes, int *ret_count);
cadre_status cadre_bench_add(cadre_bench *bench, const cadre_bench_row *row);

#endif
