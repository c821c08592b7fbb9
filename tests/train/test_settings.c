/* SPDX-License-Identifier: Apache-2.0
 *
 * The defaults of interface.md, section 3, every one of them; what is worked out from what; what is
 * refused and in which words.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpus.h"
#include "support/check.h"
#include "train/resolve.h"

/* `value` NULL: unset. `resolved` NULL: as `value`. One rank, no data. */
static const struct {
    const char *name, *value, *resolved;
} defaults[] = {
    {"model.kind", "gpt2", NULL},
    {"model.layers", NULL, "4"},
    {"model.heads", NULL, "4"},
    {"model.width", NULL, "128"},
    {"model.ffn_width", NULL, "512"},
    {"model.context", NULL, "64"},
    {"model.dropout", "0", NULL},
    {"model.tied", "true", NULL},
    {"model.batchnorm", "sync", NULL},
    {"model.from", NULL, NULL},
    {"data.train", NULL, NULL},
    {"data.valid", NULL, NULL},
    {"data.format", "auto", NULL},
    {"data.tokenizer", "char", NULL},
    {"data.dtype", "uint16", NULL},
    {"data.shuffle", "true", NULL},
    {"train.steps", "2000", NULL},
    {"train.epochs", NULL, NULL},
    {"train.batch", "12", NULL},
    {"train.micro_batch", NULL, "12"},
    {"train.context", NULL, "64"},
    {"train.seed", "1", NULL},
    {"train.eval_every", NULL, "200"},
    {"train.eval_samples", "0", NULL},
    {"train.recompute", "none", NULL},
    {"train.memory_limit", NULL, NULL},
    {"train.canonical", "false", NULL},
    {"optim.kind", "adamw", NULL},
    {"optim.lr", NULL, "6e-4"},
    {"optim.min_lr", NULL, "6e-5"},
    {"optim.schedule", "cosine", NULL},
    {"optim.warmup_steps", NULL, "100"},
    {"optim.decay_steps", NULL, "2000"},
    {"optim.beta1", "0.9", NULL},
    {"optim.beta2", "0.95", NULL},
    {"optim.eps", "1e-8", NULL},
    {"optim.weight_decay", "0.1", NULL},
    {"optim.clip", "1.0", NULL},
    {"optim.label_smoothing", "0", NULL},
    {"optim.scale_lr", "none", NULL},
    {"optim.base_batch", NULL, NULL},
    {"optim.decay", NULL, NULL},
    {"optim.freeze", NULL, NULL},
    {"optim.nonfinite", "stop", NULL},
    {"precision.compute", "f32", NULL},
    {"precision.reduce", "f32", NULL},
    {"parallel.dp", NULL, "1"},
    {"parallel.tp", "1", NULL},
    {"parallel.pp", "1", NULL},
    {"parallel.cp", "1", NULL},
    {"parallel.zero", "0", NULL},
    {"parallel.bucket_bytes", "26214400", NULL},
    {"parallel.first_bucket_bytes", NULL, "1048576"},
    {"parallel.overlap", "true", NULL},
    {"comm.transport", "auto", NULL},
    {"comm.timeout", "5min", NULL},
    {"comm.warn_after", "30s", NULL},
    {"checkpoint.every", "10min", NULL},
    {"checkpoint.keep", "3", NULL},
    {"checkpoint.resume", "auto", NULL},
    {"checkpoint.async", "false", NULL},
    {"run.ranks", NULL, "1"},
    {"run.pin", "true", NULL},
    {"run.dir", "runs", NULL},
    {"run.name", NULL, "run"},
    {"run.console", "auto", NULL},
    {"run.tensorboard", "true", NULL},
    {"run.trace", NULL, NULL},
    {"run.exit_on_signal", "75", NULL},
    {"run.device", "cpu", NULL},
};

/* Every key that interface.md promises has a row, whatever its default. */
static const char *const promised[] = {
    "model.preset",      "model.kv_heads",    "model.head_dim",       "model.vocab",
    "model.norm_eps",    "model.rope_theta",  "data.valid_fraction",  "data.verify",
    "data.augment",      "data.workers",      "optim.momentum",       "optim.nesterov",
    "parallel.sequence", "parallel.replicas", "parallel.prefetch",    "parallel.offload",
    "parallel.schedule", "parallel.chunks",   "parallel.check_every", "run.threads",
    "run.log_every",
};

