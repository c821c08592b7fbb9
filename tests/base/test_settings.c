/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings table: sources, types, complaints, kinds, YAML, the written file and its way back.
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/settings.h"
#include "support/check.h"

typedef struct model_cfg {
    int kind;
    int64_t layers, kv_heads;
    double dropout;
    bool tied;
    const char *from;
} model_cfg;

typedef struct optim_cfg {
    int kind;
    double lr, beta1, momentum, clip;
    int64_t warmup_steps, bucket_bytes, timeout, tp;
    cadre_every every;
    cadre_list decay;
    bool canonical;
} optim_cfg;

#define MODEL(key) .name = "model." #key, .offset = offsetof(model_cfg, key)
#define OPTIM(key) .name = "optim." #key, .offset = offsetof(optim_cfg, key)

static const cadre_setting model_rows[] = {
    {MODEL(kind), .type = CADRE_SET_CHOICE, .fallback = "gpt2", .choices = "gpt2|mlp|llama"},
    {MODEL(layers), .type = CADRE_SET_INT, .fallback = "4", .low = 1, .high = 1000},
    {MODEL(kv_heads), .type = CADRE_SET_INT, .derived = "heads", .of = "model.kind=llama"},
    {MODEL(dropout), .type = CADRE_SET_REAL, .fallback = "0", .low = 0, .high = 0.9},
    {MODEL(tied), .type = CADRE_SET_BOOL, .fallback = "true", .of = "model.kind=gpt2|llama"},
    {MODEL(from), .type = CADRE_SET_TEXT, .derived = "none"},
};
static const cadre_setting optim_rows[] = {
    {OPTIM(kind), .type = CADRE_SET_CHOICE, .fallback = "adamw", .choices = "adamw|sgd"},
    {OPTIM(lr), .type = CADRE_SET_REAL, .derived = "6e-4 for adamw", .low = 0, .high = 1e30},
    {OPTIM(beta1), .type = CADRE_SET_REAL, .fallback = "0.9", .of = "optim.kind=adamw"},
    {OPTIM(momentum), .type = CADRE_SET_REAL, .fallback = "0.9", .of = "optim.kind=sgd"},
    {OPTIM(clip), .type = CADRE_SET_REAL, .fallback = "1.0"},
    {OPTIM(warmup_steps), .type = CADRE_SET_INT, .derived = "min(100, steps / 10)"},
    {OPTIM(bucket_bytes), .type = CADRE_SET_BYTES, .fallback = "25MiB", .low = 1024,
     .high = 0x1p30},
    {OPTIM(timeout), .type = CADRE_SET_TIME, .fallback = "5min", .low = 1000, .high = 86400000},
    {OPTIM(tp), .type = CADRE_SET_INT, .fallback = "1",
     .later = "tensor parallelism is not built yet"},
    {OPTIM(every), .type = CADRE_SET_EVERY, .fallback = "10min"},
    {OPTIM(decay), .type = CADRE_SET_LIST, .fallback = "*.weight, embed*"},
    {OPTIM(canonical), .type = CADRE_SET_BOOL, .fallback = "false",
     .later = "canonical is not built"},
};
static const cadre_setting_table model_table = {"model", model_rows, CADRE_COUNT(model_rows)};
static const cadre_setting_table optim_table = {"optim", optim_rows, CADRE_COUNT(optim_rows)};
static const cadre_setting_table *const tables[] = {&model_table, &optim_table};

static cadre_settings *make(void) {
    cadre_settings *set = NULL;
    OK(cadre_settings_make(&set, tables, 2));
    return set;
}

static cadre_status read(cadre_settings *set, const char *yaml) {
    return cadre_settings_read(set, yaml, strlen(yaml), "run.yaml", CADRE_FROM_FILE);
}

static void is(const cadre_settings *set, const char *name, const char *want) {
    const char *got = cadre_settings_get(set, name);
    if (want && got && strcmp(got, want) == 0) return;
    if (want || got) fail_msg("%s is %s, not %s", name, got ? got : "unset", want ? want : "unset");
}

