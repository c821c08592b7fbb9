/* SPDX-License-Identifier: Apache-2.0
 *
 * The console of a run: plan, step lines, end on `out`; bar and remarks on `err`. A step line is
 * held back where an evaluation follows, so that it shows that evaluation's loss.
 */
#include "insight/console.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

enum { QUIET = 3, LINES = 2 };
#define MEMORY_SHOWN 0.005 /* of the plan: a smaller difference of a category is not told */

struct cadre_console {
    cadre_console_opts opts;
    cadre_console_facts facts;
    char *folder, *name; /* copies: the run may be gone before the end is told */
    bool quiet;
    cadre_bar bar;
    cadre_step_report last;
    bool held; /* `last` is due and not printed yet */
    double valid;
    cadre_text line;
};

/* ---- step lines ---- */

static void add_ms(cadre_text *to, double ms) {
    cadre_text_add(to, ms < 9.95 ? " | %.1f ms" : " | %.0f ms", ms);
}

void cadre_step_line(const cadre_step_report *r, double valid, cadre_text *to) {
    char left[32];
    double exposed = r->step_ms > 0 ? 100 * r->exposed_ms / r->step_ms : 0;
    cadre_text_add(to, "step %" PRId64 "/%" PRId64 " | loss %.4f", r->step, r->steps, r->loss);
    if (!isnan(valid)) cadre_text_add(to, " | valid %.4f", valid);
    cadre_text_add(to, " | lr %.1e | norm %.2f", r->lr, r->grad_norm);
    add_ms(to, r->step_ms);
    cadre_text_add(to, " | %.0f tok/s | comm %.0f%% exposed", r->tokens_per_s, exposed);
    if (isfinite(r->seconds_left) && r->step < r->steps)
        cadre_text_add(to, " | left %s", cadre_show_seconds(left, sizeof left, r->seconds_left));
    if (r->skipped) cadre_text_add(to, " | not finite: no update");
}

static cadre_status print(cadre_console *c, FILE *to, const char *text) {
    cadre_bar_erase(&c->bar);
    fputs(text, to);
    CADRE_CHECK(fflush(to) == 0 && !ferror(to), CADRE_ERESOURCE,
                "cannot write to standard output: it is closed or full");
    return CADRE_OK;
}

static cadre_status print_held(cadre_console *c) {
    if (!c->held) return CADRE_OK;
    c->held = false;
    cadre_text_clear(&c->line);
    cadre_step_line(&c->last, c->valid, &c->line);
    cadre_text_add(&c->line, "\n");
    CADRE_TRY(c->line.status);
    return print(c, c->opts.out, c->line.at);
}

static void draw(cadre_console *c, const char *doing) {
    char left[32], words[256];
    const cadre_step_report *r = &c->last;
    int n = snprintf(words, sizeof words, "step %" PRId64 "/%" PRId64, r->step, c->facts.steps);
    if (r->step) n += snprintf(words + n, sizeof words - (size_t)n, " | loss %.4f", r->loss);
    if (doing[0])
        snprintf(words + n, sizeof words - (size_t)n, " | %s", doing);
    else if (isfinite(r->seconds_left) && r->step)
        snprintf(words + n, sizeof words - (size_t)n, " | %.0f tok/s | left %s", r->tokens_per_s,
                 cadre_show_seconds(left, sizeof left, r->seconds_left));
    cadre_bar_draw(&c->bar, r->step, c->facts.steps, words, false);
}

/* ---- the observer ---- */

void cadre_console_begin(cadre_console *c, const cadre_console_facts *facts) {
    const cadre_console_opts *o = &c->opts;
    bool plain = o->term && strcmp(o->term, "dumb") == 0;
    c->facts = *facts;
    c->valid = NAN;
    c->quiet = o->quiet || facts->mode == QUIET;
    if (c->facts.log_every <= 0) c->facts.log_every = facts->steps > 20 ? facts->steps / 20 : 1;
    bool bar = !c->quiet && facts->mode != LINES && o->err_is_terminal && !plain;
    c->bar = (cadre_bar){
        .to = bar ? o->err : NULL, .colour = bar && !o->no_color, .columns = o->columns};
}

static cadre_status print_plan(cadre_console *c, const cadre_run *run, const cadre_plan *plan) {
    cadre_text text = {0};
    cadre_status st =
        cadre_plan_text(plan, cadre_run_settings_of(run), cadre_run_folder_of(run), &text);
    cadre_text_add(&text, "\n");
    if (!st) st = text.status;
    if (!st) st = print(c, c->opts.out, text.at);
    cadre_text_free(&text);
    return st;
}

