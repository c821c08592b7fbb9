/* SPDX-License-Identifier: Apache-2.0
 *
 * cross-entropy in f32 and bf16, cut over the pool by rows; in training the row becomes its own
 * gradient while it is in the cache.
 */
#include "tensor/ops/cpu/cross_entropy.h"
#include "tensor/ops/cpu/pooled.h"
#include "tensor/ops/cpu/simd.h"
#include "tensor/ops/kernels.h"
#include "tensor/ops/losses.h"

enum { ROW_GRAIN = 16 };

/* log of the sum of e^x. */
CADRE_CLONES static float log_sum(const float *x, int64_t n) {
    float most = -INFINITY, sum = 0;
#pragma omp simd reduction(max : most)
    for (int64_t v = 0; v < n; v++) most = x[v] > most ? x[v] : most;
#pragma omp simd reduction(+ : sum)
    for (int64_t v = 0; v < n; v++) sum += exp_fast(x[v] - most);
    return most + logf(sum);
}

CADRE_CLONES static float plain_sum(const float *x, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t v = 0; v < n; v++) sum += x[v];
    return sum;
}

CADRE_CLONES static void to_gradient(float *x, int64_t n, float log_total, float each) {
#pragma omp simd
    for (int64_t v = 0; v < n; v++) x[v] = exp_fast(x[v] - log_total) - each;
}

static double row_loss(float *x, int64_t n, int32_t label, double smoothing, bool training) {
    float log_total = log_sum(x, n);
    double loss = -(1 - smoothing) * ((double)x[label] - log_total);
    if (smoothing > 0) loss -= smoothing * ((double)plain_sum(x, n) / (double)n - log_total);
    if (training) {
        to_gradient(x, n, log_total, (float)(smoothing / (double)n));
        x[label] -= (float)(1 - smoothing);
    }
    return loss;
}

double cadre_cross_entropy_row(const cadre_tensor *logits, int64_t r, int32_t label,
                               double smoothing, bool training, float *room) {
    int64_t n = cadre_columns(logits);
    size_t size = cadre_dtype_size(logits->dtype);
    if (label < 0) {
        if (training) memset((char *)logits->data + (size_t)(r * n) * size, 0, (size_t)n * size);
        return 0;
    }
    float *x = cadre_piece_open(logits, r * n, n, true, room);
    double loss = row_loss(x, n, label, smoothing, training);
    if (training) cadre_piece_close(logits, r * n, n, x);
    return loss;
}

static cadre_status rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t n = cadre_columns(c->in[0]);
    const int32_t *label = c->in[1]->data;
    double *loss = c->saved[0]->data;
    float *room = NULL;
    if (!cadre_in_f32(c->in[0])) CADRE_TRY(cadre_scratch((size_t)n * sizeof *room, &room));
    for (int64_t r = begin; r < end; r++)
        loss[r] = cadre_cross_entropy_row(c->in[0], r, label[r], c->a.label_smoothing,
                                          c->a.training, room);
    return CADRE_OK;
}

cadre_status cadre_cpu_cross_entropy(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->in[0])) return cadre_ref_cross_entropy(q, c);
    CADRE_TRY(cadre_check_labels(c, cadre_columns(c->in[0])));
    CADRE_TRY(cadre_pooled(q, c, cadre_rows(c->in[0]), ROW_GRAIN, rows));
    cadre_put_loss(c, cadre_count_labels(c));
    return CADRE_OK;
}
