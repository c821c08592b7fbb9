/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that is killed at any moment while it saves: what is found afterwards is whole, and no
 * older than the newest save that had ended.
 */
#include "support/check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "store.h"

/* Saves step after step, and says after each which one is safe. */
static void save_on(const char *folder, volatile int64_t *ended) {
    cadre_comm *comm[1] = {NULL};
    if (cadre_comm_open_threads(comm, 1, NULL)) _exit(1);
    for (int64_t step = *ended + 1;; step++) {
        cadre_checkpoint_head head = store_head(step, 1.0 / (double)step);
        store mine;
        store_open(&mine, STORE_SPLIT, 0, 1, step);
        if (cadre_checkpoint_save(comm[0], folder, &head, mine.pieces, STORE_TENSORS, store_files,
                                  2, NULL))
            _exit(2);
        store_close(&mine);
        *ended = step;
        if (cadre_checkpoint_prune(folder, 3)) _exit(3);
    }
}

static void expect_whole(const char *folder, int64_t least) {
    char found[CADRE_PATH];
    cadre_checkpoint *c = NULL;
    store mine;
    OK(cadre_checkpoint_find(folder, found, NULL));
    OK(cadre_checkpoint_open(&c, found, true));
    int64_t step = cadre_checkpoint_head_of(c)->step;
    assert_true(step >= least);
    store_open(&mine, STORE_SPLIT, 0, 1, -1);
    OK(cadre_checkpoint_read(c, mine.pieces, STORE_TENSORS));
    assert_int_equal(store_wrong(&mine, step), 0);
    store_close(&mine);
    cadre_checkpoint_close(&c);
}

static void killed_at_any_moment(void **state) {
    (void)state;
    const char *folder = temp_folder();
    volatile int64_t *ended =
        mmap(NULL, sizeof *ended, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(ended, MAP_FAILED);
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        if (child == 0) save_on(folder, ended);
        uint32_t draw = cadre_philox_draw(7, (uint64_t)round, 0).v[0];
        int64_t aim = *ended + draw % 2; /* the next save, or the one after it */
        for (int ms = 0; *ended < aim && ms < 10000; ms++) usleep(1000);
        usleep(draw / 2 % 20000);
        kill(child, SIGKILL);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        if (*ended > 0) expect_whole(folder, *ended);
    }
    assert_true(*ended > 5);
    OK(cadre_checkpoint_prune(folder, 1));
    char **names = NULL;
    int count = 0;
    OK(cadre_list_folder(folder, &names, &count));
    assert_int_equal(count, 1); /* the newest is the best here; nothing half-written stays */
    cadre_names_free(&names, count);
    munmap((void *)ended, sizeof *ended);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_at_any_moment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
