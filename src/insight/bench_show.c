/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a bench, as a table and as JSON (interface.md, section 5).
 */
#include "insight/bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "insight/document.h"

cadre_status cadre_bench_add(cadre_bench *bench, const cadre_bench_row *row) {
    CADRE_TRY(cadre_realloc(&bench->rows, CADRE_MEM_OTHER,
                            (size_t)(bench->count + 1) * sizeof *bench->rows));
    bench->rows[bench->count++] = *row;
    return CADRE_OK;
}

/* bytes / median time, in 10^9 bytes a second */
static double rate(const cadre_bench_row *r) {
    return r->median_us > 0 ? (double)r->bytes / (r->median_us * 1e3) : 0;
}

/* 0 when the limit of this size was not measured. */
static double of_limit(const cadre_bench *bench, const cadre_bench_row *r) {
    for (int i = 0; i < bench->count; i++) {
        const cadre_bench_row *l = &bench->rows[i];
        if (l->bytes == r->bytes && strcmp(l->who, "limit") == 0 && r->median_us > 0)
            return l->median_us / r->median_us;
    }
    return 0;
}

static int by_size(const void *a, const void *b) {
    const cadre_bench_row *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return (x->median_us > y->median_us) - (x->median_us < y->median_us);
}

static void show_text(const cadre_bench *bench, cadre_text *to) {
    char size[32];
    int ranks = bench->count ? bench->rows[0].ranks : 0;
    cadre_text_add(to, "all_reduce, f32 sums, %d ranks, transport %s, on %s (%d cores)\n", ranks,
                   bench->transport, bench->machine, bench->cpus);
    cadre_text_add(to, "%10s  %-9s %12s %12s %12s %8s  %s\n", "bytes", "who", "median us", "min us",
                   "max us", "GB/s", "of limit");
    for (int i = 0; i < bench->count; i++) {
        const cadre_bench_row *r = &bench->rows[i];
        double part = of_limit(bench, r);
        cadre_text_add(to, "%10s  %-9s %12.2f %12.2f %12.2f %8.2f",
                       cadre_show_bytes(size, sizeof size, (double)r->bytes), r->who, r->median_us,
                       r->min_us, r->max_us, rate(r));
        if (part > 0) cadre_text_add(to, "  %7.0f%%", 100 * part);
        cadre_text_add(to, "\n");
    }
    if (bench->said.length) cadre_text_add(to, "%s", bench->said.at);
}

static json_t *row_object(const cadre_bench *bench, const cadre_bench_row *r) {
    double part = of_limit(bench, r);
    json_t *o =
        json_pack("{s:s, s:i, s:I, s:s, s:i, s:{s:f, s:f, s:f}}", "op", "all_reduce", "ranks",
                  r->ranks, "bytes", (json_int_t)r->bytes, "who", r->who, "repeats", r->repeats,
                  "us", "median", r->median_us, "min", r->min_us, "max", r->max_us);
    cadre_document_number(o, "gb_per_s", rate(r));
    json_object_set_new(o, "of_limit", part > 0 ? json_real(part) : json_null());
    return o;
}

static cadre_status show_json(const cadre_bench *bench, cadre_text *to) {
    json_t *rows = json_array(), *said = json_array();
    for (int i = 0; i < bench->count; i++)
        json_array_append_new(rows, row_object(bench, &bench->rows[i]));
    for (const char *at = bench->said.at; at && *at;) {
        size_t n = strcspn(at, "\n");
        json_array_append_new(said, json_stringn(at, n));
        at += n + (at[n] != '\0');
    }
    return cadre_document_add(json_pack("{s:i, s:s, s:{s:s, s:i, s:s, s:s}, s:o, s:o}", "schema", 1,
                                        "bench", "allreduce", "machine", "cpu", bench->machine,
                                        "cores", bench->cpus, "transport", bench->transport,
                                        "cadre_version", cadre_version(), "rows", rows, "missing",
                                        said),
                              false, to);
}

cadre_status cadre_bench_show(const cadre_bench *bench, bool json, cadre_text *to) {
    cadre_bench sorted = *bench;
    sorted.rows = NULL;
    CADRE_TRY(cadre_alloc_array(&sorted.rows, CADRE_MEM_OTHER, bench->count, sizeof *sorted.rows));
    if (bench->count) {
        memcpy(sorted.rows, bench->rows, (size_t)bench->count * sizeof *sorted.rows);
        qsort(sorted.rows, (size_t)sorted.count, sizeof *sorted.rows, by_size);
    }
    cadre_status st = json ? show_json(&sorted, to) : CADRE_OK;
    if (!json) show_text(&sorted, to);
    cadre_free(&sorted.rows);
    return st ? st : to->status;
}

void cadre_bench_free(cadre_bench *bench) {
    cadre_free(&bench->rows);
    cadre_text_free(&bench->said);
    *bench = (cadre_bench){0};
}
