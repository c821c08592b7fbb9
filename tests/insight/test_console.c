/* SPDX-License-Identifier: Apache-2.0
 *
 * The console: step lines to the letter, when they come, the bar and when there is none, the end.
 */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "insight/console.h"

typedef struct screen {
    char *out, *err;
    size_t out_bytes, err_bytes;
    cadre_console_opts opts;
    cadre_console *console;
    cadre_observer observer;
} screen;

static void screen_open(screen *s) {
    s->opts.out = open_memstream(&s->out, &s->out_bytes);
    s->opts.err = open_memstream(&s->err, &s->err_bytes);
    OK(cadre_console_open(&s->console, &s->opts, &s->observer));
}

static void screen_close(screen *s) {
    cadre_console_close(&s->console);
    fclose(s->opts.out);
    fclose(s->opts.err);
    free(s->out);
    free(s->err);
    assert_int_equal(cadre_live_bytes(), 0);
}

static void see(screen *s) {
    fflush(s->opts.out);
    fflush(s->opts.err);
}

static cadre_step_report report(int64_t step) {
    return (cadre_step_report){.step = step,
                               .steps = 2000,
                               .loss = 2.10342,
                               .lr = 1e-3,
                               .grad_norm = 0.9176,
                               .step_ms = 41.2,
                               .comm_ms = 3,
                               .exposed_ms = 1.236,
                               .tokens_per_s = 18700.4,
                               .seconds_left = 78};
}

static int count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

static void the_step_line_to_the_letter(void **state) {
    (void)state;
    cadre_step_report r = report(100);
    cadre_text line = {0};
    cadre_step_line(&r, 2.08711, &line);
    assert_string_equal(line.at, "step 100/2000 | loss 2.1034 | valid 2.0871 | lr 1.0e-03 | norm "
                                 "0.92 | 41 ms | 18700 tok/s | comm 3% exposed | left 1m18s");
    cadre_text_clear(&line);
    r.seconds_left = NAN;
    r.step_ms = 4.12;
    r.exposed_ms = 0;
    cadre_step_line(&r, NAN, &line);
    assert_string_equal(line.at, "step 100/2000 | loss 2.1034 | lr 1.0e-03 | norm 0.92 | 4.1 ms | "
                                 "18700 tok/s | comm 0% exposed");
    cadre_text_clear(&line);
    r.skipped = true;
    r.loss = NAN;
    cadre_step_line(&r, NAN, &line);
    assert_non_null(strstr(line.at, "loss nan"));
    assert_non_null(strstr(line.at, "not finite: no update"));
    cadre_text_free(&line);
}

static void run_steps(screen *s, int64_t from, int64_t to, int64_t eval_every) {
    for (int64_t i = from; i <= to; i++) {
        cadre_step_report r = report(i);
        OK(s->observer.step(s->observer.self, &r));
        if (eval_every && i % eval_every == 0) {
            cadre_eval_report e = {.step = i, .valid_loss = (double)i / 100};
            s->observer.eval_progress(s->observer.self, 1, 2);
            OK(s->observer.eval(s->observer.self, &e));
        }
    }
}

static void lines_come_when_due_with_their_own_evaluation(void **state) {
    (void)state;
    screen s = {0};
    screen_open(&s);
    cadre_console_begin(
        s.console,
        &(cadre_console_facts){
            .steps = 2000, .log_every = 50, .eval_every = 75, .folder = "runs/x", .name = "x"});
    run_steps(&s, 1, 160, 75);
    see(&s);
    /* 1 50 75 100 150 */
    assert_int_equal(count_of(s.out, "\n"), 5);
    assert_non_null(strstr(s.out, "step 1/2000 | loss 2.1034 | lr"));
    assert_non_null(strstr(s.out, "step 50/2000 | loss 2.1034 | lr"));
    assert_non_null(strstr(s.out, "step 75/2000 | loss 2.1034 | valid 0.7500 |"));
    assert_non_null(strstr(s.out, "step 100/2000 | loss 2.1034 | valid 0.7500 |"));
    assert_non_null(strstr(s.out, "step 150/2000 | loss 2.1034 | valid 1.5000 |"));
    OK(s.observer.saved(s.observer.self, "runs/x/checkpoints/step-00000160", 160));
    see(&s);
    assert_string_equal(s.err, "saved runs/x/checkpoints/step-00000160\n");
    screen_close(&s);
}

