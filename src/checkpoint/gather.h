/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks tell each other around a save: who holds what, and whether all went well.
 */
#ifndef CADRE_CHECKPOINT_GATHER_H
#define CADRE_CHECKPOINT_GATHER_H

#include "checkpoint/manifest.h"

typedef struct cadre_held {
    cadre_manifest_piece piece; /* file and key unset */
    bool weights;
    int rank;
} cadre_held;

/* All pieces of all ranks, rank after rank, each rank's in its own order; empty ones left out. */
typedef struct cadre_holdings {
    cadre_held *at;
    int count;
    char *text; /* owns the names */
} cadre_holdings;

/* Collective. Every rank gets the same list. */
cadre_status cadre_holdings_gather(cadre_comm *comm, const cadre_piece *pieces, int count,
                                   cadre_holdings *ret_holdings);
void cadre_holdings_free(cadre_holdings *h);

/* Collective: brings `mine` of every rank together. When one failed, all return its class; its own
 * sentence stays, the others get "rank N: " and that sentence. */
cadre_status cadre_agree(cadre_comm *comm, cadre_status mine);

#endif
