/* SPDX-License-Identifier: Apache-2.0 */
#include "support/ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"

static void keep(test_result *result, cadre_status st) {
    result->status = st;
    snprintf(result->text, sizeof result->text, "%s", st < 0 ? cadre_error_text() : "");
}

/* ---- threads ---- */

typedef struct thread_rank {
    test_rank me;
    test_body *body;
    test_result result;
    pthread_t thread;
} thread_rank;

static void *run_thread(void *arg) {
    thread_rank *r = arg;
    cadre_status st = r->body(&r->me);
    keep(&r->result, st);
    if (st) {
        cadre_error error;
        cadre_error_save(&error);
        cadre_comm_abort(r->me.comm, &error);
    }
    cadre_comm_close(&r->me.comm);
    return NULL;
}

void on_threads(int size, const cadre_comm_opts *opts, test_body *body, const void *arg,
                void *records, size_t record_bytes, test_result *ret_results) {
    cadre_comm **comms = calloc((size_t)size, sizeof *comms);
    thread_rank *ranks = calloc((size_t)size, sizeof *ranks);
    if (!comms || !ranks) abort();
    OK(cadre_comm_open_threads(comms, size, opts));
    if (records) memset(records, 0, (size_t)size * record_bytes);
    for (int i = 0; i < size; i++) {
        ranks[i].me = (test_rank){comms[i], i, size, arg,
                                  records ? (char *)records + (size_t)i * record_bytes : NULL};
        ranks[i].body = body;
        if (pthread_create(&ranks[i].thread, NULL, run_thread, &ranks[i]) != 0) abort();
    }
    for (int i = 0; i < size; i++) {
        pthread_join(ranks[i].thread, NULL);
        if (ret_results) ret_results[i] = ranks[i].result;
    }
    free(ranks);
    free(comms);
}

/* ---- processes ---- */

typedef struct shared_results {
    test_result result[64];
} shared_results;

static _Noreturn void run_process(int rank, int size, const cadre_comm_opts *opts, test_body *body,
                                  const void *arg, void *record, test_result *result,
                                  const char *job) {
    char number[32];
    snprintf(number, sizeof number, "%d", rank);
    setenv("CADRE_RANK", number, 1);
    setenv("CADRE_LOCAL_RANK", number, 1);
    snprintf(number, sizeof number, "%d", size);
    setenv("CADRE_WORLD_SIZE", number, 1);
    setenv("CADRE_LOCAL_SIZE", number, 1);
    setenv("CADRE_JOB", job, 1);
    test_rank me = {NULL, rank, size, arg, record};
    cadre_status st = cadre_comm_open(&me.comm, opts);
    if (!st) st = body(&me);
    keep(result, st);
    if (st && me.comm) {
        cadre_error error;
        cadre_error_save(&error);
        cadre_comm_abort(me.comm, &error);
    }
    cadre_comm_close(&me.comm);
    _exit(0);
}

void on_processes(int size, const cadre_comm_opts *opts, test_body *body, const void *arg,
                  void *records, size_t record_bytes, test_result *ret_results) {
    static int jobs;
    char job[64];
    pid_t pids[64];
    size_t bytes = sizeof(shared_results) + (size_t)size * record_bytes;
    shared_results *shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || size > CADRE_COUNT(pids)) abort();
    snprintf(job, sizeof job, "test-%d-%d", (int)getpid(), jobs++);
    char *area = (char *)(shared + 1);
    fflush(NULL);
    for (int i = 0; i < size; i++) {
        pids[i] = fork();
        if (pids[i] < 0) abort();
        if (pids[i] == 0)
            run_process(i, size, opts, body, arg, area + (size_t)i * record_bytes,
                        &shared->result[i], job);
    }
    for (int i = 0; i < size; i++) {
        int how = 0;
        waitpid(pids[i], &how, 0);
        if (WIFSIGNALED(how)) {
            shared->result[i].signal = WTERMSIG(how);
            shared->result[i].status = CADRE_EINTERNAL;
            snprintf(shared->result[i].text, sizeof shared->result[i].text, "ended by signal %d",
                     WTERMSIG(how));
        }
        if (ret_results) ret_results[i] = shared->result[i];
    }
    if (records) memcpy(records, area, (size_t)size * record_bytes);
    munmap(shared, bytes);
}

bool ends_with_fault(test_body *body, const void *arg, int *failures) {
    test_result results[3];
    on_threads(3, NULL, body, arg, NULL, 0, results);
    bool hit = cadre_fault_hit(), failed = false;
    cadre_fault_at(-1);
    for (int r = 0; r < 3; r++) failed = failed || results[r].status < 0;
    /* Freeing may do without what fails; then all is as if nothing had. */
    assert_true(hit || !failed);
    *failures += failed;
    assert_int_equal(cadre_live_bytes(), 0);
    return hit;
}

void all_ok(const test_result *results, int size) {
    for (int i = 0; i < size; i++) {
        if (results[i].status < 0) print_error("rank %d of %d: %s\n", i, size, results[i].text);
        assert_int_equal(results[i].status, CADRE_OK);
    }
}
