/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run leaves in its folder: metrics.jsonl, the event file (read by a reader of its own
 * here), the trace, settings.yaml.
 */
#include "support/check.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "insight/insight.h"
#include "train/run_private.h"

/* A run that observers can ask, without anything that trains. */
static cadre_run *make_run(const char *trace) {
    cadre_run *run = calloc(1, sizeof *run);
    snprintf(run->folder, sizeof run->folder, "%s", temp_folder());
    run->cfg.run.tensorboard = true;
    run->cfg.run.trace = trace;
    return run;
}

static cadre_step_report report(int64_t step) {
    return (cadre_step_report){.step = step,
                               .steps = 100,
                               .unix_time = 1700000000.25,
                               .epoch = 0.5,
                               .samples = step * 12,
                               .tokens = step * 768,
                               .loss = 2.5 + 0.1 * (double)step,
                               .lr = 1e-3,
                               .grad_norm = 0.75,
                               .step_ms = 41.5,
                               .data_ms = 0.25,
                               .comm_ms = 2,
                               .exposed_ms = 1,
                               .tokens_per_s = 18000};
}

static char *contents(const char *folder, const char *name) {
    char path[CADRE_PATH];
    cadre_map map;
    OK(cadre_map_open(&map, cadre_join(path, sizeof path, folder, name)));
    char *text = calloc(1, map.bytes + 1);
    memcpy(text, map.data, map.bytes);
    cadre_map_close(&map);
    return text;
}

/* Parses every line; fills at most `room`. */
static int parse_lines(char *text, json_t **ret, int room) {
    int n = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *o = json_loads(line, 0, NULL);
        assert_non_null(o);
        assert_true(n < room);
        ret[n++] = o;
    }
    return n;
}

static void expect_keys(const json_t *object, const char *const *keys, int n) {
    const char *key;
    json_t *value;
    int i = 0;
    json_object_foreach((json_t *)object, key, value) {
        assert_true(i < n);
        assert_string_equal(key, keys[i++]);
    }
    assert_int_equal(i, n);
}