static void defaults_fill_the_structs(void **state) {
    (void)state;
    cadre_settings *set = make();
    model_cfg m;
    optim_cfg o;
    memset(&m, 0xff, sizeof m);
    memset(&o, 0xff, sizeof o);
    OK(cadre_settings_fill(set, &model_table, &m));
    OK(cadre_settings_fill(set, &optim_table, &o));
    assert_int_equal(m.kind, 0);
    assert_int_equal(m.layers, 4);
    assert_int_equal(m.kv_heads, CADRE_UNSET);
    assert_true(m.dropout == 0 && m.tied);
    assert_null(m.from);
    assert_true(isnan(o.lr) && o.beta1 == 0.9);
    assert_int_equal(o.bucket_bytes, 25 << 20);
    assert_int_equal(o.timeout, 300000);
    assert_int_equal(o.every.ms, 600000);
    assert_int_equal(o.every.steps, 0);
    assert_int_equal(o.decay.count, 2);
    assert_string_equal(o.decay.at[0], "*.weight");
    assert_string_equal(o.decay.at[1], "embed*");
    assert_false(cadre_settings_given(set, "optim.lr"));
    cadre_settings_close(&set);
    assert_null(set);
    cadre_settings_close(&set);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void stronger_sources_win(void **state) {
    (void)state;
    cadre_settings *set = make();
    OK(cadre_settings_put(set, "model.layers", "12", CADRE_FROM_PRESET, NULL));
    is(set, "model.layers", "12");
    OK(cadre_settings_set(set, "model.layers", "5"));
    OK(read(set, "model: {layers: 7, dropout: 0.1}\n"));
    OK(cadre_settings_put(set, "model.layers", "13", CADRE_FROM_PRESET, NULL));
    OK(cadre_settings_put(set, "model.dropout", "0.5", CADRE_FROM_PRESET, NULL));
    is(set, "model.layers", "5");
    is(set, "model.dropout", "0.1");
    OK(cadre_settings_set(set, "model.layers", "6")); /* twice: the last counts */
    is(set, "model.layers", "6");
    FAILS(cadre_settings_put(set, "model.layers", "x", CADRE_FROM_PRESET, NULL), CADRE_EUSAGE,
          "whole number"); /* checked also where it is overruled */
    cadre_setting_view v;
    cadre_settings_view(set, 3, &v);
    assert_string_equal(v.row->name, "model.dropout");
    assert_string_equal(v.where, "run.yaml line 1");
    assert_int_equal(v.source, CADRE_FROM_FILE);
    assert_false(v.derived);
    assert_int_equal(cadre_settings_count(set), CADRE_COUNT(model_rows) + CADRE_COUNT(optim_rows));
    cadre_settings_close(&set);
}

static void complaints_say_what_is_accepted(void **state) {
    (void)state;
    static const struct {
        const char *name, *value, *part;
    } rows[] = {
        {"model.kind", "gpt3", "model.kind=gpt3: it takes one of gpt2, mlp, llama"},
        {"model.kind", "gpt", "one of gpt2, mlp, llama"},
        {"model.layers", "four", "model.layers=four: it takes a whole number"},
        {"model.layers", "0", "a whole number from 1 to 1000"},
        {"model.layers", "1001", "a whole number from 1 to 1000"},
        {"model.layers", "2.5", "a whole number"},
        {"model.dropout", "0.95", "a number from 0 to 0.9"},
        {"model.dropout", "nan", "a number"},
        {"model.tied", "maybe", "true or false"},
        {"optim.lr", "-1", "a number of at least 0"},
        {"optim.bucket_bytes", "12 apples", "a size like 25MiB"},
        {"optim.bucket_bytes", "1000", "from 1.0 KiB to 1.0 GiB"},
        {"optim.timeout", "5parsecs", "a time like 30s"},
        {"optim.timeout", "1ms", "from 1s to 86400s"},
        {"optim.every", "often", "a time like 10min or a number of steps"},
        {"optim.every", "-3", "a number of steps"},
        {"optim.tp", "2", "optim.tp=2: tensor parallelism is not built yet"},
        {"optim.canonical", "yes", "canonical is not built"},
    };
    cadre_settings *set = make();
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        FAILS(cadre_settings_set(set, rows[i].name, rows[i].value), CADRE_EUSAGE, rows[i].part);
        assert_false(cadre_settings_given(set, rows[i].name));
    }
    OK(cadre_settings_set(set, "optim.tp", "1.0")); /* the default in other words */
    OK(cadre_settings_set(set, "optim.canonical", "no"));
    FAILS(cadre_settings_put(set, "model.layers", "x", CADRE_FROM_FILE, "a.yaml line 3"),
          CADRE_EUSAGE, "a.yaml line 3: model.layers=x");
    FAILS(cadre_settings_set(set, NULL, "x"), CADRE_EUSAGE, "a name and a value");
    cadre_settings_close(&set);
}