static bool same(const char *a, const char *b) {
    double x, y;
    int64_t m, n;
    if (!a || !b) return a == b;
    if (strcmp(a, b) == 0) return true;
    if (cadre_parse_f64(a, &x) && cadre_parse_f64(b, &y)) return fabs(x - y) <= 1e-12 * fabs(y);
    return cadre_parse_bytes(a, &m) && cadre_parse_bytes(b, &n) && m == n;
}

static void every_default(void **state) {
    (void)state;
    cadre_settings *set = NULL;
    OK(cadre_settings_open(&set, NULL));
    for (int i = 0; i < CADRE_COUNT(defaults); i++) {
        const char *got = cadre_settings_get(set, defaults[i].name);
        if (same(got, defaults[i].value)) continue;
        fail_msg("%s is %s by default, not %s", defaults[i].name, got ? got : "unset",
                 defaults[i].value ? defaults[i].value : "unset");
    }
    OK(cadre_settings_resolve(set, NULL));
    for (int i = 0; i < CADRE_COUNT(defaults); i++) {
        const char *want = defaults[i].resolved ? defaults[i].resolved : defaults[i].value;
        const char *got = cadre_settings_get(set, defaults[i].name);
        if (same(got, want)) continue;
        fail_msg("%s becomes %s, not %s", defaults[i].name, got ? got : "unset",
                 want ? want : "unset");
    }
    for (int i = 0; i < CADRE_COUNT(promised); i++) {
        bool there = false;
        for (int k = 0; k < cadre_settings_count(set); k++) {
            cadre_setting_view v;
            cadre_settings_view(set, k, &v);
            there = there || strcmp(v.row->name, promised[i]) == 0;
        }
        if (!there) fail_msg("there is no setting %s", promised[i]);
    }
    cadre_settings_close(&set);
}

/* ---- what is worked out ---- */

typedef struct given {
    const char *pairs[10]; /* name, value ..., NULL */
} given;

static cadre_settings *opened(const given *g) {
    cadre_settings *set = NULL;
    OK(cadre_settings_open(&set, NULL));
    for (int i = 0; g->pairs[i]; i += 2) OK(cadre_settings_set(set, g->pairs[i], g->pairs[i + 1]));
    return set;
}

static void worked_out(void **state) {
    (void)state;
    static const struct {
        given g;
        cadre_facts facts;
        const char *name, *value;
    } rows[] = {
        {{{"parallel.dp", "3", NULL}}, {0}, "run.ranks", "3"},
        {{{"run.ranks", "4", NULL}}, {0}, "parallel.dp", "4"},
        {{{"run.ranks", "4", NULL}}, {0}, "train.micro_batch", "3"},
        {{{"train.micro_batch", "5", NULL}}, {.world = 3}, "train.batch", "15"},
        {{{"train.micro_batch", "2", "train.batch", "12", NULL}},
         {.world = 3},
         "train.batch",
         "12"},
        {{{"train.steps", "500", NULL}}, {0}, "optim.warmup_steps", "50"},
        {{{"train.steps", "500", NULL}}, {0}, "optim.decay_steps", "500"},
        {{{"train.steps", "5", NULL}}, {0}, "train.eval_every", "1"},
        {{{"train.epochs", "2", NULL}}, {.samples_per_epoch = 100}, "train.steps", "17"},
        {{{"train.epochs", "0.6", NULL}}, {.samples_per_epoch = 100}, "train.steps", "5"},
        {{{"train.epochs", "2", NULL}}, {.samples_per_epoch = 100}, "optim.warmup_steps", "1"},
        {{{"data.train", "books/old one.txt", NULL}}, {0}, "run.name", "old one"},
        {{{"data.train", "books/", NULL}}, {0}, "run.name", "books"},
        {{{"parallel.bucket_bytes", "64KiB", NULL}}, {0}, "parallel.first_bucket_bytes", "65536"},
        {{{"optim.lr", "1e-3", NULL}}, {0}, "optim.min_lr", "1e-4"},
        {{{"model.preset", "gpt2-124m", NULL}}, {0}, "model.layers", "12"},
        {{{"model.preset", "gpt2-124m", "model.layers", "3", NULL}}, {0}, "model.layers", "3"},
        {{{"model.width", "64", NULL}}, {0}, "model.ffn_width", "256"},
        {{{NULL}}, {.vocab = 65}, "model.vocab", "65"},
    };
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        cadre_settings *set = opened(&rows[i].g);
        OK(cadre_settings_resolve(set, &rows[i].facts));
        const char *got = cadre_settings_get(set, rows[i].name);
        if (!same(got, rows[i].value))
            fail_msg("row %d: %s is %s, not %s", i, rows[i].name, got ? got : "unset",
                     rows[i].value);
        cadre_settings_close(&set);
    }
}

