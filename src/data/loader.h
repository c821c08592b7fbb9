/* SPDX-License-Identifier: Apache-2.0
 *
 * Micro-batches, ahead of the step: a thread fills a small ring. What it delivers depends on
 * (sampler, batching, position) alone. Samples past the run's end come as rows whose labels are all
 * -1 (weight 0).
 */
#ifndef CADRE_DATA_LOADER_H
#define CADRE_DATA_LOADER_H

#include "data/corpus.h"
#include "data/sampler.h"

typedef struct cadre_micro_batch {
    int64_t rows, context;
    int32_t *inputs;  /* (rows, context) */
    int32_t *labels;  /* (rows, context); -1: ignored */
    int64_t *samples; /* (rows) global sample indices */
    int64_t valid;    /* labels that count */
} cadre_micro_batch;

typedef struct cadre_loader cadre_loader;

/* `position`: samples consumed so far. `ahead`: micro-batches kept ready (>= 1). Tokens and cfg are
 * borrowed. */
cadre_status cadre_loader_open(cadre_loader **ret_loader, const cadre_run_of_tokens *tokens,
                               const cadre_sampler *sampler, const cadre_batching *batching,
                               int64_t position, int ahead);
/* The next micro-batch of this rank, in order: accumulation of them a step. Valid until the next
 * call. */
cadre_status cadre_loader_next(cadre_loader *l, const cadre_micro_batch **ret_batch);
/* Nanoseconds that cadre_loader_next has waited for the thread since open. */
int64_t cadre_loader_wait_ns(cadre_loader *l);
void cadre_loader_close(cadre_loader **l);

/* Evaluation: window w of ceil((T - 1) / C), offset 0, last one masked, so that every token but the
 * first is predicted once. Fills `rows` windows from `first` on into `into` (rows past the end
 * masked). */
int64_t cadre_eval_windows(int64_t tokens, int64_t context);
void cadre_eval_fill(const cadre_run_of_tokens *tokens, int64_t context, int64_t first,
                     int64_t rows, cadre_micro_batch *into);
cadre_status cadre_micro_batch_open(cadre_micro_batch *ret_batch, int64_t rows, int64_t context);
void cadre_micro_batch_close(cadre_micro_batch *batch);

#endif