static void unknown_names_get_the_nearest(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"model.layer", "model.layers"},
        {"model.lyaers", "model.layers"},
        {"optim.warmup", "optim.warmup_steps"},
        {"optim.layers", "model.layers"},
        {"lr", "optim.lr"},
        {"optm.lr", "optim.lr"},
        {"optim.momentun", "optim.momentum"},
        {"layers", "model.layers"},
        {"optim.bucketbytes", "optim.bucket_bytes"},
    };
    cadre_settings *set = make();
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        char part[128];
        snprintf(part, sizeof part, "unknown setting %s; did you mean %s?", rows[i][0], rows[i][1]);
        FAILS(cadre_settings_set(set, rows[i][0], "1"), CADRE_EUSAGE, part);
    }
    FAILS(cadre_settings_set(set, "zzzzz.qqqqq", "1"), CADRE_EUSAGE, "`cadre settings` lists all");
    FAILS(cadre_settings_set(set, "", "1"), CADRE_EUSAGE, "unknown setting");
    assert_null(cadre_settings_nearest(set, "zzzzz.qqqqq"));
    assert_null(cadre_settings_get(set, "zzzzz.qqqqq"));
    cadre_settings_close(&set);
}

static void null_unsets(void **state) {
    (void)state;
    cadre_settings *set = make();
    optim_cfg o;
    model_cfg m;
    OK(read(set,
            "optim: {lr: 1, clip: null, every: ~, decay: [a, b]}\nmodel: {kind: null, tied: ~}"));
    is(set, "optim.clip", NULL);
    is(set, "optim.every", NULL);
    OK(cadre_settings_set(set, "optim.lr", ""));
    is(set, "optim.lr", NULL);
    OK(cadre_settings_set(set, "optim.decay", "null"));
    OK(cadre_settings_fill(set, &optim_table, &o));
    OK(cadre_settings_fill(set, &model_table, &m));
    assert_true(isnan(o.clip) && isnan(o.lr));
    assert_true(o.every.ms == 0 && o.every.steps == 0);
    assert_int_equal(o.decay.count, 0);
    assert_true(m.kind == 0 && m.tied); /* these always have a value */
    is(set, "model.kind", "gpt2");
    OK(cadre_settings_put(set, "optim.clip", "2", CADRE_FROM_PRESET, NULL));
    is(set, "optim.clip", NULL); /* weaker */
    OK(cadre_settings_set(set, "optim.clip", "3"));
    is(set, "optim.clip", "3");
    cadre_settings_close(&set);
}

static void derived_values_stand_behind_given_ones(void **state) {
    (void)state;
    cadre_settings *set = make();
    optim_cfg o;
    OK(cadre_settings_derive(set, "optim.warmup_steps", "%d", 77));
    is(set, "optim.warmup_steps", "77");
    assert_false(cadre_settings_given(set, "optim.warmup_steps"));
    OK(cadre_settings_fill(set, &optim_table, &o));
    assert_int_equal(o.warmup_steps, 77);
    OK(cadre_settings_set(set, "optim.warmup_steps", "5"));
    OK(cadre_settings_derive(set, "optim.warmup_steps", "%d", 78));
    is(set, "optim.warmup_steps", "5");
    assert_true(cadre_settings_given(set, "optim.warmup_steps"));
    OK(cadre_settings_derive(set, "optim.decay", "%s", "a, b"));
    is(set, "optim.decay", "a,b");
    FAILS(cadre_settings_derive(set, "model.layers", "%d", 0), CADRE_EUSAGE, "from 1 to 1000");
    FAILS(cadre_settings_derive(set, "model.nothing", "%d", 0), CADRE_EUSAGE, "unknown");
    cadre_settings_close(&set);
}