static void metrics_have_their_keys_in_order(void **state) {
    (void)state;
    static const char *const step_keys[] = {
        "step",      "time",    "epoch",   "samples", "tokens",     "loss",        "lr",
        "grad_norm", "step_ms", "data_ms", "comm_ms", "exposed_ms", "tokens_per_s"};
    static const char *const eval_keys[] = {"step", "time", "valid_loss", "valid_bits_per_byte"};
    static const char *const end_keys[] = {"step",
                                           "time",
                                           "end",
                                           "reason",
                                           "peak_measured_bytes",
                                           "peak_predicted_bytes",
                                           "measured_bytes",
                                           "predicted_bytes"};
    cadre_run *run = make_run(NULL);
    cadre_metrics *m = NULL;
    cadre_observer o;
    json_t *rows[8];
    OK(cadre_metrics_open(&m, &o));
    OK(o.start(o.self, run, NULL));
    cadre_step_report r = report(1);
    OK(o.step(o.self, &r));
    char *early = contents(run->folder, "metrics.jsonl"); /* flushed at once */
    assert_non_null(strstr(early, "\"tokens_per_s\": 18000.0}\n"));
    free(early);
    r.loss = NAN;
    r.grad_norm = INFINITY;
    r.skipped = true;
    OK(o.step(o.self, &r));
    OK(o.eval(o.self, &(cadre_eval_report){2, 1700000001.5, 1.25, 2.5, 1, true}));
    OK(o.eval(o.self, &(cadre_eval_report){2, 1700000001.5, 1.25, NAN, 1, true}));
    OK(o.end(o.self, &(cadre_end_report){.reason = CADRE_END_SIGTERM,
                                         .step = 2,
                                         .peak_measured_bytes = 5000000000,
                                         .peak_predicted_bytes = 4000000000,
                                         .measured_bytes[CADRE_MEM_LOADER] = 7}));
    cadre_metrics_close(&m);
    char *text = contents(run->folder, "metrics.jsonl");
    assert_int_equal(parse_lines(text, rows, 8), 5);
    expect_keys(rows[0], step_keys, CADRE_COUNT(step_keys));
    assert_true(json_real_value(json_object_get(rows[0], "loss")) == 2.6);
    assert_true(json_real_value(json_object_get(rows[0], "time")) == 1700000000.25);
    assert_int_equal(json_integer_value(json_object_get(rows[0], "tokens")), 768);
    assert_true(json_is_null(json_object_get(rows[1], "loss")));
    assert_true(json_is_true(json_object_get(rows[1], "loss_nonfinite")));
    assert_true(json_is_true(json_object_get(rows[1], "grad_norm_nonfinite")));
    assert_true(json_is_true(json_object_get(rows[1], "skipped")));
    expect_keys(rows[2], eval_keys, 4);
    expect_keys(rows[3], eval_keys, 3);
    expect_keys(rows[4], end_keys, CADRE_COUNT(end_keys));
    assert_string_equal(json_string_value(json_object_get(rows[4], "reason")), "sigterm");
    assert_int_equal(json_integer_value(json_object_get(rows[4], "peak_measured_bytes")),
                     5000000000);
    json_t *parts = json_object_get(rows[4], "measured_bytes");
    assert_int_equal(json_object_size(parts), CADRE_MEM_KINDS);
    assert_int_equal(json_integer_value(json_object_get(parts, "loader")), 7);
    for (int i = 0; i < 5; i++) json_decref(rows[i]);
    free(text);
    free(run);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void going_on_drops_what_lies_past(void **state) {
    (void)state;
    cadre_run *run = make_run(NULL);
    cadre_metrics *m = NULL;
    cadre_observer o;
    json_t *rows[16];
    OK(cadre_metrics_open(&m, &o));
    OK(o.start(o.self, run, NULL));
    for (int i = 1; i <= 6; i++) {
        cadre_step_report r = report(i);
        OK(o.step(o.self, &r));
        if (i == 4) OK(o.eval(o.self, &(cadre_eval_report){4, 1, 1.25, NAN, 1, true}));
    }
    OK(o.end(o.self, &(cadre_end_report){.reason = CADRE_END_SIGINT, .step = 4}));
    cadre_metrics_close(&m);
    char path[CADRE_PATH];
    FILE *torn = fopen(cadre_join(path, sizeof path, run->folder, "metrics.jsonl"), "a");
    fputs("{\"step\": 2, \"ti", torn); /* a crash in the middle of a line */
    fclose(torn);
    OK(cadre_metrics_open(&m, &o));
    OK(o.start(o.self, run, NULL));
    OK(o.resumed(o.self, run, 4));
    cadre_step_report r = report(5);
    OK(o.step(o.self, &r));
    cadre_metrics_close(&m);
    char *text = contents(run->folder, "metrics.jsonl");
    assert_int_equal(parse_lines(text, rows, 16), 6); /* 1 2 3 4, evaluation 4, 5 */
    static const int want[] = {1, 2, 3, 4, 4, 5};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(json_integer_value(json_object_get(rows[i], "step")), want[i]);
        json_decref(rows[i]);
    }
    free(text);
    free(run);
    assert_int_equal(cadre_live_bytes(), 0);
}

/* ---- a reader of event files, written from the format alone ---- */

static uint32_t crc_bit_by_bit(const uint8_t *data, size_t n) {
    uint32_t c = 0xffffffffu;
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            bool one = (c ^ (uint32_t)data[i] >> bit) & 1;
            c = c >> 1 ^ (one ? 0x82f63b78u : 0);
        }
    c = ~c;
    return ((c >> 15) | (c << 17)) + 0xa282ead8u;
}

typedef struct scalar {
    char tag[64];
    int64_t step;
    float value;
} scalar;

typedef struct cursor {
    const uint8_t *at, *end;
} cursor;

static uint64_t varint(cursor *c) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(c->at < c->end && shift < 64);
        value |= (uint64_t)(*c->at & 127) << shift;
        if (!(*c->at++ & 128)) return value;
    }
}

/* One field: its number and wire type; length-delimited ones give their inside. */
static int field(cursor *c, int *ret_wire, cursor *ret_inside, uint64_t *ret_number) {
    uint64_t key = varint(c);
    *ret_wire = (int)(key & 7);
    size_t n = *ret_wire == 1 ? 8 : *ret_wire == 5 ? 4 : 0;
    if (*ret_wire == 0) *ret_number = varint(c);
    if (*ret_wire == 2) n = varint(c);
    assert_true(n <= (size_t)(c->end - c->at));
    *ret_inside = (cursor){c->at, c->at + n};
    c->at += n;
    return (int)(key >> 3);
}

static void read_value(cursor c, scalar *s) {
    while (c.at < c.end) {
        int wire;
        uint64_t number;
        cursor inside;
        int f = field(&c, &wire, &inside, &number);
        if (f == 1)
            snprintf(s->tag, sizeof s->tag, "%.*s", (int)(inside.end - inside.at), inside.at);
        if (f == 2) memcpy(&s->value, inside.at, 4);
    }
}

