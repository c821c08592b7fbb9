/* SPDX-License-Identifier: Apache-2.0
 *
 * A group's limits hold with those of all groups around it, up to the root.
 */
#include "base/cgroup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

/* Of `group` ("/job/step") and those around it, below `base`. Shortens `group` on its way. */
static double least_around(const char *base, char *group, cadre_cgroup_limit *limit) {
    char folder[2 * CADRE_PATH];
    double least = INFINITY;
    if (strcmp(group, "/") == 0) group[0] = '\0';
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", base, group);
        least = fmin(least, limit(folder));
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = '\0';
    }
}

double cadre_cgroup_least(const char *list, const char *root, const char *controller,
                          cadre_cgroup_limit *limit) {
    char line[CADRE_PATH], base[CADRE_PATH], unified[CADRE_PATH] = "";
    double least = INFINITY;
    FILE *from = fopen(list, "re");
    while (from && fgets(line, sizeof line, from)) { /* ID:CONTROLLERS:GROUP, none in version 2 */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        if (!controllers[1]) {
            snprintf(unified, sizeof unified, "%s", group);
        } else if (controller && strstr(controllers, controller)) {
            cadre_join(base, sizeof base, root, controller);
            least = fmin(least, least_around(base, group, limit));
        }
    }
    if (from) fclose(from);
    return fmin(least, least_around(root, unified, limit));
}