static void keys_of_another_kind(void **state) {
    (void)state;
    static const struct {
        const char *preset_kind, *file, *command_kind, *complaint;
    } rows[] = {
        {NULL, "model: {kind: gpt2, tied: true}", NULL, NULL},
        {NULL, "model: {kind: mlp, tied: true}", NULL,
         "run.yaml line 1: model.tied belongs to model.kind=gpt2|llama, but model.kind is mlp"},
        {NULL, "model: {kv_heads: 2}", NULL, "model.kv_heads belongs to model.kind=llama"},
        {"llama", "model: {kv_heads: 2}", NULL, NULL},
        {"mlp", "model: {tied: false}", NULL, "model.tied"},
        {NULL, "model: {tied: true}", "mlp", NULL}, /* a stronger source chose another kind */
        {NULL, "optim: {kind: sgd, momentum: 0.5}", NULL, NULL},
        {NULL, "optim: {momentum: 0.5}", NULL, "optim.momentum belongs to optim.kind=sgd"},
        {NULL, "optim: {kind: sgd}", NULL, NULL}, /* beta1's default is no key that was given */
    };
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        cadre_settings *set = make();
        if (rows[i].preset_kind) {
            OK(cadre_settings_put(set, "model.kind", rows[i].preset_kind, CADRE_FROM_PRESET, NULL));
            OK(cadre_settings_put(set, "model.tied", "true", CADRE_FROM_PRESET, NULL));
        }
        OK(read(set, rows[i].file));
        if (rows[i].command_kind) OK(cadre_settings_set(set, "model.kind", rows[i].command_kind));
        if (rows[i].complaint)
            FAILS(cadre_settings_check_kinds(set), CADRE_EUSAGE, rows[i].complaint);
        else
            OK(cadre_settings_check_kinds(set));
        cadre_settings_close(&set);
    }
}

static void lists_have_one_form_and_live_on(void **state) {
    (void)state;
    cadre_settings *set = make();
    optim_cfg first, second;
    OK(cadre_settings_set(set, "optim.decay", " a , b,,c "));
    is(set, "optim.decay", "a,b,c");
    OK(cadre_settings_fill(set, &optim_table, &first));
    OK(cadre_settings_fill(set, &optim_table, &second));
    assert_ptr_equal(first.decay.at, second.decay.at); /* both stay good */
    assert_int_equal(first.decay.count, 3);
    assert_string_equal(first.decay.at[2], "c");
    OK(cadre_settings_put(set, "optim.decay", "null", CADRE_FROM_COMMAND, NULL));
    cadre_settings_close(&set);
    set = make();
    OK(read(set, "optim:\n  decay:\n    - a\n    - b\n"));
    is(set, "optim.decay", "a,b");
    OK(read(set, "optim: {decay: ['x, y.txt', z]}"));
    OK(cadre_settings_fill(set, &optim_table, &first));
    assert_int_equal(first.decay.count, 2);
    assert_string_equal(first.decay.at[0], "x, y.txt");
    OK(read(set, "optim: {decay: ['one, two.txt']}"));
    OK(cadre_settings_fill(set, &optim_table, &first));
    assert_int_equal(first.decay.count, 1);
    assert_string_equal(first.decay.at[0], "one, two.txt");
    OK(read(set, "optim: {decay: []}"));
    OK(cadre_settings_fill(set, &optim_table, &first));
    assert_int_equal(first.decay.count, 0);
    cadre_settings_close(&set);
}

