/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: any number of writers, any number of readers, same values; finding, pruning,
 * showing, exporting.
 */
#include "support/ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store.h"

typedef struct saving {
    const char *folder;
    store_layout layout;
    int64_t step;
    double valid_loss;
} saving;

static cadre_status save_body(test_rank *me) {
    const saving *s = me->arg;
    cadre_checkpoint_head head = store_head(s->step, s->valid_loss);
    store mine;
    char path[CADRE_PATH] = "";
    store_open(&mine, s->layout, me->rank, me->size, s->step);
    cadre_status st = cadre_checkpoint_save(me->comm, s->folder, &head, mine.pieces, STORE_TENSORS,
                                            store_files, me->rank == 0 ? 2 : 0, path);
    store_close(&mine);
    if (!st && !strstr(path, "/step-"))
        st = CADRE_FAIL(CADRE_EINTERNAL, "no path was told: '%s'", path);
    return st;
}

static void save(int ranks, saving s) {
    test_result results[8] = {0};
    on_threads(ranks, NULL, save_body, &s, NULL, 0, results);
    all_ok(results, ranks);
}

/* Every rank of `ranks` reads its range. */
static void expect_values(const char *path, int ranks, int64_t step) {
    for (int r = 0; r < ranks; r++) {
        cadre_checkpoint *c = NULL;
        store mine;
        store_open(&mine, STORE_SPLIT, r, ranks, -1);
        OK(cadre_checkpoint_open(&c, path, true));
        OK(cadre_checkpoint_read(c, mine.pieces, STORE_TENSORS));
        assert_int_equal(store_wrong(&mine, step), 0);
        cadre_checkpoint_close(&c);
        store_close(&mine);
    }
}

static void any_writers_any_readers(void **state) {
    (void)state;
    static const store_layout layouts[] = {STORE_SPLIT, STORE_FIRST, STORE_STATE_SPLIT};
    static const int writers[] = {1, 2, 3}, readers[] = {1, 2, 5};
    const char *top = temp_folder();
    int64_t live = cadre_live_bytes();
    for (int l = 0; l < CADRE_COUNT(layouts); l++)
        for (int w = 0; w < CADRE_COUNT(writers); w++) {
            char folder[CADRE_PATH], path[CADRE_PATH], name[16];
            snprintf(name, sizeof name, "%d-%d", l, writers[w]);
            cadre_join(folder, sizeof folder, top, name);
            save(writers[w], (saving){folder, layouts[l], 500, 2.5});
            cadre_join(path, sizeof path, folder, "step-00000500");
            for (int r = 0; r < CADRE_COUNT(readers); r++) expect_values(path, readers[r], 500);
        }
    assert_int_equal(cadre_live_bytes(), live);
}