static void threads_share_the_cores(void **state) {
    (void)state;
    const given none = {{NULL}};
    for (int local = 1; local <= 4; local++) {
        char want[16];
        int each = cadre_cpus_count() / local;
        cadre_settings *set = opened(&none);
        const cadre_facts facts = {.world = local == 3 ? 3 : local, .local_size = local};
        OK(cadre_settings_resolve(set, &facts));
        snprintf(want, sizeof want, "%d", each > 0 ? each : 1);
        assert_string_equal(cadre_settings_get(set, "run.threads"), want);
        cadre_settings_close(&set);
    }
}

/* With recompute=auto a rank may take its share of this machine's memory. */
static void memory_is_shared_too(void **state) {
    (void)state;
    const given rows[] = {{{NULL}},
                          {{"train.recompute", "auto", NULL}},
                          {{"train.recompute", "auto", "train.memory_limit", "3GiB", NULL}}};
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        cadre_settings *set = opened(&rows[i]);
        const cadre_facts facts = {.world = 2, .local_size = 2};
        double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
        OK(cadre_settings_resolve(set, &facts));
        const char *limit = cadre_settings_get(set, "train.memory_limit");
        if (i == 0) assert_null(limit);
        if (i == 1) assert_true(strtod(limit, NULL) == machine / 2);
        if (i == 2) assert_string_equal(limit, "3GiB");
        assert_int_equal(cadre_settings_given(set, "train.memory_limit"), i == 2);
        cadre_settings_close(&set);
    }
}

/* ---- what is refused ---- */

static void refused(void **state) {
    (void)state;
    static const struct {
        given g;
        cadre_facts facts;
        const char *part;
    } rows[] = {
        {{{"train.steps", "5", "train.epochs", "1", NULL}}, {0}, "give one of them"},
        {{{"train.batch", "10", NULL}}, {.world = 3}, "nearest: 9 or 12"},
        {{{"train.batch", "2", NULL}}, {.world = 3}, "nearest: 3"},
        {{{"train.batch", "12", "train.micro_batch", "5", NULL}}, {0}, "train.micro_batch"},
        {{{"train.context", "65", NULL}}, {0}, "model.context=64"},
        {{{"run.ranks", "4", NULL}}, {.world = 2}, "2 ranks were started"},
        {{{"run.ranks", "4", "parallel.dp", "3", NULL}}, {0}, "parallel.dp=3"},
        {{{"data.valid", "v.txt", "data.valid_fraction", "0.2", NULL}}, {0}, "give one of them"},
        {{{"precision.compute", "bf16", "run.device", "ref", NULL}}, {0}, "fast kernels"},
        {{{"precision.compute", "f64", NULL}}, {0}, "run.device=ref"},
        {{{"run.device", "gpu", NULL}}, {0}, "cpu, ref"},
        {{{"run.name", "a/b", NULL}}, {0}, "without slashes"},
        {{{"model.heads", "5", NULL}}, {0}, "heads"},
        {{{"optim.kind", "sgd", NULL}}, {0}, "optim.lr"},
        {{{"optim.kind", "lamb", "optim.lr", "1", NULL}}, {0}, "lamb"},
        {{{"optim.scale_lr", "linear", NULL}}, {0}, "optim.base_batch"},
        {{{"optim.momentum", "0.9", NULL}}, {0}, "optim.kind"},
        {{{"model.rope_theta", "1e4", NULL}}, {0}, "model.kind"},
    };
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        cadre_settings *set = opened(&rows[i].g);
        FAILS(cadre_settings_resolve(set, &rows[i].facts), CADRE_EUSAGE, rows[i].part);
        cadre_settings_close(&set);
    }
}

/* What issue 3 leaves out is in the table, and anything but its default is refused when it is set.
 */
static void later(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"train.canonical", "true"},  {"parallel.zero", "1"}, {"parallel.tp", "2"},
        {"parallel.pp", "2"},         {"parallel.cp", "2"},   {"parallel.sequence", "true"},
        {"checkpoint.async", "true"},
    };
    cadre_settings *set = NULL;
    OK(cadre_settings_open(&set, NULL));
    for (int i = 0; i < CADRE_COUNT(rows); i++)
        FAILS(cadre_settings_set(set, rows[i][0], rows[i][1]), CADRE_EUSAGE, rows[i][0]);
    FAILS(cadre_settings_set(set, "optim.warmup", "3"), CADRE_EUSAGE, "optim.warmup_steps");
    FAILS(cadre_settings_set(set, "train.stepz", "3"), CADRE_EUSAGE, "train.steps");
    cadre_settings_close(&set);
}

