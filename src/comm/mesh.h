/* SPDX-License-Identifier: Apache-2.0
 *
 * The mesh: arithmetic only. rank = ((p x dp + d) x cp + c) x tp + t, one letter a coordinate, two
 * a degree.
 */
#ifndef CADRE_COMM_MESH_H
#define CADRE_COMM_MESH_H

#include "base/status.h"

typedef enum cadre_axis {
    CADRE_AXIS_PP,
    CADRE_AXIS_DP,
    CADRE_AXIS_CP,
    CADRE_AXIS_TP,
    CADRE_AXES
} cadre_axis;

typedef struct cadre_mesh {
    int size;
    int degree[CADRE_AXES];
} cadre_mesh;

typedef struct cadre_coord {
    int at[CADRE_AXES];
} cadre_coord;

/* Degrees of 0 for dp: it fills the rest. Other degrees are >= 1. A product that is not `size` is
 * CADRE_EUSAGE with the numbers. */
cadre_status cadre_mesh_plan(cadre_mesh *ret_mesh, int size, const int degree[CADRE_AXES]);
cadre_status cadre_mesh_locate(const cadre_mesh *m, int rank, cadre_coord *ret_at);
int cadre_mesh_rank(const cadre_mesh *m, const cadre_coord *at);
/* The rank `by` steps along `axis`, or -1 past either end. */
int cadre_mesh_neighbour(const cadre_mesh *m, int rank, cadre_axis axis, int by);
/* The ranks that share all other coordinates with `rank`, in order along `axis`; fills degree[axis]
 * of them. */
cadre_status cadre_mesh_group(const cadre_mesh *m, int rank, cadre_axis axis, int *ret_ranks);

#endif