static void the_head_comes_back(void **state) {
    (void)state;
    const char *folder = temp_folder();
    char path[CADRE_PATH], *side = NULL;
    size_t bytes = 0;
    cadre_checkpoint *c = NULL;
    save(2, (saving){folder, STORE_SPLIT, 12, NAN});
    OK(cadre_checkpoint_open(&c, cadre_join(path, sizeof path, folder, "step-00000012"), false));
    const cadre_checkpoint_head *h = cadre_checkpoint_head_of(c);
    assert_int_equal(h->step, 12);
    assert_int_equal(h->samples, 144);
    assert_true(h->data_hash == 0x8123456789abcdefu);
    assert_true(h->parameter_hash == 0xfedcba9876543210u);
    assert_true(isnan(h->valid_loss));
    assert_string_equal(h->settings, "train:\n  batch: 12\n");
    assert_string_equal(h->layout, "dp=1");
    assert_string_equal(cadre_checkpoint_path(c), path);
    OK(cadre_checkpoint_side(c, "config.json", &side, &bytes));
    assert_string_equal(side, store_files[0].data);
    assert_int_equal(bytes, store_files[0].bytes);
    cadre_free(&side);
    FAILS(cadre_checkpoint_side(c, "vocab.json", &side, &bytes), CADRE_EDATA,
          "holds no vocab.json");
    cadre_checkpoint_close(&c);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void wrong_wishes_are_refused(void **state) {
    (void)state;
    const char *folder = temp_folder();
    char path[CADRE_PATH];
    float data[256];
    cadre_checkpoint *c = NULL;
    save(1, (saving){folder, STORE_FIRST, 1, 1});
    OK(cadre_checkpoint_open(&c, cadre_join(path, sizeof path, folder, "step-00000001"), false));
    cadre_piece p = {"lm_head.weight", CADRE_F32, cadre_dims2(37, 5), 0, 185, data, true};
    FAILS(cadre_checkpoint_read(c, &p, 1), CADRE_EDATA, "has no tensor 'lm_head.weight'");
    p.name = "transformer.wte.weight";
    OK(cadre_checkpoint_read(c, &p, 1));
    p.dims = cadre_dims2(5, 37);
    FAILS(cadre_checkpoint_read(c, &p, 1), CADRE_EDATA, "has shape (37, 5); (5, 37) is wanted");
    p.dims = cadre_dims2(37, 5);
    p.dtype = CADRE_I32;
    FAILS(cadre_checkpoint_read(c, &p, 1), CADRE_EDATA, "is f32; i32 is wanted");
    p.dtype = CADRE_F32;
    p.first = 1;
    FAILS(cadre_checkpoint_read(c, &p, 1), CADRE_EUSAGE, "elements 1 + 185 of 185");
    cadre_checkpoint_close(&c);
}

static cadre_status gap_body(test_rank *me) {
    const char *const *folder = me->arg;
    float data[4] = {0};
    cadre_checkpoint_head head = store_head(3, 1);
    int64_t first = me->rank == 0 ? 0 : (*folder)[0] == '=' ? 3 : 5;
    cadre_piece p = {"w",  CADRE_F32, cadre_dims1(8), first, me->rank == 0 ? 4 : 8 - first,
                     data, true};
    float five[5] = {0};
    if (p.count == 5) p.data = five;
    return cadre_checkpoint_save(me->comm, *folder + 1, &head, &p, 1, NULL, 0, NULL);
}

static void every_element_once(void **state) {
    (void)state;
    char folder[CADRE_PATH];
    const char *argument = folder;
    test_result results[2];
    for (int overlap = 0; overlap < 2; overlap++) {
        snprintf(folder, sizeof folder, "%c%s", overlap ? '=' : '-', temp_folder());
        on_threads(2, NULL, gap_body, &argument, NULL, 0, results);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(results[r].status, CADRE_EDATA);
            assert_non_null(strstr(results[r].text, overlap
                                                        ? "elements from 3 on are held twice"
                                                        : "elements 4 to 4 are held by nobody"));
        }
        char **names = NULL;
        int count = 0;
        OK(cadre_list_folder(folder + 1, &names, &count));
        assert_int_equal(count, 0);
        cadre_names_free(&names, count);
    }
}

static void a_whole_one_of_the_same_step_stays(void **state) {
    (void)state;
    const char *folder = temp_folder();
    char path[CADRE_PATH], file[CADRE_PATH];
    save(1, (saving){folder, STORE_FIRST, 7, 3});
    cadre_join(path, sizeof path, folder, "step-00000007");
    cadre_join(file, sizeof file, path, "model.safetensors");
    save(2, (saving){folder, STORE_FIRST, 7, 1});
    cadre_checkpoint *c = NULL;
    OK(cadre_checkpoint_open(&c, path, true));
    assert_true(cadre_checkpoint_head_of(c)->valid_loss == 3);
    cadre_checkpoint_close(&c);
    FILE *f = fopen(file, "r+b");
    assert_non_null(f);
    fputc('x', f);
    fclose(f);
    save(2, (saving){folder, STORE_FIRST, 7, 1}); /* damaged: written anew */
    expect_values(path, 1, 7);
}

static void newest_k_and_the_best_are_kept(void **state) {
    (void)state;
    static const double losses[] = {3, 1.5, 2, NAN, 2.5, 2.25};
    const char *folder = temp_folder();
    char path[CADRE_PATH], found[CADRE_PATH], **names = NULL;
    int count = 0;
    for (int i = 0; i < 6; i++) save(1, (saving){folder, STORE_FIRST, (i + 1) * 10, losses[i]});
    OK(cadre_mkdirs(cadre_join(path, sizeof path, folder, "step-00000070.tmp-4")));
    OK(cadre_mkdirs(cadre_join(path, sizeof path, folder, "step-00000080")));
    OK(cadre_mkdirs(cadre_join(path, sizeof path, folder, "mine")));
    OK(cadre_checkpoint_prune(folder, 0));
    OK(cadre_list_folder(folder, &names, &count));
    assert_int_equal(count, 7); /* six of them, and "mine" */
    cadre_names_free(&names, count);
    OK(cadre_checkpoint_prune(folder, 2));
    OK(cadre_list_folder(folder, &names, &count));
    assert_int_equal(count, 4);
    assert_string_equal(names[0], "mine");
    assert_string_equal(names[1], "step-00000020");
    assert_string_equal(names[2], "step-00000050");
    assert_string_equal(names[3], "step-00000060");
    cadre_names_free(&names, count);
    OK(cadre_checkpoint_find(folder, found, NULL));
    assert_non_null(strstr(found, "step-00000060"));
    assert_int_equal(cadre_live_bytes(), 0);
}

