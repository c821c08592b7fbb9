/* SPDX-License-Identifier: Apache-2.0
 *
 * One bench on ranks as threads, and the rows it gives.
 */
#ifndef CADRE_TESTS_BENCH_OF_H
#define CADRE_TESTS_BENCH_OF_H

#include "support/ranks.h"

#include <jansson.h>
#include <string.h>

#include "insight/bench.h"

typedef struct bench_case {
    const char *name;
    cadre_bench_opts opts;
} bench_case;

static inline cadre_status bench_body(test_rank *me) {
    const bench_case *c = me->arg;
    const cadre_bench_kind *kind = NULL;
    cadre_bench *bench = me->record;
    CADRE_TRY(cadre_bench_find(c->name, &kind));
    CADRE_TRY(cadre_bench_open(bench, kind, me->comm));
    return kind->run(me->comm, &c->opts, bench);
}

/* Rank 0 alone has rows. */
static inline void run_bench(const bench_case *c, int ranks, cadre_bench benches[4]) {
    test_result results[4];
    memset(benches, 0, 4 * sizeof *benches);
    on_threads(ranks, NULL, bench_body, c, benches, sizeof *benches, results);
    all_ok(results, ranks);
    for (int r = 1; r < ranks; r++) assert_int_equal(json_array_size(benches[r].rows), 0);
}

static inline void close_benches(cadre_bench benches[4], int ranks) {
    for (int r = 0; r < ranks; r++) cadre_bench_close(&benches[r]);
}

#endif
