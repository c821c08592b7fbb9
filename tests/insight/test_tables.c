/* SPDX-License-Identifier: Apache-2.0
 *
 * What is made from the tables: the list of settings, the man page, the completion; and the plan.
 */
#include "support/check.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "insight/insight.h"

static const cadre_verb_help verbs[] = {
    {"train", "train [RUN.yaml] [--ranks N] [--section.key=value ...]", "trains a model"},
    {"generate", "generate CHECKPOINT [--prompt TEXT] [--top-k K]", "writes text"},
};

static cadre_settings *defaults(void) {
    cadre_settings *set = NULL;
    OK(cadre_settings_open(&set, NULL));
    return set;
}

static void settings_list_by_prefix(void **state) {
    (void)state;
    cadre_settings *set = defaults();
    cadre_text text = {0};
    OK(cadre_settings_text(set, "checkpoint", false, &text));
    assert_non_null(strstr(text.at, "checkpoint.every"));
    assert_non_null(strstr(text.at, "10min"));
    assert_non_null(strstr(text.at, "not built yet"));
    assert_null(strstr(text.at, "train.steps"));
    size_t room = text.length;
    cadre_text_clear(&text);
    OK(cadre_settings_text(set, "checkpoint.", false, &text));
    assert_int_equal(text.length, room);
    cadre_text_clear(&text);
    OK(cadre_settings_text(set, "checkpoint.keep", false, &text));
    assert_non_null(strstr(text.at, "checkpoint.keep"));
    assert_null(strstr(text.at, "checkpoint.every"));
    cadre_text_clear(&text);
    FAILS(cadre_settings_text(set, "checkpoin", false, &text), CADRE_EUSAGE,
          "no setting begins with 'checkpoin'");
    FAILS(cadre_settings_text(set, "optim.learn", true, &text), CADRE_EUSAGE, "no setting begins");
    assert_int_equal(text.length, 0);
    OK(cadre_settings_text(set, NULL, true, &text));
    json_t *root = json_loads(text.at, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(root, "schema")), 1);
    const json_t *rows = json_object_get(root, "settings");
    assert_int_equal(json_array_size(rows), cadre_settings_count(set));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        assert_non_null(json_string_value(json_object_get(row, "name")));
        assert_true(strlen(json_string_value(json_object_get(row, "help"))) > 5);
    }
    json_decref(root);
    cadre_text_free(&text);
    cadre_settings_close(&set);
    assert_int_equal(cadre_live_bytes(), 0);
}

/* Every setting and verb is on the man page; no line is a troff request that was not meant. */
static void the_man_page_has_everything(void **state) {
    (void)state;
    cadre_settings *set = defaults();
    cadre_text text = {0};
    OK(cadre_man_page(verbs, 2, set, &text));
    for (int i = 0; i < cadre_settings_count(set); i++) {
        cadre_setting_view v;
        char head[128];
        cadre_settings_view(set, i, &v);
        snprintf(head, sizeof head, "\n.B %s\n", v.row->name);
        assert_non_null(strstr(text.at, head));
    }
    assert_non_null(strstr(text.at, ".B cadre generate CHECKPOINT [\\-\\-prompt TEXT]"));
    for (char *line = strtok(text.at, "\n"); line; line = strtok(NULL, "\n"))
        if (*line == '.' || *line == '\'')
            assert_true(strncmp(line, ".TH ", 4) == 0 || strncmp(line, ".SH ", 4) == 0 ||
                        strncmp(line, ".SS ", 4) == 0 || strcmp(line, ".TP") == 0 ||
                        strncmp(line, ".B ", 3) == 0 || strncmp(line, ".I ", 3) == 0);
    cadre_text_free(&text);
    cadre_settings_close(&set);
}

/* Asks bash what it would complete. */
static void ask_bash(const char *script, const char *words, char *ret, size_t room) {
    char command[CADRE_PATH + 512];
    int n = 1;
    for (const char *w = words; *w; w++) n += *w == ' ';
    snprintf(command, sizeof command,
             "bash -c '. %s; COMP_WORDS=(%s); COMP_CWORD=%d; compopt() { :; }; _cadre; echo "
             "${COMPREPLY[*]}'",
             script, words, n - 1);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    ret[0] = '\0';
    if (fgets(ret, (int)room, f)) ret[strcspn(ret, "\n")] = '\0';
    assert_int_equal(pclose(f), 0);
}

static void bash_completes(void **state) {
    (void)state;
    cadre_settings *set = defaults();
    cadre_text text = {0};
    char got[4096];
    OK(cadre_completion(verbs, 2, set, &text));
    cadre_settings_close(&set);
    char *script = temp_file(temp_folder(), "completion.bash", text.at, text.length);
    cadre_text_free(&text);
    if (system("bash -c true >/dev/null 2>&1") != 0) skip();
    ask_bash(script, "cadre tr", got, sizeof got);
    assert_string_equal(got, "train");
    ask_bash(script, "cadre generate --", got, sizeof got);
    assert_string_equal(got, "--help --prompt --top-k");
    ask_bash(script, "cadre train --checkpoint.r", got, sizeof got);
    assert_string_equal(got, "--checkpoint.resume=");
    ask_bash(script, "cadre train --run.console = b", got, sizeof got);
    assert_string_equal(got, "bar");
    ask_bash(script, "cadre train --run.pin =", got, sizeof got);
    assert_string_equal(got, "true false");
    free(script);
}

