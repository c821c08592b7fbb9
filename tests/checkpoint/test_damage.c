/* SPDX-License-Identifier: Apache-2.0
 *
 * Damage: every kind of it, in every file, is recognised and named, and the checkpoint before is
 * used; a write that fails leaves nothing behind and nothing lost.
 */
#include "support/ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "store.h"

typedef struct saving {
    const char *folder;
    int64_t step;
    int limited; /* this rank may write no file above 300 bytes; -1: none */
    int failing; /* 1 + the allocation or write of the save that fails; 0: none */
} saving;

static cadre_status save_body(test_rank *me) {
    const saving *s = me->arg;
    cadre_checkpoint_head head = store_head(s->step, 1);
    store mine;
    if (me->rank == s->limited) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){300, RLIM_INFINITY});
    }
    store_open(&mine, STORE_SPLIT, me->rank, me->size, s->step);
    cadre_fault_at(s->failing - 1);
    cadre_status st = cadre_checkpoint_save(me->comm, s->folder, &head, mine.pieces, STORE_TENSORS,
                                            store_files, me->rank == 0 ? 2 : 0, NULL);
    if (me->record) *(bool *)me->record = cadre_fault_hit();
    cadre_fault_at(-1);
    store_close(&mine);
    return st;
}

static void save(int ranks, const char *folder, int64_t step) {
    test_result results[4] = {0};
    on_threads(ranks, NULL, save_body, &(saving){folder, step, -1, 0}, NULL, 0, results);
    all_ok(results, ranks);
}

static void expect_only(const char *folder, const char *const *want, int n) {
    char **names = NULL;
    int count = 0;
    OK(cadre_list_folder(folder, &names, &count));
    assert_int_equal(count, n);
    for (int i = 0; i < n; i++) assert_string_equal(names[i], want[i]);
    cadre_names_free(&names, count);
}

static void expect_step(const char *folder, int64_t step, const char *skipped_part) {
    char found[CADRE_PATH], name[32];
    cadre_text skipped = {0};
    snprintf(name, sizeof name, "/step-%08d", (int)step);
    OK(cadre_checkpoint_find(folder, found, &skipped));
    assert_non_null(strstr(found, name));
    if (skipped_part) {
        assert_non_null(skipped.at);
        assert_non_null(strstr(skipped.at, skipped_part));
    } else {
        assert_int_equal(skipped.length, 0);
    }
    cadre_text_free(&skipped);
}

/* Puts other contents in place of a file, looks, and puts the right ones back. */
static void with_contents(const char *folder, const char *path, const void *data, size_t bytes,
                          const char *name) {
    cadre_map map;
    OK(cadre_map_open(&map, path));
    uint8_t *good = malloc(map.bytes + 1);
    size_t good_bytes = map.bytes;
    memcpy(good, map.data, map.bytes);
    cadre_map_close(&map);
    OK(cadre_file_replace(path, data, bytes));
    expect_step(folder, 100, name);
    char step[CADRE_PATH];
    cadre_text said = {0};
    cadre_join(step, sizeof step, folder, "step-00000200");
    FAILS(cadre_checkpoint_check(step, false, &said), CADRE_EDATA, name);
    cadre_text_free(&said);
    OK(cadre_file_replace(path, good, good_bytes));
    free(good);
}

static void damage_file(const char *folder, const char *path, const char *name) {
    cadre_map map;
    OK(cadre_map_open(&map, path));
    size_t n = map.bytes;
    uint8_t *data = malloc(n + 1);
    memcpy(data, map.data, n);
    cadre_map_close(&map);
    with_contents(folder, path, data, 0, name);
    with_contents(folder, path, data, n - 1, name);
    with_contents(folder, path, data, n / 2, name);
    data[n] = '\n';
    with_contents(folder, path, data, n + 1, name);
    size_t stride = n > 64 ? n / 23 : 1;
    for (size_t at = 0; at < n; at += stride)
        for (int bit = 0; bit < 8; bit += 7) {
            data[at] ^= (uint8_t)(1 << bit);
            with_contents(folder, path, data, n, name);
            data[at] ^= (uint8_t)(1 << bit);
        }
    data[n - 1] ^= 1;
    with_contents(folder, path, data, n, name);
    free(data);
}

static void every_damage_is_recognised(void **state) {
    (void)state;
    const char *folder = temp_folder();
    char step[CADRE_PATH], path[CADRE_PATH], away[CADRE_PATH], **names = NULL;
    int count = 0;
    save(2, folder, 100);
    save(2, folder, 200);
    cadre_join(step, sizeof step, folder, "step-00000200");
    OK(cadre_list_folder(step, &names, &count));
    assert_int_equal(count, 6); /* manifest, model, two optim, config, tokenizer */
    for (int i = 0; i < count; i++) {
        cadre_join(path, sizeof path, step, names[i]);
        damage_file(folder, path, names[i]);
        expect_step(folder, 200, NULL);
        snprintf(away, sizeof away, "%.4000s.away", path);
        assert_int_equal(rename(path, away), 0);
        expect_step(folder, 100, names[i]);
        assert_int_equal(rename(away, path), 0);
    }
    cadre_names_free(&names, count);
    OK(cadre_mkdirs(cadre_join(path, sizeof path, folder, "step-00000300")));
    expect_step(folder, 100 + 100, "step-00000300 is no complete checkpoint");
    OK(cadre_remove_tree(step));
    OK(cadre_remove_tree(cadre_join(path, sizeof path, folder, "step-00000100")));
    FAILS(cadre_checkpoint_find(folder, away, NULL), CADRE_EDATA, "holds no complete checkpoint");
    assert_int_equal(cadre_live_bytes(), 0);
}

