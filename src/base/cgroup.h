/* SPDX-License-Identifier: Apache-2.0
 *
 * Control groups of Linux (cgroups(7)): what a container or a job may have.
 */
#ifndef CADRE_BASE_CGROUP_H
#define CADRE_BASE_CGROUP_H

/* Where the system says of this process which groups it is in, and where they lie. */
#define CADRE_CGROUP_LIST "/proc/self/cgroup"
#define CADRE_CGROUP_ROOT "/sys/fs/cgroup"

/* What the group whose files lie in `folder` sets; INFINITY: nothing. */
typedef double cadre_cgroup_limit(const char *folder);

/* Local. The least limit of the groups that the file `list` names and of all around them, as
 * folders below `root`: those of version 2, and those of version 1 that `controller` ("memory")
 * stands for (NULL: none). INFINITY: no limit. */
double cadre_cgroup_least(const char *list, const char *root, const char *controller,
                          cadre_cgroup_limit *limit);

#endif