static int read_event(cursor c, scalar *ret, int room, bool *ret_version, int64_t *ret_restart) {
    int64_t step = 0;
    int n = 0;
    while (c.at < c.end) {
        int wire;
        uint64_t number = 0;
        cursor inside;
        int f = field(&c, &wire, &inside, &number);
        if (f == 2) step = (int64_t)number;
        if (f == 3) *ret_version = memcmp(inside.at, "brain.Event:2", 13) == 0;
        if (f == 7) *ret_restart = step;
        while (f == 5 && inside.at < inside.end) {
            cursor value;
            assert_int_equal(field(&inside, &wire, &value, &number), 1);
            assert_true(n < room);
            read_value(value, &ret[n]);
            ret[n++].step = step;
        }
    }
    return n;
}

static int read_events(const char *folder, scalar *ret, int room, int64_t *ret_restart) {
    char path[CADRE_PATH], **names = NULL;
    int count = 0, n = 0, records = 0;
    cadre_map map;
    OK(cadre_list_folder(folder, &names, &count));
    assert_int_equal(count, 1);
    assert_memory_equal(names[0], "events.out.tfevents.", 20);
    OK(cadre_map_open(&map, cadre_join(path, sizeof path, folder, names[0])));
    cadre_names_free(&names, count);
    for (size_t at = 0; at < map.bytes; records++) {
        uint64_t length;
        uint32_t sum;
        bool version = false;
        assert_true(map.bytes - at >= 16);
        memcpy(&length, map.data + at, 8);
        memcpy(&sum, map.data + at + 8, 4);
        assert_int_equal(sum, crc_bit_by_bit(map.data + at, 8));
        assert_true(length <= map.bytes - at - 16);
        memcpy(&sum, map.data + at + 12 + length, 4);
        assert_int_equal(sum, crc_bit_by_bit(map.data + at + 12, length));
        cursor event = {map.data + at + 12, map.data + at + 12 + length};
        n += read_event(event, ret + n, room - n, &version, ret_restart);
        assert_int_equal(version, records == 0);
        at += 16 + length;
    }
    cadre_map_close(&map);
    return n;
}

static void event_files_hold_the_numbers(void **state) {
    (void)state;
    cadre_run *run = make_run(NULL);
    cadre_tfevents *t = NULL;
    cadre_observer o;
    scalar rows[64];
    int64_t restart = -1;
    OK(cadre_tfevents_open(&t, &o));
    OK(o.start(o.self, run, NULL));
    OK(o.resumed(o.self, run, 300));
    cadre_step_report r = report(301);
    OK(o.step(o.self, &r));
    OK(o.eval(o.self, &(cadre_eval_report){301, 1, 1.25, 2.5, 1, true}));
    int n = read_events(run->folder, rows, 64, &restart); /* already on disk */
    cadre_tfevents_close(&t);
    assert_int_equal(n, 10);
    assert_int_equal(restart, 301);
    assert_string_equal(rows[0].tag, "loss/train");
    assert_int_equal(rows[0].step, 301);
    assert_true(rows[0].value == (float)r.loss);
    assert_string_equal(rows[3].tag, "tokens_per_s");
    assert_true(rows[3].value == 18000);
    assert_string_equal(rows[7].tag, "time/exposed_ms");
    assert_string_equal(rows[8].tag, "loss/valid");
    assert_true(rows[8].value == 1.25f);
    assert_string_equal(rows[9].tag, "bits_per_byte/valid");
    run->cfg.run.tensorboard = false;
    char **names = NULL;
    int count = 0;
    OK(cadre_tfevents_open(&t, &o));
    OK(o.start(o.self, run, NULL));
    OK(o.step(o.self, &r));
    cadre_tfevents_close(&t);
    OK(cadre_list_folder(run->folder, &names, &count));
    assert_int_equal(count, 1);
    cadre_names_free(&names, count);
    free(run);
    assert_int_equal(cadre_live_bytes(), 0);
}

/* ---- trace ---- */

static void one_traced_step(cadre_observer *o, cadre_run *run, int64_t step) {
    OK(o->rank_trace(o->self, run, 3, step));
    for (int i = 0; i < 3; i++) {
        cadre_trace_span s =
            cadre_trace_enter((cadre_trace_row)i, i ? "all \"reduce\"" : "forward");
        cadre_trace_leave(s, i * 100);
    }
}