static void quiet_says_nothing(void **state) {
    (void)state;
    for (int how = 0; how < 2; how++) {
        screen s = {.opts = {.quiet = how == 0, .err_is_terminal = true}};
        screen_open(&s);
        cadre_console_begin(s.console, &(cadre_console_facts){.mode = how == 0 ? 0 : 3,
                                                              .steps = 20,
                                                              .log_every = 1,
                                                              .eval_every = 5,
                                                              .folder = "runs/x"});
        run_steps(&s, 1, 20, 5);
        OK(s.observer.saved(s.observer.self, "p", 20));
        OK(s.observer.end(s.observer.self, &(cadre_end_report){.step = 20}));
        see(&s);
        assert_int_equal(s.out_bytes + s.err_bytes, 0);
        screen_close(&s);
    }
}

static size_t bar_bytes(cadre_console_opts opts, int mode, char *ret_err, size_t room) {
    screen s = {.opts = opts};
    screen_open(&s);
    cadre_console_begin(
        s.console,
        &(cadre_console_facts){
            .mode = mode, .steps = 2000, .log_every = 1000, .eval_every = -1, .folder = "runs/x"});
    run_steps(&s, 2, 900, 0);
    see(&s);
    size_t bytes = s.err_bytes;
    snprintf(ret_err, room, "%s", s.err);
    screen_close(&s);
    return bytes;
}

static void a_bar_only_where_it_can_be(void **state) {
    (void)state;
    static char err[1 << 20];
    cadre_console_opts on = {.err_is_terminal = true, .term = "xterm", .columns = 80};
    assert_true(bar_bytes(on, 0, err, sizeof err) > 0);
    assert_non_null(strstr(err, "\x1b[32m"));
    assert_true(bar_bytes(on, 1, err, sizeof err) > 0);
    assert_int_equal(bar_bytes(on, 2, err, sizeof err), 0);
    cadre_console_opts o = on;
    o.err_is_terminal = false;
    assert_int_equal(bar_bytes(o, 0, err, sizeof err), 0);
    assert_int_equal(bar_bytes(o, 1, err, sizeof err), 0);
    o = on;
    o.term = "dumb";
    assert_int_equal(bar_bytes(o, 1, err, sizeof err), 0);
    o = on;
    o.no_color = true;
    assert_true(bar_bytes(o, 0, err, sizeof err) > 0);
    assert_null(strstr(err, "\x1b[3"));
}

/* Printable characters between a carriage return and the next one. */
static int widest_line(const char *text) {
    int widest = 0, width = 0;
    for (; *text; text++) {
        if (*text == '\r') width = 0;
        if (*text == '\x1b') {
            while (*text && !strchr("mK", *text)) text++;
            continue;
        }
        if ((unsigned char)*text >= 32) width++;
        if (width > widest) widest = width;
    }
    return widest;
}

static void the_bar_never_wraps_nor_hurries(void **state) {
    (void)state;
    static char err[1 << 20];
    for (int columns = 2; columns < 200; columns += 7)
        for (int colour = 0; colour < 2; colour++) {
            cadre_console_opts o = {
                .err_is_terminal = true, .columns = columns, .no_color = !colour};
            int64_t begin = cadre_now_ns();
            bar_bytes(o, 1, err, sizeof err);
            double tenths = (double)(cadre_now_ns() - begin) * 1e-8;
            assert_in_range(widest_line(err), 1, columns - 1);
            assert_null(strchr(err, '\n'));
            assert_true(count_of(err, "%") <= 2 + (int)tenths); /* 899 steps, few drawings */
        }
}

