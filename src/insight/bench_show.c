/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a bench: how they are made, as a table, and as JSON (interface.md, section 5).
 */
#include "insight/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cpus.h"
#include "insight/document.h"

enum { SAMPLES_LEAST = 3, SAMPLES_MOST = 2000, SIZES_MOST = 32 };

cadre_status cadre_bench_open(cadre_bench *ret_bench, const cadre_bench_kind *kind,
                              cadre_comm *world) {
    cadre_bench b = {.kind = kind, .cpus = cadre_cpus_count(), .ranks = cadre_comm_size(world)};
    cadre_cpus_model(b.machine, sizeof b.machine);
    snprintf(b.transport, sizeof b.transport, "%s", cadre_comm_transport(world));
    b.rows = json_array();
    CADRE_CHECK(b.rows, CADRE_ERESOURCE, "no memory for the rows of a bench");
    *ret_bench = b;
    return CADRE_OK;
}

void cadre_bench_close(cadre_bench *bench) {
    json_decref(bench->rows);
    cadre_text_free(&bench->said);
    *bench = (cadre_bench){0};
}

/* ---- making rows ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

cadre_bench_stats cadre_bench_stats_of(double *samples, int64_t n) {
    qsort(samples, (size_t)n, sizeof *samples, by_value);
    double median = n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
    return (cadre_bench_stats){median, samples[0], samples[n - 1], (int)n};
}

json_t *cadre_bench_spread(const cadre_bench_stats *s, double scale) {
    return json_pack("{s:f, s:f, s:f}", "median", s->median * scale, "min", s->min * scale, "max",
                     s->max * scale);
}

cadre_status cadre_bench_add(cadre_bench *bench, json_t *row) {
    CADRE_CHECK(row && json_array_append_new(bench->rows, row) == 0, CADRE_ERESOURCE,
                "no memory for a row of a bench");
    return CADRE_OK;
}

/* "us.median" -> row["us"]["median"]; NULL where there is none. */
static const json_t *find(const json_t *row, const char *key) {
    char part[64];
    for (const char *at = key; row;) {
        size_t n = strcspn(at, ".");
        snprintf(part, sizeof part, "%.*s", (int)n, at);
        row = json_object_get(row, part);
        if (!at[n]) break;
        at += n + 1;
    }
    return row;
}

double cadre_bench_number(const json_t *row, const char *key) {
    const json_t *value = find(row, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *cadre_bench_word(const json_t *row, const char *key) {
    const char *text = json_string_value(find(row, key));
    return text ? text : "";
}

/* ---- agreement of the ranks ---- */

cadre_status cadre_bench_samples(cadre_comm *world, const cadre_bench_opts *opts, double seconds,
                                 double ns, int64_t *ret_samples) {
    double wanted = (opts->seconds > 0 ? opts->seconds : seconds) * 1e9 / (ns + 1);
    int64_t n = opts->repeat             ? opts->repeat
                : wanted < SAMPLES_LEAST ? SAMPLES_LEAST
                : wanted > SAMPLES_MOST  ? SAMPLES_MOST
                                         : (int64_t)wanted;
    CADRE_TRY(cadre_broadcast(world, &n, 1, CADRE_I64, 0, "bench plan", NULL));
    *ret_samples = n;
    return CADRE_OK;
}

cadre_status cadre_bench_mean(cadre_comm *world, double *numbers, int64_t count) {
    CADRE_TRY(
        cadre_all_reduce(world, numbers, numbers, count, CADRE_F64, CADRE_SUM, "bench mean", NULL));
    for (int64_t i = 0; i < count; i++) numbers[i] /= cadre_comm_size(world);
    return CADRE_OK;
}

cadre_status cadre_bench_sizes(const char *text, const char *standard, int64_t *ret_sizes,
                               int *ret_count) {
    char word[64];
    int count = 0;
    if (!text) text = standard;
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : (int)sizeof word - 1, at);
        int64_t bytes = 0;
        CADRE_CHECK(cadre_parse_bytes(word, &bytes) && bytes > 0 && bytes % 4 == 0, CADRE_EUSAGE,
                    "'%s' is no size; accepted is a list such as 8KiB,1MiB of whole f32 numbers",
                    word);
        CADRE_CHECK(count < SIZES_MOST, CADRE_EUSAGE, "at most %d sizes in one bench", SIZES_MOST);
        ret_sizes[count++] = bytes;
        at += n;
        if (!*at) break;
    }
    *ret_count = count;
    return CADRE_OK;
}

/* ---- showing them ---- */

static void show_cell(const json_t *row, const cadre_bench_column *c, cadre_text *to) {
    char cell[64] = "";
    double x = cadre_bench_number(row, c->key);
    if (c->as == 's')
        snprintf(cell, sizeof cell, "%s", cadre_bench_word(row, c->key));
    else if (isnan(x))
        ;
    else if (c->as == 'b')
        cadre_show_bytes(cell, sizeof cell, x);
    else
        snprintf(cell, sizeof cell, "%.*f%s", c->decimals, c->as == '%' ? 100 * x : x,
                 c->as == '%' ? "%" : "");
    cadre_text_add(to, "  %*s", c->width, cell);
}

/* The lines of `text` without blanks at their ends. */
static void add_trimmed(cadre_text *to, cadre_text *line) {
    size_t n = line->length;
    while (n > 0 && line->at[n - 1] == ' ') n--;
    cadre_text_add_bytes(to, line->at, n);
    cadre_text_add(to, "\n");
    if (line->status) to->status = line->status;
    cadre_text_clear(line);
}

static void show_text(const cadre_bench *bench, cadre_text *to) {
    cadre_text line = {0};
    cadre_text_add(to, "%s: %s\n%d rank%s, transport %s, on %s (%d cores)\n", bench->kind->name,
                   bench->kind->help, bench->ranks, bench->ranks == 1 ? "" : "s", bench->transport,
                   bench->machine, bench->cpus);
    for (const cadre_bench_column *c = bench->kind->columns; c->key; c++)
        cadre_text_add(&line, "  %*s", c->width, c->title);
    add_trimmed(to, &line);
    for (size_t i = 0; i < json_array_size(bench->rows); i++) {
        for (const cadre_bench_column *c = bench->kind->columns; c->key; c++)
            show_cell(json_array_get(bench->rows, i), c, &line);
        add_trimmed(to, &line);
    }
    cadre_text_free(&line);
    if (bench->kind->notes) bench->kind->notes(bench->rows, to);
    if (bench->said.length) cadre_text_add(to, "%s", bench->said.at);
}

static cadre_status show_json(const cadre_bench *bench, cadre_text *to) {
    json_t *said = json_array();
    for (const char *at = bench->said.at; at && *at;) {
        size_t n = strcspn(at, "\n");
        json_array_append_new(said, json_stringn(at, n));
        at += n + (at[n] != '\0');
    }
    return cadre_document_add(json_pack("{s:i, s:s, s:{s:s, s:i, s:s, s:s}, s:O, s:o}", "schema", 1,
                                        "bench", bench->kind->name, "machine", "cpu",
                                        bench->machine, "cores", bench->cpus, "transport",
                                        bench->transport, "cadre_version", cadre_version(), "rows",
                                        bench->rows, "missing", said),
                              false, to);
}

cadre_status cadre_bench_show(const cadre_bench *bench, bool json, cadre_text *to) {
    CADRE_TRY(bench->said.status);
    if (json) return show_json(bench, to);
    show_text(bench, to);
    return to->status;
}