/* ---- the run file and a second run ---- */

static void names_after_the_run_file(void **state) {
    (void)state;
    const char *yaml = "train:\n  steps: 7\n";
    cadre_settings *set = NULL;
    char *path = temp_file(temp_folder(), "shakespeare.yaml", yaml, strlen(yaml));
    OK(cadre_settings_open(&set, path));
    OK(cadre_settings_set(set, "data.train", "other.txt"));
    OK(cadre_settings_resolve(set, NULL));
    assert_string_equal(cadre_settings_get(set, "run.name"), "shakespeare");
    assert_string_equal(cadre_settings_get(set, "train.steps"), "7");
    OK(cadre_settings_set(set, "train.steps", "9"));
    assert_string_equal(cadre_settings_get(set, "train.steps"), "9");
    cadre_settings_close(&set);
    free(path);
}

static void written_file_repeats_the_run(void **state) {
    (void)state;
    const given g = {
        {"train.steps", "500", "optim.lr", "1e-3", "data.train", "a.txt", "run.name", "x", NULL}};
    cadre_settings *set = opened(&g), *again = NULL;
    cadre_text text = {0};
    const cadre_facts two = {.world = 2, .vocab = 65}, one = {.world = 1, .vocab = 65};
    OK(cadre_settings_resolve(set, &two));
    cadre_settings_write(set, &text);
    OK(text.status);
    OK(cadre_settings_open(&again, NULL));
    OK(cadre_settings_read(again, text.at, text.length, "settings.yaml", CADRE_FROM_FILE));
    OK(cadre_settings_resolve(again, &one));
    assert_string_equal(cadre_settings_get(again, "train.steps"), "500");
    assert_string_equal(cadre_settings_get(again, "run.ranks"), "1");
    OK(cadre_settings_same_run(set, again, "x"));
    cadre_text_free(&text);
    cadre_settings_close(&again);
    cadre_settings_close(&set);
}

static void a_second_run_may_differ(void **state) {
    (void)state;
    static const struct {
        const char *name, *value;
        bool allowed;
    } rows[] = {
        {"run.ranks", "2", true},
        {"train.steps", "4000", true},
        {"train.micro_batch", "6", true},
        {"train.eval_every", "7", true},
        {"train.eval_samples", "7", true},
        {"parallel.overlap", "false", true},
        {"comm.timeout", "1min", true},
        {"checkpoint.keep", "9", true},
        {"run.threads", "3", true},
        {"optim.lr", "0.001", true},
        {"optim.lr", "1e-2", false},
        {"train.seed", "2", false},
        {"train.batch", "24", false},
        {"model.layers", "5", false},
        {"data.shuffle", "false", false},
        {"optim.warmup_steps", "3", false},
        {"optim.warmup_steps", "100", true},
        {"train.context", "32", false},
    };
    for (int i = 0; i < CADRE_COUNT(rows); i++) {
        const given g = {{"optim.lr", "1e-3", "data.train", "a.txt", "train.batch", "12", NULL}};
        cadre_settings *before = opened(&g), *now = opened(&g);
        cadre_text yaml = {0};
        OK(cadre_settings_resolve(before, NULL));
        cadre_settings_write(before, &yaml);
        OK(cadre_settings_set(now, rows[i].name, rows[i].value));
        OK(cadre_settings_resolve(now, NULL));
        if (rows[i].allowed)
            OK(cadre_settings_check_resume(now, yaml.at, "runs/x"));
        else
            FAILS(cadre_settings_check_resume(now, yaml.at, "runs/x"), CADRE_EUSAGE, rows[i].name);
        cadre_text_free(&yaml);
        cadre_settings_close(&before);
        cadre_settings_close(&now);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_default),
        cmocka_unit_test(worked_out),
        cmocka_unit_test(threads_share_the_cores),
        cmocka_unit_test(memory_is_shared_too),
        cmocka_unit_test(refused),
        cmocka_unit_test(later),
        cmocka_unit_test(names_after_the_run_file),
        cmocka_unit_test(written_file_repeats_the_run),
        cmocka_unit_test(a_second_run_may_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