static void show_and_check_say_what_is_there(void **state) {
    (void)state;
    char run[CADRE_PATH], folder[CADRE_PATH], file[CADRE_PATH];
    cadre_text text = {0};
    snprintf(run, sizeof run, "%s", temp_folder());
    cadre_join(folder, sizeof folder, run, "checkpoints");
    save(2, (saving){folder, STORE_SPLIT, 40, 2.125});
    save(2, (saving){folder, STORE_SPLIT, 50, 2});
    OK(cadre_checkpoint_show(run, false, &text));
    assert_non_null(strstr(text.at, "step        50, 600 samples"));
    assert_non_null(strstr(text.at, "197 parameters in 4 tensors"));
    assert_non_null(strstr(text.at, "optim-00001.safetensors"));
    cadre_text_clear(&text);
    OK(cadre_checkpoint_show(run, true, &text));
    assert_non_null(strstr(text.at, "\"schema\": 1"));
    assert_non_null(strstr(text.at, "\"valid_loss\": 2.0"));
    cadre_text_clear(&text);
    OK(cadre_checkpoint_check(run, false, &text));
    assert_non_null(strstr(text.at, "good  "));
    cadre_text_clear(&text);
    snprintf(file, sizeof file, "%.3900s/step-00000050/config.json", folder);
    assert_int_equal(remove(file), 0);
    FAILS(cadre_checkpoint_check(run, false, &text), CADRE_EDATA, "1 of 2 checkpoints damaged");
    assert_non_null(strstr(text.at, "config.json is missing"));
    cadre_text_clear(&text);
    FAILS(cadre_checkpoint_check(run, true, &text), CADRE_EDATA, "config.json is missing");
    assert_non_null(strstr(text.at, "\"ok\": false"));
    cadre_text_clear(&text);
    OK(cadre_checkpoint_show(run, false, &text));
    assert_non_null(strstr(text.at, "passed over: "));
    assert_non_null(strstr(text.at, "step        40"));
    cadre_text_free(&text);
    FAILS(cadre_checkpoint_show("/nowhere", false, &text), CADRE_EDATA, "/nowhere");
    assert_int_equal(cadre_live_bytes(), 0);
}

static void export_replaces_its_own_alone(void **state) {
    (void)state;
    const char *folder = temp_folder(), *target = temp_folder();
    char to[CADRE_PATH], inner[CADRE_PATH], **names = NULL;
    int count = 0;
    cadre_safetensors *f = NULL;
    save(2, (saving){folder, STORE_SPLIT, 4, 1});
    cadre_join(to, sizeof to, target, "w.safetensors");
    for (int twice = 0; twice < 2; twice++) OK(cadre_checkpoint_export(folder, to));
    OK(cadre_safetensors_open(&f, to));
    assert_int_equal(cadre_safetensors_count(f), 4);
    cadre_safetensors_close(&f);
    cadre_join(to, sizeof to, target, "hf/");
    for (int twice = 0; twice < 2; twice++) OK(cadre_checkpoint_export(folder, to));
    OK(cadre_list_folder(to, &names, &count));
    assert_int_equal(count, 3);
    assert_string_equal(names[0], "config.json");
    assert_string_equal(names[1], "model.safetensors");
    assert_string_equal(names[2], "tokenizer.json");
    cadre_names_free(&names, count);
    OK(cadre_list_folder(target, &names, &count));
    assert_int_equal(count, 2); /* nothing temporary stays */
    cadre_names_free(&names, count);
    OK(cadre_file_replace(cadre_join(inner, sizeof inner, to, "thesis.tex"), "x", 1));
    FAILS(cadre_checkpoint_export(folder, to), CADRE_EUSAGE, "holds other things (thesis.tex)");
    assert_true(cadre_path_is_file(inner));
    FAILS(cadre_checkpoint_export(folder, inner), CADRE_EUSAGE, "thesis.tex is a file");
    FAILS(cadre_checkpoint_export(target, to), CADRE_EDATA, "holds no checkpoint");
    FAILS(cadre_checkpoint_export(folder, "/proc/nowhere/w.safetensors"), CADRE_ERESOURCE,
          "/proc/nowhere/w.safetensors");
    assert_int_equal(cadre_live_bytes(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_writers_any_readers),
        cmocka_unit_test(the_head_comes_back),
        cmocka_unit_test(wrong_wishes_are_refused),
        cmocka_unit_test(every_element_once),
        cmocka_unit_test(a_whole_one_of_the_same_step_stays),
        cmocka_unit_test(newest_k_and_the_best_are_kept),
        cmocka_unit_test(show_and_check_say_what_is_there),
        cmocka_unit_test(export_replaces_its_own_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
