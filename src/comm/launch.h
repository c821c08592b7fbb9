/* SPDX-License-Identifier: Apache-2.0
 *
 * Who am I? The one place (with cli) that reads the environment, once. Our own launcher sets
 * CADRE_RANK, CADRE_WORLD_SIZE, CADRE_LOCAL_RANK, CADRE_LOCAL_SIZE and CADRE_JOB (a name that is
 * unique on the machine: the abstract socket of rank 0 is made from it).
 */
#ifndef CADRE_COMM_LAUNCH_H
#define CADRE_COMM_LAUNCH_H

#include "base/status.h"

typedef struct cadre_launch {
    const char *by; /* "cadre", "torchrun", "mpi", "slurm", "nobody" */
    int rank, size, local_rank, local_size;
    char job[64];
    int parent_fd; /* our own launcher: a pipe that ends when the supervisor does; -1: none */
} cadre_launch;

/* A half-set group of variables (rank without size) is CADRE_EUSAGE, as is a world over several
 * machines (not built yet). */
cadre_status cadre_launch_read(cadre_launch *ret_launch);
/* For the launcher: "NAME=value" strings for one rank; at most `room` of them, each from malloc.
 * Returns how many. */
int cadre_launch_environment(const cadre_launch *launch, char **ret_strings, int room);

#endif