static void yaml_in_all_its_forms(void **state) {
    (void)state;
    cadre_settings *set = make();
    OK(read(set, ""));
    OK(read(set, "# a comment alone\n"));
    OK(read(set, "model:\noptim:\n"));
    OK(read(set, "--- # one document\nmodel:\n  layers: 8   # deep\n  from: \"a b # c\"\n"
                 "optim.lr: 1e-3\noptim: {kind: 'sgd', every: 50}\n"));
    is(set, "model.layers", "8");
    is(set, "model.from", "a b # c");
    is(set, "optim.lr", "1e-3");
    is(set, "optim.kind", "sgd");
    optim_cfg o;
    OK(cadre_settings_fill(set, &optim_table, &o));
    assert_int_equal(o.every.steps, 50);
    assert_int_equal(o.every.ms, 0);
    OK(read(set, "model: {layers: 3}")); /* another reading may give it again */
    is(set, "model.layers", "3");
    cadre_settings_close(&set);
}

static void yaml_that_cannot_be(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"model:\n  layers: 4\n  layer: 5\n",
         "run.yaml line 3: unknown setting model.layer; did you mean model.layers?"},
        {"modl:\n  layers: 4\n", "run.yaml line 1: unknown section modl; did you mean model?"},
        {"\n\nsomething: 1\n", "run.yaml line 3: unknown section something"},
        {"model:\n  layers: 4\n  layers: 5\n",
         "run.yaml line 3: model.layers is given twice, first in line 2"},
        {"model:\n  layers: null\nmodel.layers: 5\n", "given twice, first in line 2"},
        {"model:\n  layers: four\n", "run.yaml line 2: model.layers=four: it takes"},
        {"model: [a]\n", "run.yaml line 1: settings of the section are expected"},
        {"model: gpt2\n", "settings of the section are expected"},
        {"- a\n- b\n", "sections of settings are expected"},
        {"just words\n", "sections of settings are expected"},
        {"model:\n  layers: [1, 2]\n", "run.yaml line 2: a single value is expected, not a list"},
        {"model:\n  layers: {a: 1}\n", "run.yaml line 2: a value is expected, not a section"},
        {"optim:\n  decay:\n   - [a]\n", "run.yaml line 3: a list of plain values"},
        {"model:\n  block:\n    layers: 4\n", "unknown setting model.block"},
        {"? [a, b]\n: 1\n", "a section is expected to be a plain word"},
        {"model:\n  ? [a]\n  : 1\n", "a key is expected to be a plain word"},
        {"model: {layers: 4\n", "run.yaml line 2: not YAML: "},
        {"model:\n\tlayers: 4\n", "run.yaml line 2: not YAML: "},
        {"model: {layers: 4}\n---\nmodel: {layers: 5}\n", "run.yaml line 3: a second document"},
        {"model: {from: \"a\\0b\"}\n", "zero byte"},
        {"model: {from: *nobody}\n", "not YAML"},
        {"model: {from: \xff\xfe}\n", "not YAML"},
    };
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        cadre_settings *set = make();
        FAILS(read(set, rows[i][0]), CADRE_EUSAGE, rows[i][1]);
        cadre_settings_close(&set);
        assert_int_equal(cadre_live_bytes(), 0);
    }
}

static void run_files(void **state) {
    (void)state;
    cadre_settings *set = make();
    char *path = temp_file(temp_folder(), "run.yaml", "model: {layers: 11}\n", 20);
    OK(cadre_settings_read_file(set, path));
    is(set, "model.layers", "11");
    strcat(path, "x");
    FAILS(cadre_settings_read_file(set, path), CADRE_EUSAGE, "run.yamlx: No such file");
    cadre_error e;
    cadre_error_save(&e);
    assert_int_equal(e.status, CADRE_EUSAGE);
    free(path);
    cadre_settings_close(&set);
}

static void written(const cadre_settings *set, cadre_text *to) {
    cadre_settings_write(set, to);
    OK(to->status);
}