static cadre_status start(void *self, const cadre_run *run, const cadre_plan *plan) {
    cadre_console *c = self;
    const cadre_config *cfg = cadre_run_config(run);
    cadre_free(&c->folder);
    cadre_free(&c->name);
    CADRE_TRY(cadre_strdup(&c->folder, cadre_run_folder_of(run)));
    CADRE_TRY(cadre_strdup(&c->name, cfg->run.name ? cfg->run.name : ""));
    cadre_console_facts facts = {.mode = cfg->run.console,
                                 .steps = cfg->train.steps,
                                 .log_every = cfg->run.log_every,
                                 .eval_every = plan->valid_tokens < 2 ? -1 : cfg->train.eval_every,
                                 .folder = c->folder,
                                 .name = c->name,
                                 .epochs = isnan(cfg->train.epochs) ? 0 : cfg->train.epochs,
                                 .other_resume = strcmp(cfg->checkpoint.resume, "auto") != 0};
    cadre_console_begin(c, &facts);
    return c->quiet ? CADRE_OK : print_plan(c, run, plan);
}

static bool evaluation_follows(const cadre_console *c, int64_t step) {
    int64_t every = c->facts.eval_every;
    if (every < 0) return false;
    return step == c->facts.steps || (every > 0 && step % every == 0);
}

static cadre_status step(void *self, const cadre_step_report *r) {
    cadre_console *c = self;
    if (c->quiet) return CADRE_OK;
    CADRE_TRY(print_held(c));
    bool follows = evaluation_follows(c, r->step);
    c->last = *r;
    c->held = follows || r->step == 1 || r->step == r->steps || r->step % c->facts.log_every == 0;
    if (!follows) CADRE_TRY(print_held(c));
    draw(c, "");
    return CADRE_OK;
}

static void eval_progress(void *self, int64_t done, int64_t of) {
    cadre_console *c = self;
    char doing[64];
    snprintf(doing, sizeof doing, "evaluating %" PRId64 "/%" PRId64, done, of);
    if (!c->quiet) draw(c, doing);
}

static cadre_status eval(void *self, const cadre_eval_report *r) {
    cadre_console *c = self;
    c->valid = r->valid_loss;
    if (c->quiet) return CADRE_OK;
    return print_held(c);
}

static cadre_status saved(void *self, const char *path, int64_t at_step) {
    cadre_console *c = self;
    (void)at_step;
    if (c->quiet) return CADRE_OK;
    CADRE_TRY(print_held(c));
    cadre_text_clear(&c->line);
    cadre_text_add(&c->line, "saved %s\n", path);
    CADRE_TRY(c->line.status);
    return print(c, c->opts.err, c->line.at);
}

/* ---- the end ---- */

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* What was typed; without what is said anew behind it. */
static void add_arguments(cadre_text *to, const char *arguments, bool drop_steps) {
    while (*arguments) {
        size_t n = strcspn(arguments, " ");
        bool drop = begins(arguments, "--checkpoint.resume=") ||
                    (drop_steps &&
                     (begins(arguments, "--train.steps=") || begins(arguments, "--train.epochs=")));
        if (!drop) cadre_text_add(to, " %.*s", (int)n, arguments);
        arguments += n + (arguments[n] != '\0');
    }
}

/* The commands that go on, generate and show; each can be typed as it stands. */
static void add_commands(cadre_console *c, const cadre_end_report *r, cadre_text *to) {
    const char *program = c->opts.program ? c->opts.program : "cadre";
    const char *base = strrchr(c->facts.folder, '/');
    base = base ? base + 1 : c->facts.folder;
    if (c->opts.arguments) {
        cadre_text_add(to, "go on       %s", program);
        add_arguments(to, c->opts.arguments, r->reason == CADRE_END_DONE);
        bool renamed = c->facts.name && strcmp(base, c->facts.name) != 0;
        if (renamed) {
            cadre_text_add(to, " --run.name=");
            cadre_text_add_shell(to, base);
        }
        if (renamed || c->facts.other_resume) cadre_text_add(to, " --checkpoint.resume=auto");
        if (r->reason == CADRE_END_DONE && c->facts.epochs > 0)
            cadre_text_add(to, " --train.epochs=%g", 2 * c->facts.epochs);
        else if (r->reason == CADRE_END_DONE)
            cadre_text_add(to, " --train.steps=%" PRId64, 2 * c->facts.steps);
        cadre_text_add(to, "\n");
    }
    cadre_text_add(to, "generate    %s generate ", program);
    cadre_text_add_shell(to, c->facts.folder);
    cadre_text_add(to, " --tokens 200\nTensorBoard tensorboard --logdir ");
    cadre_text_add_shell(to, c->facts.folder);
    cadre_text_add(to, "\n");
}

