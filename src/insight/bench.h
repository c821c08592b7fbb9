/* SPDX-License-Identifier: Apache-2.0
 *
 * Benches: a table of them, one file each. A bench measures on all ranks and leaves rows on rank 0;
 * a row is a JSON object (interface.md, section 5), and a table for people is columns picked out of
 * it.
 *
 *   cadre_bench_open -> kind->run (collective) -> kind->finish (rank 0, its world closed)
 *                    -> cadre_bench_show -> cadre_bench_close
 */
#ifndef CADRE_INSIGHT_BENCH_H
#define CADRE_INSIGHT_BENCH_H

#include "base/settings.h"
#include "base/text.h"
#include "comm/comm.h"

struct json_t;
typedef struct cadre_bench cadre_bench;

typedef struct cadre_bench_opts {
    const cadre_settings *set; /* as given; a bench of a model resolves a copy */
    const char *bytes;         /* "8KiB,1MiB"; NULL: the bench's own */
    double seconds;            /* of measuring for each row, about; 0: the bench's own */
    int64_t repeat;            /* samples of each row; 0: as `seconds` says */
    bool independent;          /* step: beside worlds of one rank */
    const char *folder;        /* checkpoint: an empty one; NULL: one that it makes and removes */
    const char *peers;         /* folder of the peers' scripts; NULL: looked for */
    char *const *environment;  /* of the peers */
} cadre_bench_opts;

/* A column for people: what stands at `key` of a row, "us.median" reaching into objects. */
typedef struct cadre_bench_column {
    const char *key, *title;
    char as; /* 's' text, 'i' whole number, 'f' number, 'b' bytes, '%' share */
    int width, decimals;
} cadre_bench_column;

typedef struct cadre_bench_kind {
    const char *name;
    const char *help;    /* one sentence without its full stop */
    const char *options; /* which it takes, each with a blank around: " --bytes --seconds " */
    int ranks;           /* when not said */
    bool writes;         /* into opts->folder */
    const cadre_bench_column *columns; /* ends with a NULL key */
    /* Collective. Only rank 0's bench gets rows. */
    cadre_status (*run)(cadre_comm *world, const cadre_bench_opts *opts, cadre_bench *bench);
    /* Rank 0, after its world is closed and the others are gone; NULL: nothing. */
    cadre_status (*finish)(cadre_bench *bench, const cadre_bench_opts *opts);
    /* Lines under the table; NULL: none. */
    void (*notes)(const struct json_t *rows, cadre_text *to);
} cadre_bench_kind;
extern const cadre_bench_kind cadre_bench_kinds[];
extern const int cadre_bench_kind_count;
/* An unknown name is CADRE_EUSAGE with the nearest. */
cadre_status cadre_bench_find(const char *name, const cadre_bench_kind **ret_kind);

struct cadre_bench {
    const cadre_bench_kind *kind;
    struct json_t *rows;
    char machine[256], transport[16];
    int cpus, ranks;
    cadre_text said; /* what is missing and how to get it, one line each */
};

/* Local. Before the rank is bound to processors of its own. */
cadre_status cadre_bench_open(cadre_bench *ret_bench, const cadre_bench_kind *kind,
                              cadre_comm *world);
cadre_status cadre_bench_show(const cadre_bench *bench, bool json, cadre_text *to);
void cadre_bench_close(cadre_bench *bench);

/* ---- for the files of the benches ---- */

/* Median, smallest and largest of `n` samples, which are sorted. */
typedef struct cadre_bench_stats {
    double median, min, max;
    int repeats;
} cadre_bench_stats;
cadre_bench_stats cadre_bench_stats_of(double *samples, int64_t n);
/* {"median":.., "min":.., "max":..}, each times `scale`. */
struct json_t *cadre_bench_spread(const cadre_bench_stats *s, double scale);
/* Takes `row` (NULL: it could not be built). */
cadre_status cadre_bench_add(cadre_bench *bench, struct json_t *row);
double cadre_bench_number(const struct json_t *row, const char *key);    /* NaN: not there */
const char *cadre_bench_word(const struct json_t *row, const char *key); /* "": not there */

/* Collective: rank 0's number of samples of `ns` each, out of the options (`seconds`: of the
 * bench's own), told to all. */
cadre_status cadre_bench_samples(cadre_comm *world, const cadre_bench_opts *opts, double seconds,
                                 double ns, int64_t *ret_samples);
/* Collective: each number becomes its mean over the ranks. */
cadre_status cadre_bench_mean(cadre_comm *world, double *numbers, int64_t count);

/* "8KiB,1MiB" (NULL: `standard`) into at most 32 sizes, each a multiple of 4. */
cadre_status cadre_bench_sizes(const char *text, const char *standard, int64_t *ret_sizes,
                               int *ret_count);

cadre_status cadre_bench_allreduce(cadre_comm *world, const cadre_bench_opts *opts,
                                   cadre_bench *bench);
/* Adds the rows of Open MPI and Gloo, run by the scripts in opts->peers (NULL: bench/peers beside
 * the executable's tree, or share/cadre/peers where installed), and orders all. A missing peer is
 * said, not an error. */
cadre_status cadre_bench_peers(cadre_bench *bench, const cadre_bench_opts *opts);
struct json_t *cadre_bench_allreduce_row(const char *who, int ranks, int64_t bytes,
                                         const cadre_bench_stats *us);
cadre_status cadre_bench_memory(cadre_comm *world, const cadre_bench_opts *opts,
                                cadre_bench *bench);
cadre_status cadre_bench_gemm(cadre_comm *world, const cadre_bench_opts *opts, cadre_bench *bench);
cadre_status cadre_bench_step(cadre_comm *world, const cadre_bench_opts *opts, cadre_bench *bench);
cadre_status cadre_bench_checkpoint(cadre_comm *world, const cadre_bench_opts *opts,
                                    cadre_bench *bench);
void cadre_bench_step_notes(const struct json_t *rows, cadre_text *to);

#endif
