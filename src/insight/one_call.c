/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre_train_file: everything `cadre train RUN.yaml` does, in the calling process and without a
 * word on any stream.
 */
#include <cadre/train.h>

#include "insight/insight.h"

static cadre_status open_world(cadre_comm **ret_world, const cadre_settings *set) {
    static const char *const transports[] = {"auto", "self", "shm", "mpi"};
    cadre_config cfg;
    CADRE_TRY(cadre_config_fill(set, &cfg));
    cadre_comm_opts opts = CADRE_COMM_OPTS;
    opts.transport = transports[cfg.comm.transport];
    opts.timeout_ms = cfg.comm.timeout;
    opts.warn_after_ms = cfg.comm.warn_after;
    opts.progress_thread = cfg.comm.progress_thread;
    return cadre_comm_open(ret_world, &opts);
}

static cadre_status train(cadre_comm *world, cadre_settings *set) {
    cadre_sinks *sinks = NULL;
    cadre_sinks_opts opts = {.rank = cadre_comm_rank(world)};
    cadre_run_opts run = {0};
    CADRE_TRY(cadre_sinks_open(&sinks, &opts));
    run.observers = cadre_sinks_observers(sinks, &run.observer_count);
    cadre_status st = cadre_run_train(world, set, &run, NULL);
    cadre_sinks_close(&sinks);
    return st;
}

cadre_status cadre_train_file(const char *run_file) {
    cadre_settings *set = NULL;
    cadre_comm *world = NULL;
    cadre_status st = cadre_settings_open(&set, run_file);
    if (!st) st = open_world(&world, set);
    if (!st) st = train(world, set);
    cadre_comm_close(&world);
    cadre_settings_close(&set);
    return st;
}
