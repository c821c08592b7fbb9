/* SPDX-License-Identifier: Apache-2.0
 *
 * Are the weights the same bits everywhere? One XXH3 a parameter, gathered and compared. Also the
 * one hash over all of them.
 */
#include "parallel/check.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "parallel/context.h"

/* The hash most ranks have for entry `i`; of several as frequent ones, the lowest rank's. */
static int64_t usual(const int64_t *all, int ranks, int entries, int i) {
    int most = 0;
    int64_t best = all[i];
    for (int r = 0; r < ranks; r++) {
        int same = 0;
        for (int other = 0; other < ranks; other++)
            same += all[(int64_t)other * entries + i] == all[(int64_t)r * entries + i];
        if (same <= most) continue;
        most = same;
        best = all[(int64_t)r * entries + i];
    }
    return best;
}

cadre_status cadre_compare_hashes(cadre_comm *comm, int64_t *hash, int entries, const char *name,
                                  int *ret_entry, int *ret_rank) {
    int ranks = cadre_comm_size(comm);
    int64_t *all = hash + entries;
    *ret_entry = *ret_rank = -1;
    CADRE_TRY(cadre_all_gather(comm, hash, all, entries, CADRE_I64, name, NULL));
    for (int i = 0; i < entries && *ret_rank < 0; i++) {
        bool same = true;
        for (int r = 1; r < ranks && same; r++) same = all[(int64_t)r * entries + i] == all[i];
        if (same) continue;
        int64_t most = usual(all, ranks, entries, i);
        *ret_entry = i;
        for (int r = 0; r < ranks && *ret_rank < 0; r++)
            if (all[(int64_t)r * entries + i] != most) *ret_rank = r;
    }
    return CADRE_OK;
}

static size_t value_bytes(const cadre_parallel *p, int id) {
    return (size_t)p->span.param[id].count * cadre_dtype_size(cadre_parallel_value_dtype(p, id));
}

typedef struct hashing {
    cadre_parallel *p;
    int64_t *to;
} hashing;

static void hash_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const hashing *h = arg;
    for (int64_t id = begin; id < end; id++)
        h->to[id] =
            (int64_t)cadre_hash(cadre_parallel_value(h->p, (int)id), value_bytes(h->p, (int)id), 0);
}

cadre_status cadre_parallel_check_equal(cadre_parallel *p, int64_t step) {
    int id, rank, params = p->span.params;
    if (p->queue->meta) return CADRE_OK;
    if (!p->hashes) { /* kept for the next check */
        int64_t rows = 1 + cadre_comm_size(p->world);
        CADRE_TRY(cadre_alloc_array(&p->hashes, CADRE_MEM_BUCKETS, rows * params, sizeof(int64_t)));
    }
    hashing h = {p, p->hashes};
    cadre_pool_for(p->queue->pool, params, 1, hash_range, &h);
    CADRE_TRY(cadre_compare_hashes(p->world, p->hashes, params, "parameter hashes", &id, &rank));
    CADRE_CHECK(rank < 0, CADRE_EINTERNAL,
                "after step %" PRId64
                ": parameter %s of rank %d differs from the other ranks'; all ranks should hold "
                "the same bits",
                step, p->span.param[id].name, rank);
    return CADRE_OK;
}

uint64_t cadre_parallel_hash(cadre_parallel *p) {
    uint64_t hash = 0;
    for (int id = 0; id < p->span.params && p->values; id++) {
        const char *name = p->span.param[id].name;
        hash = cadre_hash(name, strlen(name), hash);
        hash = cadre_hash(cadre_parallel_value(p, id), value_bytes(p, id), hash);
    }
    return hash;
}
