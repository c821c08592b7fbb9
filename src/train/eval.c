/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact evaluation: the windows of the whole run of tokens are dealt over the ranks in contiguous
 * shares, uneven where they must be; sums of losses and counts are joined once at the end. Every
 * token but the first is predicted exactly once, whatever the number of ranks.
 */
#include <string.h>

#include "base/status.h"
#include "data/loader.h"
#include "train/run_private.h"

/* Passes between two votes on whether to stop. */
enum { PASSES_A_VOTE = 8 };

static cadre_status evaluate_rows(const cadre_eval_job *job, int64_t first, int64_t rows,
                                  cadre_micro_batch *batch, double sums[2]) {
    cadre_pass pass;
    memset(&pass, 0, sizeof pass);
    cadre_eval_fill(job->tokens, job->context, first, rows, batch);
    pass.inputs = 2;
    pass.key.samples = batch->samples;
    pass.key.sample_count = rows;
    pass.input[0].name = "inputs";
    pass.input[1].name = "labels";
    for (int i = 0; i < 2; i++)
        pass.input[i].tensor =
            (cadre_tensor){.dtype = CADRE_I32, .dims = cadre_dims2(rows, job->context), .id = -1};
    pass.input[0].tensor.data = batch->inputs;
    pass.input[1].tensor.data = batch->labels;
    CADRE_TRY(cadre_tape_begin(job->tape, &pass));
    const cadre_tensor *loss = cadre_model_forward(job->model, job->tape);
    CADRE_TRY(cadre_tape_status(job->tape));
    const double *two = loss->data;
    sums[0] += two[0];
    sums[1] += two[1];
    return CADRE_OK;
}

/* Whether any rank wants to stop: the same answer everywhere. */
static cadre_status vote(const cadre_eval_job *job, bool *ret_stop) {
    int32_t stop = job->stop_signal && *job->stop_signal != 0;
    CADRE_TRY(cadre_all_reduce(job->world, &stop, &stop, 1, CADRE_I32, CADRE_MAX,
                               "stop the evaluation", NULL));
    *ret_stop = stop != 0;
    return CADRE_OK;
}

static cadre_status evaluate_share(const cadre_eval_job *job, int64_t windows,
                                   cadre_micro_batch *batch, double sums[2], bool *ret_stopped) {
    int rank = cadre_comm_rank(job->world), size = cadre_comm_size(job->world);
    int64_t first = windows * rank / size, end = windows * (rank + 1) / size;
    int64_t most = (windows + size - 1) / size; /* of any rank: all take part in every vote */
    int64_t passes = (most + job->micro_batch - 1) / job->micro_batch;
    for (int64_t i = 0; i < passes; i++) {
        int64_t at = first + i * job->micro_batch, rows = end - at;
        if (rows > job->micro_batch) rows = job->micro_batch;
        if (rows > 0) CADRE_TRY(evaluate_rows(job, at, rows, batch, sums));
        if (job->progress) job->progress(job->self, i + 1, passes);
        if (job->stop_signal && i % PASSES_A_VOTE == PASSES_A_VOTE - 1)
            CADRE_TRY(vote(job, ret_stopped));
        if (*ret_stopped) break;
    }
    return CADRE_OK;
}

cadre_status cadre_evaluate(const cadre_eval_job *job, double *ret_loss, double *ret_count,
                            bool *ret_stopped) {
    int64_t windows = cadre_eval_windows(job->tokens->count, job->context);
    double sums[2] = {0, 0};
    bool stopped = false;
    cadre_micro_batch own = {0}, *batch = job->batch ? job->batch : &own;
    if (job->samples > 0 && windows > job->samples) windows = job->samples;
    CADRE_CHECK(windows > 0, CADRE_EDATA, "the validation data have %lld tokens; it takes 2",
                (long long)job->tokens->count);
    if (!job->batch) CADRE_TRY(cadre_micro_batch_open(&own, job->micro_batch, job->context));
    cadre_status st = evaluate_share(job, windows, batch, sums, &stopped);
    cadre_micro_batch_close(&own);
    if (st) return st;
    CADRE_TRY(
        cadre_all_reduce(job->world, sums, sums, 2, CADRE_F64, CADRE_SUM, "evaluation", NULL));
    if (ret_stopped) *ret_stopped = stopped;
    if (stopped) return CADRE_OK;
    CADRE_CHECK(sums[1] > 0, CADRE_EDATA, "no token of the validation data counts");
    *ret_loss = sums[0] / sums[1];
    if (ret_count) *ret_count = sums[1];
    return CADRE_OK;
}

double cadre_bits_per_byte(const cadre_corpus *corpus, double loss) {
    const cadre_run_of_tokens *valid = cadre_corpus_valid(corpus);
    const cadre_tokenizer *tokenizer = cadre_corpus_tokenizer(corpus);
    if (!tokenizer || valid->text_bytes <= 0 || valid->count < 2) return NAN;
    cadre_text first = {0}; /* the first token is not predicted: its bytes do not count */
    double bytes = (double)valid->text_bytes;
    if (!cadre_tokenizer_decode(tokenizer, cadre_token_at(valid, 0), &first))
        bytes -= (double)first.length;
    cadre_text_free(&first);
    return bytes > 0 ? loss * (double)(valid->count - 1) / (M_LN2 * bytes) : NAN;
}