static void the_written_file_has_sources(void **state) {
    (void)state;
    cadre_settings *set = make();
    cadre_text t = {0};
    OK(cadre_settings_put(set, "model.layers", "12", CADRE_FROM_PRESET, NULL));
    OK(read(set, "optim:\n  kind: sgd\n  lr: 0.1\n"));
    OK(cadre_settings_set(set, "optim.clip", "null"));
    OK(cadre_settings_set(set, "optim.every", "7"));
    OK(cadre_settings_derive(set, "optim.warmup_steps", "%d", 100));
    written(set, &t);
    assert_string_equal(t.at, "model:\n"
                              "  kind: gpt2   # default\n"
                              "  layers: 12   # preset\n"
                              "  dropout: 0   # default\n"
                              "  tied: true   # default\n"
                              "  # from:   # unset: none\n"
                              "optim:\n"
                              "  kind: sgd   # run.yaml line 2\n"
                              "  lr: 0.1   # run.yaml line 3\n"
                              "  momentum: 0.9   # default\n"
                              "  clip: null   # command line\n"
                              "  # warmup_steps: 100   # derived: min(100, steps / 10)\n"
                              "  bucket_bytes: 25MiB   # default\n"
                              "  timeout: 5min   # default\n"
                              "  tp: 1   # default\n"
                              "  every: 7   # command line\n"
                              "  decay: ['*.weight', embed*]   # default\n"
                              "  canonical: false   # default\n");
    cadre_text_free(&t);
    cadre_settings_close(&set);
}

/* Whatever a text holds, it comes back. */
static void the_written_file_comes_back(void **state) {
    (void)state;
    static const char *const texts[] = {
        "plain",
        "two words",
        "it's",
        "a: b",
        "a #b",
        "#a",
        "'q'",
        "\"d\"",
        "- x",
        "-5",
        "*",
        "&x",
        "[a]",
        "{a}",
        "a, b",
        "a]b",
        "trailing:",
        "%x",
        "@x",
        "`x`",
        "!x",
        "|x",
        ">x",
        "? x",
        ": x",
        "true",
        "~x",
        "=",
        "<<",
        "tab\there",
        "line\nline",
        "\x01\x7f",
        "back\\slash",
        "\"\n\\\"",
        "M\xc3\xbcller/\xe2\x82\xac",
        " leading",
        "trailing ",
        "0x10",
        "1e3",
        "---",
        "...",
        "a\t#b",
        "C:\\dir",
        "~",
        "x{y}[z],w",
        "--- a",
        "Null",
        "\xe2\x80\xa8",
        "a\xe2\x80\xa9",
        "\xc2\x85x",
        "\xef\xbb\xbfx",
        "\xc3\xa9",
    };
    for (int i = 0; i < CADRE_COUNT(texts); i++) {
        cadre_settings *set = make(), *back = make();
        cadre_text t = {0};
        char two[256];
        OK(cadre_settings_set(set, "model.from", texts[i]));
        snprintf(two, sizeof two, "%s,second", texts[i]);
        OK(cadre_settings_set(set, "optim.decay", two));
        written(set, &t);
        OK(read(back, t.at));
        is(back, "model.from", texts[i]);
        is(back, "optim.decay", cadre_settings_get(set, "optim.decay"));
        optim_cfg a, b;
        OK(cadre_settings_fill(set, &optim_table, &a));
        OK(cadre_settings_fill(back, &optim_table, &b));
        assert_int_equal(a.decay.count, b.decay.count);
        for (int k = 0; k < a.decay.count; k++) assert_string_equal(a.decay.at[k], b.decay.at[k]);
        cadre_text_free(&t);
        cadre_settings_close(&set);
        cadre_settings_close(&back);
    }
    assert_int_equal(cadre_live_bytes(), 0);
}

static void all_values_come_back(void **state) {
    (void)state;
    cadre_settings *set = make(), *back = make();
    cadre_text t = {0};
    OK(read(
        set,
        "model: {kind: llama, layers: 3, kv_heads: 2, dropout: 0.25, tied: no, from: x/y}\n"
        "optim: {kind: sgd, lr: 1e-3, momentum: null, bucket_bytes: 64 KiB, decay: ['a, b', c]}"));
    OK(cadre_settings_set(set, "optim.clip", ""));
    OK(cadre_settings_derive(set, "optim.warmup_steps", "%d", 10));
    written(set, &t);
    OK(read(back, t.at));
    OK(cadre_settings_check_kinds(back)); /* what belongs to other kinds was left out */
    for (int i = 0; i < cadre_settings_count(set); i++) {
        cadre_setting_view a;
        cadre_settings_view(set, i, &a);
        if (!a.derived) is(back, a.row->name, a.value);
    }
    is(back, "optim.warmup_steps", NULL); /* to be worked out again */
    assert_false(cadre_settings_given(back, "optim.warmup_steps"));
    cadre_text_free(&t);
    cadre_settings_close(&set);
    cadre_settings_close(&back);
}