static void traces_hold_the_steps_asked_for(void **state) {
    (void)state;
    cadre_run *run = make_run("2,4-5");
    cadre_trace_file *f = NULL;
    cadre_observer o;
    char path[CADRE_PATH];
    OK(cadre_trace_file_open(&f, &o));
    for (int64_t step = 1; step <= 5; step++) {
        one_traced_step(&o, run, step);
        cadre_join(path, sizeof path, run->folder, "trace/rank-003.json");
        assert_false(cadre_path_is_file(path));
    }
    OK(o.rank_trace(o.self, run, 3, 6));
    assert_null(cadre_trace_attached());
    char *text = contents(run->folder, "trace/rank-003.json");
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    const json_t *events = json_object_get(root, "traceEvents");
    assert_int_equal(json_array_size(events), 4 + 9); /* names, then three steps of three spans */
    const json_t *last = json_array_get(events, 12);
    assert_string_equal(json_string_value(json_object_get(last, "name")), "all \"reduce\"");
    assert_string_equal(json_string_value(json_object_get(last, "cat")), "data");
    assert_string_equal(json_string_value(json_object_get(last, "ph")), "X");
    assert_int_equal(json_integer_value(json_object_get(last, "pid")), 3);
    assert_int_equal(json_integer_value(json_object_get(last, "tid")), 2);
    assert_true(json_number_value(json_object_get(last, "ts")) >=
                json_number_value(json_object_get(json_array_get(events, 4), "ts")));
    assert_true(json_number_value(json_object_get(last, "dur")) >= 0);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(last, "args"), "bytes")),
                     200);
    json_decref(root);
    free(text);
    cadre_trace_file_close(&f);
    free(run);
    run = make_run("7-100"); /* the run ends inside */
    OK(cadre_trace_file_open(&f, &o));
    one_traced_step(&o, run, 7);
    OK(o.rank_trace(o.self, run, 3, 0));
    assert_true(
        cadre_path_is_file(cadre_join(path, sizeof path, run->folder, "trace/rank-003.json")));
    cadre_trace_file_close(&f);
    free(run);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void steps_to_trace_are_read_strictly(void **state) {
    (void)state;
    bool wanted;
    int64_t last;
    static const char *const bad[] = {"",   "0", "a",  "5-",  "-5",    "5-4",
                                      "5,", ",", "5;", "5 6", "1-2-3", "99999999999999999999"};
    OK(cadre_trace_steps("3,10-12", 11, &wanted, &last));
    assert_true(wanted);
    assert_int_equal(last, 12);
    OK(cadre_trace_steps("3,10-12", 4, &wanted, &last));
    assert_false(wanted);
    OK(cadre_trace_steps("5", 5, &wanted, &last));
    assert_true(wanted);
    for (int i = 0; i < CADRE_COUNT(bad); i++)
        FAILS(cadre_trace_steps(bad[i], 1, &wanted, &last), CADRE_EUSAGE, "accepted are 5, 10-12");
}

static void sinks_write_settings_and_know_their_rank(void **state) {
    (void)state;
    cadre_run *run = make_run(NULL);
    cadre_sinks *s = NULL;
    int count = 0;
    OK(cadre_settings_open(&run->set, NULL));
    OK(cadre_settings_set(run->set, "optim.lr", "0.00125"));
    OK(cadre_sinks_open(&s, &(cadre_sinks_opts){.rank = 0}));
    const cadre_observer *o = cadre_sinks_observers(s, &count);
    for (int i = 0; i < count; i++)
        if (o[i].start) OK(o[i].start(o[i].self, run, NULL));
    cadre_sinks_close(&s);
    char *text = contents(run->folder, "settings.yaml");
    cadre_settings *again = NULL;
    char path[CADRE_PATH];
    OK(cadre_settings_open(&again, cadre_join(path, sizeof path, run->folder, "settings.yaml")));
    assert_string_equal(cadre_settings_get(again, "optim.lr"), "0.00125");
    cadre_settings_close(&again);
    free(text);
    free(contents(run->folder, "metrics.jsonl"));
    OK(cadre_sinks_open(&s, &(cadre_sinks_opts){.rank = 1}));
    o = cadre_sinks_observers(s, &count);
    assert_int_equal(count, 1);
    assert_null(o[0].start);
    assert_non_null(o[0].rank_trace);
    cadre_sinks_close(&s);
    cadre_settings_close(&run->set);
    free(run);
    assert_int_equal(cadre_live_bytes(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_have_their_keys_in_order),
        cmocka_unit_test(going_on_drops_what_lies_past),
        cmocka_unit_test(event_files_hold_the_numbers),
        cmocka_unit_test(traces_hold_the_steps_asked_for),
        cmocka_unit_test(steps_to_trace_are_read_strictly),
        cmocka_unit_test(sinks_write_settings_and_know_their_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
