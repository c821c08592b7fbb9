/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/transport.h"

#include <string.h>

/* One rank: a world of one inside this process answers every call. */
static cadre_status open_self(cadre_world **ret_world, const cadre_launch *launch,
                              const cadre_comm_opts *opts) {
    CADRE_CHECK(launch->size == 1, CADRE_EUSAGE,
                "comm.transport=self is for one rank, not %d; take auto or shm", launch->size);
    CADRE_TRY(cadre_world_open_threads(ret_world, 1, opts));
    (*ret_world)->parent_fd = launch->parent_fd;
    return CADRE_OK;
}

static cadre_status open_mpi(cadre_world **ret_world, const cadre_launch *launch,
                             const cadre_comm_opts *opts) {
    (void)ret_world, (void)launch, (void)opts;
    return CADRE_FAIL(CADRE_EUSAGE,
                      "comm.transport=mpi is not built yet; ranks of one machine take auto or shm");
}

const cadre_transport cadre_transports[] = {
    {"self", "one rank", open_self},
    {"shm", "several ranks of one machine, over shared memory", cadre_world_open},
    {"mpi", "several machines (not built yet)", open_mpi},
};
const int cadre_transport_count = CADRE_COUNT(cadre_transports);

cadre_status cadre_transport_open(cadre_world **ret_world, const cadre_launch *launch,
                                  const cadre_comm_opts *opts) {
    const char *name = opts->transport;
    if (strcmp(name, "auto") == 0) name = launch->size == 1 ? "self" : "shm";
    for (int i = 0; i < cadre_transport_count; i++)
        if (strcmp(cadre_transports[i].name, name) == 0)
            return cadre_transports[i].open(ret_world, launch, opts);
    return CADRE_FAIL(CADRE_EUSAGE, "comm.transport=%s; it takes auto, self, shm or mpi", name);
}
