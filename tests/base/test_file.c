/* SPDX-License-Identifier: Apache-2.0
 *
 * Mapping, replacing, listing and removing files.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "support/check.h"

static const char *in(const char *folder, const char *name) {
    static char paths[8][CADRE_PATH];
    static int at;
    at = (at + 1) % 8;
    return cadre_join(paths[at], CADRE_PATH, folder, name);
}

static void check_content(const char *path, const char *want) {
    cadre_map map;
    OK(cadre_map_open(&map, path));
    assert_int_equal(map.bytes, strlen(want));
    assert_memory_equal(map.data, want, map.bytes);
    cadre_map_close(&map);
    assert_null(map.data);
}

static void files_are_mapped(void **state) {
    (void)state;
    const char *folder = temp_folder();
    free(temp_file(folder, "some", "hello", 5));
    free(temp_file(folder, "empty", "", 0));
    check_content(in(folder, "some"), "hello");
    cadre_map map;
    OK(cadre_map_open(&map, in(folder, "empty")));
    assert_int_equal(map.bytes, 0);
    assert_non_null(map.data);
    cadre_map_close(&map);
    cadre_map_close(&map);
}

static void what_cannot_be_read_is_told(void **state) {
    (void)state;
    const char *folder = temp_folder();
    cadre_map map;
    FAILS(cadre_map_open(&map, in(folder, "none")), CADRE_EDATA, "none: No such file");
    FAILS(cadre_map_open(&map, folder), CADRE_EDATA, "is a folder");
    FAILS(cadre_map_open(&map, "/dev/null"), CADRE_EDATA, "no regular file");
    char **names;
    int count;
    FAILS(cadre_list_folder(in(folder, "none"), &names, &count), CADRE_EDATA, "none");
}

static void folders_are_made_with_their_parents(void **state) {
    (void)state;
    const char *folder = temp_folder();
    OK(cadre_mkdirs(in(folder, "a/b//c/")));
    assert_true(cadre_path_is_folder(in(folder, "a/b/c")));
    OK(cadre_mkdirs(in(folder, "a/b")));
    free(temp_file(folder, "file", "x", 1));
    assert_true(cadre_path_is_file(in(folder, "file")));
    assert_false(cadre_path_is_file(folder));
    assert_false(cadre_path_is_folder(in(folder, "file")));
    FAILS(cadre_mkdirs(in(folder, "file")), CADRE_ERESOURCE, "File exists");
    FAILS(cadre_mkdirs(in(folder, "file/inner")), CADRE_ERESOURCE, "file");
    FAILS(cadre_mkdirs("/proc/cadre/x"), CADRE_ERESOURCE, "/proc/cadre: ");
    FAILS(cadre_mkdirs(""), CADRE_EUSAGE, "empty");
}

static void files_are_replaced_whole(void **state) {
    (void)state;
    const char *folder = temp_folder();
    OK(cadre_file_replace(in(folder, "f"), "first", 5));
    check_content(in(folder, "f"), "first");
    OK(cadre_file_replace(in(folder, "f"), "2nd", 3));
    check_content(in(folder, "f"), "2nd");
    OK(cadre_file_replace(in(folder, "e"), "", 0));
    check_content(in(folder, "e"), "");
    cadre_fault_at(0);
    FAILS(cadre_file_replace(in(folder, "f"), "third", 5), CADRE_ERESOURCE, "cannot write");
    cadre_fault_at(-1);
    check_content(in(folder, "f"), "2nd"); /* the old one stays, and nothing else lies about */
    char **names = NULL;
    int count = 0;
    OK(cadre_list_folder(folder, &names, &count));
    assert_int_equal(count, 2);
    assert_string_equal(names[0], "e");
    assert_string_equal(names[1], "f");
    cadre_names_free(&names, count);
    FAILS(cadre_file_replace(in(folder, "none/f"), "x", 1), CADRE_ERESOURCE, "No such file");
}

static void a_full_disk_is_told(void **state) {
    (void)state;
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0) skip();
    FAILS(cadre_write_all(fd, "x", 1, "some/path"), CADRE_ERESOURCE, "some/path: No space left");
    close(fd);
}

static void folders_are_listed_in_order(void **state) {
    (void)state;
    const char *folder = temp_folder();
    char name[32], **names = NULL;
    int count = 0;
    OK(cadre_list_folder(folder, &names, &count));
    assert_int_equal(count, 0);
    cadre_names_free(&names, count);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "f%02d", i * 7 % 40);
        free(temp_file(folder, name, "", 0));
    }
    OK(cadre_list_folder(folder, &names, &count));
    assert_int_equal(count, 40);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "f%02d", i);
        assert_string_equal(names[i], name);
    }
    cadre_names_free(&names, count);
    assert_null(names);
    for (int k = 0;; k++) { /* every allocation may fail */
        cadre_fault_at(k);
        cadre_status st = cadre_list_folder(folder, &names, &count);
        assert_int_equal(st, cadre_fault_hit() ? CADRE_ERESOURCE : CADRE_OK);
        if (!st) cadre_names_free(&names, count);
        assert_int_equal(cadre_live_bytes(), 0);
        if (!cadre_fault_hit()) break;
    }
    cadre_fault_at(-1);
}

static void trees_are_removed_but_not_what_links_point_to(void **state) {
    (void)state;
    const char *folder = temp_folder();
    OK(cadre_mkdirs(in(folder, "tree/a/b")));
    free(temp_file(in(folder, "tree/a"), "f", "x", 1));
    free(temp_file(folder, "outside", "kept", 4));
    OK(cadre_mkdirs(in(folder, "other")));
    free(temp_file(in(folder, "other"), "g", "kept", 4));
    assert_int_equal(symlink(in(folder, "outside"), in(folder, "tree/link")), 0);
    assert_int_equal(symlink(in(folder, "other"), in(folder, "tree/a/folder-link")), 0);
    OK(cadre_remove_tree(in(folder, "tree")));
    assert_false(cadre_path_is_folder(in(folder, "tree")));
    check_content(in(folder, "outside"), "kept");
    check_content(in(folder, "other/g"), "kept");
    OK(cadre_remove_tree(in(folder, "tree"))); /* absent is fine */
    OK(cadre_remove_tree(in(folder, "outside")));
    assert_false(cadre_path_is_file(in(folder, "outside")));
}

static void paths_are_joined_whole_or_not(void **state) {
    (void)state;
    char path[8];
    assert_string_equal(cadre_join(path, sizeof path, "a", "b"), "a/b");
    assert_string_equal(cadre_join(path, sizeof path, "a/", "b"), "a/b");
    assert_string_equal(cadre_join(path, sizeof path, "/", "b"), "/b");
    assert_string_equal(cadre_join(path, sizeof path, "abc", "def"), "abc/def");
    assert_string_equal(cadre_join(path, sizeof path, "abc", "defg"), "");
    OK(cadre_fsync_path("/tmp"));
    FAILS(cadre_fsync_path("/none/such"), CADRE_ERESOURCE, "/none/such");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_mapped),
        cmocka_unit_test(what_cannot_be_read_is_told),
        cmocka_unit_test(folders_are_made_with_their_parents),
        cmocka_unit_test(files_are_replaced_whole),
        cmocka_unit_test(a_full_disk_is_told),
        cmocka_unit_test(folders_are_listed_in_order),
        cmocka_unit_test(trees_are_removed_but_not_what_links_point_to),
        cmocka_unit_test(paths_are_joined_whole_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
