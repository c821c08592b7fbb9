/* SPDX-License-Identifier: Apache-2.0
 *
 * Transports, one row each: how a world is opened. A new one (mpi, nccl) is a file of its own and a
 * row in transport.c.
 */
#ifndef CADRE_COMM_TRANSPORT_H
#define CADRE_COMM_TRANSPORT_H

#include "comm/world.h"

typedef struct cadre_transport {
    const char *name, *help;
    cadre_status (*open)(cadre_world **ret_world, const cadre_launch *launch,
                         const cadre_comm_opts *opts);
} cadre_transport;

extern const cadre_transport cadre_transports[];
extern const int cadre_transport_count;

/* opts->transport by name; "auto": self for one rank, shm for several on this machine. */
cadre_status cadre_transport_open(cadre_world **ret_world, const cadre_launch *launch,
                                  const cadre_comm_opts *opts);

#endif
