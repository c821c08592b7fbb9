/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_PARALLEL_CHECK_H
#define CADRE_PARALLEL_CHECK_H

#include "comm/comm.h"

/* Collective. Compares `entries` hashes over the ranks: this rank's lie first in `hash`, which has
 * room for every rank's behind them. `*ret_entry` is the first entry that differs and `*ret_rank`
 * the first rank whose hash is not that of most ranks; both -1 when all are the same. Written in
 * any case. */
cadre_status cadre_compare_hashes(cadre_comm *comm, int64_t *hash, int entries, const char *name,
                                  int *ret_entry, int *ret_rank);

#endif