static void the_bar_makes_way_for_lines(void **state) {
    (void)state;
    screen s = {.opts = {.err_is_terminal = true, .columns = 100}};
    screen_open(&s);
    cadre_console_begin(s.console,
                        &(cadre_console_facts){
                            .steps = 2000, .log_every = 10, .eval_every = -1, .folder = "runs/x"});
    run_steps(&s, 2, 9, 0);
    see(&s);
    assert_null(s.out_bytes ? s.out : NULL);
    assert_non_null(strstr(s.err, "step 2/2000 | loss 2.1034"));
    run_steps(&s, 10, 10, 0);
    see(&s);
    assert_int_equal(count_of(s.out, "step 10/2000"), 1);
    assert_non_null(strstr(s.err, "\r\x1b[K"));
    screen_close(&s);
}

static void the_end_names_the_commands(void **state) {
    (void)state;
    screen s = {.opts = {.program = "build/release/cadre",
                         .arguments = "train run.yaml --train.steps=500 --ranks 2"}};
    screen_open(&s);
    cadre_console_facts facts = {.steps = 500, .log_every = 100, .folder = "runs/x", .name = "x"};
    cadre_console_begin(s.console, &facts);
    cadre_end_report done = {
        .reason = CADRE_END_DONE,
        .step = 500,
        .first_loss = 4.2,
        .last_loss = 1.4712,
        .best_valid = 1.5712,
        .best_step = 450,
        .seconds = 82,
        .peak_predicted_bytes = (int64_t)4 << 30,
        .peak_measured_bytes = (int64_t)5 << 30,
        .planned_bytes =
            {[CADRE_MEM_ACTIVATIONS] = (int64_t)3 << 30, [CADRE_MEM_OTHER] = (int64_t)1 << 30},
        .measured_bytes = {
            [CADRE_MEM_ACTIVATIONS] = (int64_t)4 << 30, [CADRE_MEM_OTHER] = (int64_t)1 << 30}};
    OK(s.observer.end(s.observer.self, &done));
    see(&s);
    assert_string_equal(
        s.out,
        "\ndone        500 steps in 1m22s\n"
        "loss        4.2000 -> 1.4712, best validation 1.5712 at step 450\n"
        "memory      planned 4.0 GiB, measured 5.0 GiB (+25.0 %): activations 3.0 GiB -> 4.0 GiB\n"
        "run folder  runs/x\n"
        "go on       build/release/cadre train run.yaml --ranks 2 --train.steps=1000\n"
        "generate    build/release/cadre generate runs/x --tokens 200\n"
        "TensorBoard tensorboard --logdir runs/x\n");
    screen_close(&s);

    s = (screen){.opts = {.arguments = "train run.yaml"}};
    screen_open(&s);
    facts.folder = "runs/x-2";
    cadre_console_begin(s.console, &facts);
    done.reason = CADRE_END_SIGTERM;
    done.step = 120;
    done.best_valid = NAN;
    OK(s.observer.end(s.observer.self, &done));
    see(&s);
    assert_non_null(strstr(s.out, "stopped     by SIGTERM after step 120/500"));
    assert_non_null(strstr(s.out, "go on       cadre train run.yaml --run.name=x-2 "
                                  "--checkpoint.resume=auto\n"));
    assert_null(strstr(s.out, "best validation"));
    screen_close(&s);
}

static void a_closed_output_is_an_error(void **state) {
    (void)state;
    screen s = {0};
    s.opts.out = fopen("/dev/full", "w");
    s.opts.err = open_memstream(&s.err, &s.err_bytes);
    if (!s.opts.out) skip();
    OK(cadre_console_open(&s.console, &s.opts, &s.observer));
    cadre_console_begin(s.console,
                        &(cadre_console_facts){.steps = 10, .log_every = 1, .eval_every = -1});
    cadre_step_report r = report(1);
    FAILS(s.observer.step(s.observer.self, &r), CADRE_ERESOURCE, "standard output");
    screen_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_step_line_to_the_letter),
        cmocka_unit_test(lines_come_when_due_with_their_own_evaluation),
        cmocka_unit_test(quiet_says_nothing),
        cmocka_unit_test(a_bar_only_where_it_can_be),
        cmocka_unit_test(the_bar_never_wraps_nor_hurries),
        cmocka_unit_test(the_bar_makes_way_for_lines),
        cmocka_unit_test(the_end_names_the_commands),
        cmocka_unit_test(a_closed_output_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