static void copies_are_their_own(void **state) {
    (void)state;
    cadre_settings *set = make(), *copy = NULL;
    OK(read(set, "model: {layers: 3, from: here}\noptim: {clip: null}\n"));
    OK(cadre_settings_derive(set, "optim.warmup_steps", "%d", 10));
    OK(cadre_settings_copy(&copy, set));
    OK(cadre_settings_set(set, "model.layers", "9"));
    cadre_settings_close(&set);
    is(copy, "model.layers", "3");
    is(copy, "model.from", "here");
    is(copy, "optim.clip", NULL);
    is(copy, "optim.warmup_steps", "10");
    FAILS(cadre_settings_set(copy, "model.layers", "0"), CADRE_EUSAGE, "from 1");
    cadre_settings_close(&copy);
}

static void tables_with_two_rows_of_one_name(void **state) {
    (void)state;
    static const cadre_setting_table *const twice[] = {&model_table, &model_table};
    cadre_settings *set = NULL;
    FAILS(cadre_settings_make(&set, twice, 2), CADRE_EINTERNAL, "model.kind");
    assert_null(set);
    OK(cadre_settings_make(&set, tables, 1));
    optim_cfg o;
    FAILS(cadre_settings_fill(set, &optim_table, &o), CADRE_EINTERNAL, "optim.kind");
    cadre_settings_close(&set);
}

static cadre_status a_life_of_settings(void) {
    cadre_settings *set = NULL, *copy = NULL;
    cadre_text t = {0};
    optim_cfg o;
    cadre_status st = cadre_settings_make(&set, tables, 2);
    if (!st) st = read(set, "model: {layers: 3}\noptim: {lr: 1, decay: [a, 'b, c']}\n");
    if (!st) st = cadre_settings_set(set, "model.layers", "4");
    if (!st) st = cadre_settings_derive(set, "optim.warmup_steps", "%d", 10);
    if (!st) st = cadre_settings_copy(&copy, set);
    if (!st) st = cadre_settings_fill(copy, &optim_table, &o);
    if (!st) cadre_settings_write(copy, &t);
    if (!st) st = t.status;
    cadre_text_free(&t);
    cadre_settings_close(&set);
    cadre_settings_close(&copy);
    return st;
}

static void every_kth_allocation_may_fail(void **state) {
    (void)state;
    int k = 0;
    for (;; k++) {
        cadre_fault_at(k);
        cadre_status st = a_life_of_settings();
        assert_int_equal(cadre_live_bytes(), 0);
        assert_int_equal(st, cadre_fault_hit() ? CADRE_ERESOURCE : CADRE_OK);
        if (!cadre_fault_hit()) break;
    }
    cadre_fault_at(-1);
    assert_true(k > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_fill_the_structs),
        cmocka_unit_test(stronger_sources_win),
        cmocka_unit_test(complaints_say_what_is_accepted),
        cmocka_unit_test(unknown_names_get_the_nearest),
        cmocka_unit_test(null_unsets),
        cmocka_unit_test(derived_values_stand_behind_given_ones),
        cmocka_unit_test(keys_of_another_kind),
        cmocka_unit_test(lists_have_one_form_and_live_on),
        cmocka_unit_test(yaml_in_all_its_forms),
        cmocka_unit_test(yaml_that_cannot_be),
        cmocka_unit_test(run_files),
        cmocka_unit_test(the_written_file_has_sources),
        cmocka_unit_test(the_written_file_comes_back),
        cmocka_unit_test(all_values_come_back),
        cmocka_unit_test(copies_are_their_own),
        cmocka_unit_test(tables_with_two_rows_of_one_name),
        cmocka_unit_test(every_kth_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