static cadre_plan small_plan(void) {
    cadre_plan plan = {.ranks = 2,
                       .threads = 1,
                       .parameters = 804096,
                       .trainable = 804096,
                       .flops_per_step = 3.5e9,
                       .blocks = 6,
                       .recomputed_blocks = 3,
                       .recompute_flops_per_step = 0.35e9,
                       .traffic_bytes = 3216384,
                       .buckets = 2,
                       .samples_per_epoch = 15685,
                       .train_tokens = 1003854,
                       .valid_tokens = 111540,
                       .lr_scaled_from = NAN};
    plan.bytes_per_rank[CADRE_MEM_PARAMETERS] = 3 << 20;
    plan.bytes_per_rank[CADRE_MEM_ACTIVATIONS] = 20 << 20;
    return plan;
}

static cadre_settings *resolved(void) {
    cadre_settings *set = defaults();
    cadre_facts facts = {.world = 2, .local_size = 2, .vocab = 65, .samples_per_epoch = 15685};
    OK(cadre_settings_set(set, "run.ranks", "2"));
    OK(cadre_settings_resolve(set, &facts));
    return set;
}

static void the_plan_says_its_arithmetic(void **state) {
    (void)state;
    cadre_plan plan = small_plan();
    cadre_settings *set = resolved();
    cadre_text text = {0};
    OK(cadre_plan_text(&plan, set, "runs/x", &text));
    assert_non_null(strstr(text.at, "run         runs/x\n"));
    assert_non_null(strstr(text.at, "mesh        dp 2 = 2 ranks"));
    assert_non_null(strstr(text.at, ": 804,096 parameters\n"));
    assert_non_null(strstr(text.at, "batch       12 = micro_batch 6 x dp 2 x accumulation 1"));
    assert_non_null(strstr(text.at, "steps       2000 = 1.53 epochs"));
    assert_non_null(strstr(text.at, "parameters 3.0 MiB  activations 20.0 MiB  = 23.0 MiB a rank"));
    assert_non_null(strstr(text.at, "traffic     dp: 3.1 MiB in 2 buckets a step"));
    assert_non_null(strstr(text.at, "lr 0.0006,"));
    assert_null(strstr(text.at, "recompute"));
    cadre_text_free(&text);
    OK(cadre_settings_set(set, "train.recompute", "auto"));
    OK(cadre_settings_set(set, "train.memory_limit", "24MiB"));
    OK(cadre_plan_text(&plan, set, "runs/x", &text));
    assert_non_null(strstr(text.at, "= 23.0 MiB a rank, of 24.0 MiB allowed\n"));
    assert_non_null(strstr(
        text.at,
        "recompute   auto: 3 of 6 blocks, 0.35 GFLOP a step more over all ranks (10.0 %)\n"));
    cadre_text_free(&text);
    cadre_settings_close(&set);
}

static void a_scaled_rate_shows_its_origin(void **state) {
    (void)state;
    cadre_plan plan = small_plan();
    cadre_settings *set = defaults();
    cadre_facts facts = {.world = 2, .local_size = 2, .vocab = 65, .samples_per_epoch = 15685};
    cadre_text text = {0};
    OK(cadre_settings_set(set, "run.ranks", "2"));
    OK(cadre_settings_set(set, "train.batch", "48"));
    OK(cadre_settings_set(set, "optim.scale_lr", "linear"));
    OK(cadre_settings_set(set, "optim.base_batch", "12"));
    OK(cadre_settings_resolve(set, &facts));
    plan.lr_scaled_from = 6e-4;
    OK(cadre_plan_text(&plan, set, NULL, &text));
    assert_non_null(
        strstr(text.at, "lr 0.0024 = 0.0006 x 4 (scale_lr linear, batch 48 / base_batch 12)"));
    cadre_text_free(&text);
    cadre_settings_close(&set);
}

static void the_plan_as_json(void **state) {
    (void)state;
    cadre_plan plan = small_plan();
    cadre_settings *set = resolved();
    cadre_text text = {0};
    OK(cadre_plan_json(&plan, set, &text));
    json_t *root = json_loads(text.at, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "schema")), 1);
    assert_int_equal(json_integer_value(json_object_get(root, "parameters")), 804096);
    const json_t *bytes = json_object_get(root, "bytes_per_rank");
    assert_int_equal(json_integer_value(json_object_get(bytes, "activations")), 20 << 20);
    assert_int_equal(json_integer_value(json_object_get(bytes, "total")), 23 << 20);
    assert_true(json_number_value(json_object_get(root, "flops_per_step")) == 3.5e9);
    const json_t *again = json_object_get(root, "recompute");
    assert_int_equal(json_integer_value(json_object_get(again, "blocks")), 3);
    assert_int_equal(json_integer_value(json_object_get(again, "of")), 6);
    assert_true(json_number_value(json_object_get(again, "flops_per_step")) == 0.35e9);
    const json_t *dp = json_object_get(json_object_get(root, "traffic"), "dp");
    assert_int_equal(json_integer_value(json_object_get(dp, "bytes")), 3216384);
    json_decref(root);
    cadre_text_free(&text);
    cadre_settings_close(&set);
    assert_int_equal(cadre_live_bytes(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_list_by_prefix),
        cmocka_unit_test(the_man_page_has_everything),
        cmocka_unit_test(bash_completes),
        cmocka_unit_test(the_plan_says_its_arithmetic),
        cmocka_unit_test(a_scaled_rate_shows_its_origin),
        cmocka_unit_test(the_plan_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
