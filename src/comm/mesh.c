/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/mesh.h"

static const char *const names[CADRE_AXES] = {"pp", "dp", "cp", "tp"};

cadre_status cadre_mesh_plan(cadre_mesh *ret_mesh, int size, const int degree[CADRE_AXES]) {
    cadre_mesh m = {.size = size};
    int64_t others = 1;
    CADRE_CHECK(size >= 1, CADRE_EUSAGE, "a mesh of %d ranks; it takes at least 1", size);
    for (int a = 0; a < CADRE_AXES; a++) {
        m.degree[a] = degree[a];
        if (a == CADRE_AXIS_DP && degree[a] == 0) continue;
        CADRE_CHECK(degree[a] >= 1, CADRE_EUSAGE, "parallel.%s=%d; it takes at least 1", names[a],
                    degree[a]);
        others *= degree[a];
        CADRE_CHECK(others <= INT32_MAX, CADRE_EUSAGE,
                    "parallel.%s=%d: the degrees multiply to too many ranks", names[a], degree[a]);
    }
    if (degree[CADRE_AXIS_DP] == 0) {
        CADRE_CHECK(size % others == 0, CADRE_EUSAGE,
                    "%d ranks cannot be cut by pp %d x cp %d x tp %d = %d; take a multiple of it",
                    size, m.degree[CADRE_AXIS_PP], m.degree[CADRE_AXIS_CP], m.degree[CADRE_AXIS_TP],
                    (int)others);
        m.degree[CADRE_AXIS_DP] = (int)(size / others);
        others *= m.degree[CADRE_AXIS_DP];
    }
    CADRE_CHECK(others == size, CADRE_EUSAGE,
                "pp %d x dp %d x cp %d x tp %d = %d ranks, but there are %d",
                m.degree[CADRE_AXIS_PP], m.degree[CADRE_AXIS_DP], m.degree[CADRE_AXIS_CP],
                m.degree[CADRE_AXIS_TP], (int)others, size);
    *ret_mesh = m;
    return CADRE_OK;
}

cadre_status cadre_mesh_locate(const cadre_mesh *m, int rank, cadre_coord *ret_at) {
    CADRE_CHECK(rank >= 0 && rank < m->size, CADRE_EUSAGE, "rank %d of a mesh of %d", rank,
                m->size);
    for (int a = CADRE_AXES - 1; a >= 0; a--) {
        ret_at->at[a] = rank % m->degree[a];
        rank /= m->degree[a];
    }
    return CADRE_OK;
}

int cadre_mesh_rank(const cadre_mesh *m, const cadre_coord *at) {
    int rank = 0;
    for (int a = 0; a < CADRE_AXES; a++) rank = rank * m->degree[a] + at->at[a];
    return rank;
}

int cadre_mesh_neighbour(const cadre_mesh *m, int rank, cadre_axis axis, int by) {
    cadre_coord at;
    if (cadre_mesh_locate(m, rank, &at)) return -1;
    at.at[axis] += by;
    return at.at[axis] < 0 || at.at[axis] >= m->degree[axis] ? -1 : cadre_mesh_rank(m, &at);
}

cadre_status cadre_mesh_group(const cadre_mesh *m, int rank, cadre_axis axis, int *ret_ranks) {
    cadre_coord at;
    CADRE_TRY(cadre_mesh_locate(m, rank, &at));
    for (int i = 0; i < m->degree[axis]; i++) {
        at.at[axis] = i;
        ret_ranks[i] = cadre_mesh_rank(m, &at);
    }
    return CADRE_OK;
}
