/* SPDX-License-Identifier: Apache-2.0
 *
 * What other rooms need of comm beyond the public header: statistics, progress, state of peers,
 * ranks as threads.
 */
#ifndef CADRE_COMM_COMM_H
#define CADRE_COMM_COMM_H

#include <cadre/comm.h>

#include "base/status.h"
#include "base/text.h"

/* Counters of one communicator since it was opened. */
typedef struct cadre_comm_stats {
    int64_t operations;
    int64_t bytes;   /* payload: count x size of every operation */
    int64_t busy_ns; /* moving and summing data, whoever called */
    int64_t wait_ns; /* inside cadre_work_wait or a blocking call, not moving data: exposed */
} cadre_comm_stats;
void cadre_comm_statistics(const cadre_comm *comm, cadre_comm_stats *ret_stats);

/* Local. Drives work in flight for at most about `budget_ns`; cheap when there is none. Called
 * between operations of a backward pass. A sticky failure is returned. */
cadre_status cadre_comm_progress(cadre_comm *comm, int64_t budget_ns);

/* Local. Tells all peers that this rank stops because of `error` (its class and sentence); their
 * next call fails with CADRE_EPEER and repeats the sentence with this rank's number. Used by the
 * loop when a rank fails on its own. */
void cadre_comm_abort(cadre_comm *comm, const cadre_error *error);
/* Local. The first failure any rank has announced: its rank, or -1; the sentence into `ret_text`.
 */
int cadre_comm_first_failure(const cadre_comm *comm, char *ret_text, size_t room);

/* Local. Whether the launcher that started this rank has ended (a rank of `cadre train`, `cadre
 * run`). */
bool cadre_comm_supervisor_gone(const cadre_comm *comm);

int cadre_comm_local_rank(const cadre_comm *comm); /* among the ranks on this machine */
int cadre_comm_local_size(const cadre_comm *comm);
const char *cadre_comm_transport(const cadre_comm *comm);
/* Whether `pointer` is from cadre_comm_alloc of this world (then nothing is staged). */
bool cadre_comm_owns(const cadre_comm *comm, const void *pointer);
int64_t cadre_comm_timeout_ms(const cadre_comm *comm);

/* The flight recorder: the last operations, newest last, as lines of text: sequence, kind, name,
 * count, dtype, state, times. Appended to `to`. */
void cadre_comm_recorder(const cadre_comm *comm, int most, cadre_text *to);

/* ---- ranks as threads ---- */

/* Makes a world of `size` ranks inside this process: fills comms[0..size). Each is then used by one
 * thread. They are closed one by one with cadre_comm_close. Progress, checks and errors are those
 * of processes. */
cadre_status cadre_comm_open_threads(cadre_comm **ret_comms, int size, const cadre_comm_opts *opts);

#endif
