/* SPDX-License-Identifier: Apache-2.0
 *
 * Launchers and their variables, one row each, in the order they are tried. The first whose rank
 * variable is there wins; its size must be there too.
 */
#include "comm/launch.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

typedef struct launcher {
    const char *by;
    const char *rank, *size, *local_rank, *local_size;
    const char *also;   /* must be there for the row to count; NULL: nothing */
    const char *job[3]; /* joined to a name unique on the machine */
    bool required_pair; /* rank without size is refused; else the row is passed over */
} launcher;

static const launcher launchers[] = {
    {"cadre",
     "CADRE_RANK",
     "CADRE_WORLD_SIZE",
     "CADRE_LOCAL_RANK",
     "CADRE_LOCAL_SIZE",
     NULL,
     {"CADRE_JOB"},
     true},
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     NULL,
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"},
     true},
    {"mpi",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"},
     true},
    {"mpi",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     NULL,
     {"PMI_PORT", "HYDI_CONTROL_FD", "PMI_FD"},
     true},
    {"slurm",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     NULL,
     "SLURM_STEP_ID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     false},
};

static cadre_status number(const char *name, int *ret) {
    int64_t value;
    const char *text = getenv(name);
    CADRE_CHECK(text && cadre_parse_i64(text, &value) && value >= 0 && value <= INT32_MAX,
                CADRE_EUSAGE, "environment variable %s=%s: a whole number is expected", name,
                text ? text : "");
    *ret = (int)value;
    return CADRE_OK;
}

static void name_job(const launcher *l, char *ret_job, size_t room) {
    ret_job[0] = '\0';
    for (int i = 0; i < CADRE_COUNT(l->job); i++) {
        const char *part = l->job[i] ? getenv(l->job[i]) : NULL;
        size_t at = strlen(ret_job);
        if (part) snprintf(ret_job + at, room - at, "%s%s", at ? "-" : "", part);
    }
}

static cadre_status read_row(const launcher *l, cadre_launch *ret) {
    cadre_launch found = {.by = l->by, .parent_fd = -1};
    CADRE_CHECK(getenv(l->size), CADRE_EUSAGE,
                "%s is set but %s is not: half a launch; unset the one or set both", l->rank,
                l->size);
    CADRE_TRY(number(l->rank, &found.rank));
    CADRE_TRY(number(l->size, &found.size));
    found.local_rank = found.rank;
    found.local_size = found.size;
    if (l->local_rank && getenv(l->local_rank)) CADRE_TRY(number(l->local_rank, &found.local_rank));
    if (l->local_size && getenv(l->local_size)) CADRE_TRY(number(l->local_size, &found.local_size));
    CADRE_CHECK(found.size >= 1 && found.rank < found.size, CADRE_EUSAGE,
                "%s=%d with %s=%d: ranks go from 0 to size - 1", l->rank, found.rank, l->size,
                found.size);
    CADRE_CHECK(found.local_size == found.size, CADRE_EUSAGE,
                "%d of %d ranks are on this machine; ranks on several machines are not built yet",
                found.local_size, found.size);
    name_job(l, found.job, sizeof found.job);
    CADRE_CHECK(found.size == 1 || found.job[0], CADRE_EUSAGE,
                "launched by %s without a job name (%s): the ranks cannot find each other", l->by,
                l->job[0]);
    if (getenv("CADRE_PARENT_FD") && strcmp(l->by, "cadre") == 0)
        CADRE_TRY(number("CADRE_PARENT_FD", &found.parent_fd));
    *ret = found;
    return CADRE_OK;
}

cadre_status cadre_launch_read(cadre_launch *ret_launch) {
    for (int i = 0; i < CADRE_COUNT(launchers); i++) {
        const launcher *l = &launchers[i];
        if (l->also && !getenv(l->also)) continue;
        if (getenv(l->rank) || (l->required_pair && getenv(l->size))) {
            CADRE_CHECK(getenv(l->rank), CADRE_EUSAGE,
                        "%s is set but %s is not: half a launch; unset the one or set both",
                        l->size, l->rank);
            return read_row(l, ret_launch);
        }
    }
    *ret_launch = (cadre_launch){.by = "nobody", .size = 1, .local_size = 1, .parent_fd = -1};
    return CADRE_OK;
}

static char *pair(const char *name, int value) {
    char text[64];
    snprintf(text, sizeof text, "%s=%d", name, value);
    return strdup(text);
}

int cadre_launch_environment(const cadre_launch *launch, char **ret_strings, int room) {
    const launcher *own = &launchers[0];
    char job[128];
    snprintf(job, sizeof job, "%s=%s", own->job[0], launch->job);
    char *strings[] = {
        pair(own->rank, launch->rank),
        pair(own->size, launch->size),
        pair(own->local_rank, launch->local_rank),
        pair(own->local_size, launch->local_size),
        strdup(job),
        launch->parent_fd >= 0 ? pair("CADRE_PARENT_FD", launch->parent_fd) : NULL,
    };
    int count = 0;
    for (int i = 0; i < CADRE_COUNT(strings); i++)
        if (strings[i] && count < room)
            ret_strings[count++] = strings[i];
        else
            free(strings[i]);
    return count;
}
