/* SPDX-License-Identifier: Apache-2.0
 *
 * Many ranks in one test. A body runs on every rank, as a thread of this process or as a process of
 * its own; it records what it sees and never asserts; the main thread asserts on the records.
 */
#ifndef CADRE_TESTS_RANKS_H
#define CADRE_TESTS_RANKS_H

#include "comm/comm.h"
#include "support/check.h"

/* A rank's view. `record` is the rank's own area of `record_bytes`, shared with the main thread
 * (zeroed at start). */
typedef struct test_rank {
    cadre_comm *comm;
    int rank, size;
    const void *arg;
    void *record;
} test_rank;

/* Returns the rank's status; what it fails with is kept. */
typedef cadre_status test_body(test_rank *me);

typedef struct test_result {
    cadre_status status;
    char text[1024]; /* cadre_error_text of the failure */
    int signal;      /* processes: the signal that ended it, 0: none */
} test_result;

/* Runs `body` on `size` ranks as threads; ret_results and records (size x record_bytes) may be
 * NULL. Main thread only. */
void on_threads(int size, const cadre_comm_opts *opts, test_body *body, const void *arg,
                void *records, size_t record_bytes, test_result *ret_results);
/* The same over processes (fork without exec, from the single-threaded test program; records live
 * in shared memory). */
void on_processes(int size, const cadre_comm_opts *opts, test_body *body, const void *arg,
                  void *records, size_t record_bytes, test_result *ret_results);
/* `body` on three ranks as threads, in which a fault that the body itself plants (cadre_fault_at)
 * may hit: the ranks end, nothing stays allocated, and none fails unless it was hit. Whether it was
 * hit, so that a loop over k knows its end; a round in which a rank fails adds one to
 * `*failures`. */
bool ends_with_fault(test_body *body, const void *arg, int *failures);
/* Asserts that all of them ended well. */
void all_ok(const test_result *results, int size);

#endif