/* The k-th allocation or write fails, for every k: nothing half-written, nothing lost. */
static void every_failure_leaves_what_was(void **state) {
    (void)state;
    const char *folder = temp_folder(), *const only[] = {"step-00000100"};
    test_result result;
    int k = 0;
    save(1, folder, 100);
    for (bool done = false; !done; k++) {
        bool hit = false;
        on_threads(1, NULL, save_body, &(saving){folder, 200, -1, k + 1}, &hit, sizeof hit,
                   &result);
        assert_int_equal(cadre_live_bytes(), 0);
        done = !hit;
        if (done) break;
        if (result.status == CADRE_OK) { /* the failure was in what may fail without harm */
            char path[CADRE_PATH];
            expect_step(folder, 200, NULL);
            OK(cadre_remove_tree(cadre_join(path, sizeof path, folder, "step-00000200")));
        }
        expect_only(folder, only, 1);
        expect_step(folder, 100, NULL);
    }
    assert_int_equal(result.status, CADRE_OK);
    assert_true(k > 20);
    expect_step(folder, 200, NULL);
}

/* One rank cannot write: all fail with its sentence. */
static void one_rank_fails_for_all(void **state) {
    (void)state;
    const char *folder = temp_folder(), *const only[] = {"step-00000100"};
    save(1, folder, 100);
    for (int limited = 0; limited < 3; limited++) {
        test_result results[3] = {0};
        on_processes(3, NULL, save_body, &(saving){folder, 200, limited, 0}, NULL, 0, results);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(results[r].status, CADRE_ERESOURCE);
            assert_non_null(strstr(results[r].text, "step-00000200.tmp-"));
            assert_non_null(strstr(results[r].text, "File too large"));
            char prefix[32];
            snprintf(prefix, sizeof prefix, "rank %d: ", limited);
            if (r != limited) assert_memory_equal(results[r].text, prefix, strlen(prefix));
        }
        expect_only(folder, only, 1);
        expect_step(folder, 100, NULL);
    }
}

static void a_full_disk_keeps_what_was(void **state) {
    (void)state;
    const char *folder = temp_folder(), *const only[] = {"filler", "step-00000100"};
    char path[CADRE_PATH];
    if (geteuid() != 0 || mount("none", folder, "tmpfs", 0, "size=96k") != 0) skip();
    save(2, folder, 100);
    FILE *filler = fopen(cadre_join(path, sizeof path, folder, "filler"), "wb");
    while (filler && fputc('x', filler) != EOF && fflush(filler) == 0) {
    }
    if (filler) fclose(filler);
    test_result results[2];
    on_threads(2, NULL, save_body, &(saving){folder, 200, -1, 0}, NULL, 0, results);
    int status = results[0].status, second = results[1].status;
    char text[1024];
    snprintf(text, sizeof text, "%.1000s", results[0].text);
    expect_step(folder, 100, NULL);
    expect_only(folder, only, 2);
    umount(folder);
    assert_int_equal(status, CADRE_ERESOURCE);
    assert_int_equal(second, CADRE_ERESOURCE);
    assert_non_null(strstr(text, "No space left on device"));
}

static void a_folder_that_cannot_be_written(void **state) {
    (void)state;
    char path[CADRE_PATH];
    const char *folder = temp_folder();
    OK(cadre_file_replace(cadre_join(path, sizeof path, folder, "file"), "x", 1));
    cadre_join(path, sizeof path, folder, "file/checkpoints");
    test_result results[2];
    on_threads(2, NULL, save_body, &(saving){path, 1, -1, 0}, NULL, 0, results);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(results[r].status, CADRE_ERESOURCE);
        assert_non_null(strstr(results[r].text, "cannot make the folder"));
    }
    if (geteuid() == 0) return; /* root may write anywhere */
    cadre_join(path, sizeof path, folder, "locked");
    assert_int_equal(mkdir(path, 0555), 0);
    on_threads(2, NULL, save_body, &(saving){path, 1, -1, 0}, NULL, 0, results);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(results[r].status, CADRE_ERESOURCE);
        assert_non_null(strstr(results[r].text, strerror(EACCES)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_damage_is_recognised),
        cmocka_unit_test(every_failure_leaves_what_was),
        cmocka_unit_test(one_rank_fails_for_all),
        cmocka_unit_test(a_full_disk_keeps_what_was),
        cmocka_unit_test(a_folder_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
