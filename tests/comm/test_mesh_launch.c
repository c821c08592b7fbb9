/* SPDX-License-Identifier: Apache-2.0
 *
 * The mesh is arithmetic; a launch is read from the environment, whole or not at all.
 */
#include <stdlib.h>
#include <string.h>

#include "comm/launch.h"
#include "comm/mesh.h"
#include "support/check.h"

static void ranks_and_coordinates_are_one_to_one(void **state) {
    (void)state;
    cadre_mesh m;
    const int degree[CADRE_AXES] = {2, 4, 1, 3};
    OK(cadre_mesh_plan(&m, 24, degree));
    for (int r = 0; r < 24; r++) {
        cadre_coord at;
        OK(cadre_mesh_locate(&m, r, &at));
        assert_int_equal(
            ((at.at[CADRE_AXIS_PP] * 4 + at.at[CADRE_AXIS_DP]) * 1 + at.at[CADRE_AXIS_CP]) * 3 +
                at.at[CADRE_AXIS_TP],
            r);
        assert_int_equal(cadre_mesh_rank(&m, &at), r);
        int group[4];
        OK(cadre_mesh_group(&m, r, CADRE_AXIS_DP, group));
        assert_int_equal(group[at.at[CADRE_AXIS_DP]], r);
        assert_int_equal(group[1] - group[0], 3);
    }
    assert_int_equal(cadre_mesh_neighbour(&m, 0, CADRE_AXIS_PP, 1), 12);
    assert_int_equal(cadre_mesh_neighbour(&m, 12, CADRE_AXIS_PP, 1), -1);
    assert_int_equal(cadre_mesh_neighbour(&m, 0, CADRE_AXIS_TP, -1), -1);
}

static void degrees_must_fill_the_world(void **state) {
    (void)state;
    cadre_mesh m;
    OK(cadre_mesh_plan(&m, 12, (const int[]){1, 0, 1, 1}));
    assert_int_equal(m.degree[CADRE_AXIS_DP], 12);
    FAILS(cadre_mesh_plan(&m, 8, (const int[]){1, 3, 1, 1}), CADRE_EUSAGE,
          "= 3 ranks, but there are 8");
    FAILS(cadre_mesh_plan(&m, 8, (const int[]){3, 0, 1, 1}), CADRE_EUSAGE, "8 ranks cannot be cut");
    FAILS(cadre_mesh_plan(&m, 8, (const int[]){1, 8, 0, 1}), CADRE_EUSAGE, "parallel.cp=0");
}

static const char *const variables[] = {"CADRE_RANK",
                                        "CADRE_WORLD_SIZE",
                                        "CADRE_LOCAL_RANK",
                                        "CADRE_LOCAL_SIZE",
                                        "CADRE_JOB",
                                        "RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "TORCHELASTIC_RUN_ID",
                                        "MASTER_PORT",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMIX_NAMESPACE",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_ID",
                                        "SLURM_JOB_ID"};

static void set(const char *pairs) { /* "A=1 B=2": these and no others */
    char copy[512], *rest = NULL;
    for (int i = 0; i < CADRE_COUNT(variables); i++) unsetenv(variables[i]);
    snprintf(copy, sizeof copy, "%s", pairs);
    for (char *pair = strtok_r(copy, " ", &rest); pair; pair = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(pair, '=');
        *equals = '\0';
        setenv(pair, equals + 1, 1);
    }
}

static void launchers_are_recognised(void **state) {
    (void)state;
    static const struct {
        const char *pairs, *by;
        int rank, size;
    } rows[] = {
        {"", "nobody", 0, 1},
        {"CADRE_RANK=1 CADRE_WORLD_SIZE=3 CADRE_JOB=x RANK=0 WORLD_SIZE=9", "cadre", 1, 3},
        {"RANK=2 WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 TORCHELASTIC_RUN_ID=none MASTER_PORT=29400",
         "torchrun", 2, 4},
        {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=n", "mpi", 0, 2},
        {"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=7", "slurm", 1, 2},
        {"SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=7", "nobody", 0,
         1}, /* a shell inside an allocation */
    };
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        cadre_launch l;
        set(rows[i].pairs);
        OK(cadre_launch_read(&l));
        assert_string_equal(l.by, rows[i].by);
        assert_int_equal(l.rank, rows[i].rank);
        assert_int_equal(l.size, rows[i].size);
    }
}

static void half_launches_are_refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"CADRE_RANK=0", "CADRE_WORLD_SIZE is not"},
        {"WORLD_SIZE=2", "RANK is not"},
        {"RANK=5 WORLD_SIZE=2 MASTER_PORT=1", "ranks go from 0"},
        {"RANK=x WORLD_SIZE=2", "RANK=x: a whole number"},
        {"RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_PORT=1",
         "2 of 4 ranks are on this machine"},
        {"RANK=0 WORLD_SIZE=2", "cannot find each other"},
    };
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        cadre_launch l;
        set(rows[i][0]);
        FAILS(cadre_launch_read(&l), CADRE_EUSAGE, rows[i][1]);
    }
    set("");
}

static void the_launcher_writes_what_is_read(void **state) {
    (void)state;
    cadre_launch out = {.by = "cadre",
                        .rank = 2,
                        .size = 5,
                        .local_rank = 2,
                        .local_size = 5,
                        .job = "abc",
                        .parent_fd = -1},
                 in;
    char *strings[16];
    set("");
    int n = cadre_launch_environment(&out, strings, 16);
    for (int i = 0; i < n; i++) putenv(strings[i]);
    OK(cadre_launch_read(&in));
    assert_int_equal(in.rank, 2);
    assert_int_equal(in.size, 5);
    assert_string_equal(in.job, "abc");
    set("");
    for (int i = 0; i < n; i++) free(strings[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_and_coordinates_are_one_to_one),
        cmocka_unit_test(degrees_must_fill_the_world),
        cmocka_unit_test(launchers_are_recognised),
        cmocka_unit_test(half_launches_are_refused),
        cmocka_unit_test(the_launcher_writes_what_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