/* Plan against measurement, and the categories that make up the difference. */
static void add_memory(const cadre_end_report *r, cadre_text *to) {
    char planned[32], measured[32];
    int64_t plan = r->peak_predicted_bytes, peak = r->peak_measured_bytes;
    if (plan <= 0 || peak <= 0) return;
    cadre_text_add(to, "memory      planned %s, measured %s (%+.1f %%)",
                   cadre_show_bytes(planned, sizeof planned, (double)plan),
                   cadre_show_bytes(measured, sizeof measured, (double)peak),
                   ((double)peak / (double)plan - 1) * 100);
    const char *before = ": ";
    for (int i = 0; i < CADRE_MEM_KINDS; i++) {
        double difference = (double)(r->measured_bytes[i] - r->planned_bytes[i]);
        if (fabs(difference) < MEMORY_SHOWN * (double)plan) continue;
        cadre_text_add(to, "%s%s %s -> %s", before, cadre_mem_name((cadre_mem)i),
                       cadre_show_bytes(planned, sizeof planned, (double)r->planned_bytes[i]),
                       cadre_show_bytes(measured, sizeof measured, (double)r->measured_bytes[i]));
        before = ", ";
    }
    cadre_text_add(to, "\n");
}

static void add_end(cadre_console *c, const cadre_end_report *r, cadre_text *to) {
    static const char *const reasons[] = {[CADRE_END_SIGTERM] = "SIGTERM",
                                          [CADRE_END_SIGUSR1] = "SIGUSR1",
                                          [CADRE_END_SIGINT] = "Ctrl-C"};
    char time[32];
    cadre_show_seconds(time, sizeof time, r->seconds);
    if (r->reason == CADRE_END_DONE)
        cadre_text_add(to, "\ndone        %" PRId64 " steps in %s\n", r->step - r->first_step,
                       time);
    else
        cadre_text_add(to, "\nstopped     by %s after step %" PRId64 "/%" PRId64 ", %s\n",
                       reasons[r->reason], r->step, c->facts.steps, time);
    cadre_text_add(to, "loss        %.4f -> %.4f", r->first_loss, r->last_loss);
    if (!isnan(r->best_valid))
        cadre_text_add(to, ", best validation %.4f at step %" PRId64, r->best_valid, r->best_step);
    cadre_text_add(to, "\n");
    add_memory(r, to);
    cadre_text_add(to, "run folder  %s\n", c->facts.folder);
    add_commands(c, r, to);
}

static cadre_status end(void *self, const cadre_end_report *r) {
    cadre_console *c = self;
    cadre_bar_erase(&c->bar);
    if (c->quiet) return CADRE_OK;
    CADRE_TRY(print_held(c));
    cadre_text_clear(&c->line);
    if (r->reason == CADRE_END_FAILED) {
        if (!r->checkpoint[0]) return CADRE_OK;
        cadre_text_add(&c->line, "the last checkpoint is %s; the same command goes on from it\n",
                       r->checkpoint);
        CADRE_TRY(c->line.status);
        return print(c, c->opts.err, c->line.at);
    }
    add_end(c, r, &c->line);
    CADRE_TRY(c->line.status);
    return print(c, c->opts.out, c->line.at);
}

cadre_status cadre_console_open(cadre_console **ret_console, const cadre_console_opts *opts,
                                cadre_observer *ret_observer) {
    cadre_console *c = NULL;
    CADRE_TRY(cadre_alloc(&c, CADRE_MEM_OTHER, sizeof *c));
    c->opts = *opts;
    *ret_observer = (cadre_observer){.self = c,
                                     .start = start,
                                     .step = step,
                                     .eval = eval,
                                     .eval_progress = eval_progress,
                                     .saved = saved,
                                     .end = end};
    *ret_console = c;
    return CADRE_OK;
}

void cadre_console_close(cadre_console **console) {
    cadre_console *c = *console;
    if (!c) return;
    cadre_bar_erase(&c->bar);
    cadre_text_free(&c->line);
    cadre_free(&c->folder);
    cadre_free(&c->name);
    cadre_free(console);
}
