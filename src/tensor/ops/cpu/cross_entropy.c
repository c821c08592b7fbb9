/* SPDX-License-Identifier: Apache-2.0
 *
 * cross-entropy in f32, cut over the pool by rows; in training the row becomes its own gradient
 * while it is in the cache.
 */
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

static cadre_status rows(cadre_call *c, int64_t begin, int64_t end) {
    int64_t n = cadre_columns(c->in[0]);
    const int32_t *label = c->in[1]->data;
    double *loss = c->saved[0]->data;
    for (int64_t r = begin; r < end; r++) {
        float *x = (float *)c->in[0]->data + r * n;
        loss[r] = label[r] < 0 ? 0 : row_loss(x, n, label[r], c->a.label_smoothing, c->a.training);
        if (label[r] < 0 && c->a.training) memset(x, 0, (size_t)n * sizeof *x);
    }
    return CADRE_OK;
}

cadre_status cadre_cpu_cross_entropy(cadre_queue *q, cadre_call *c) {
    if (c->in[0]->dtype != CADRE_F32) return cadre_ref_cross_entropy(q, c);
    CADRE_TRY(cadre_check_labels(c));
    CADRE_TRY(cadre_pooled(q, c, cadre_rows(c->in[0]), ROW_GRAIN, rows));
    const int32_t *label = c->in[1]->data;
    double count = 0;
    for (int64_t r = 0; r < cadre_count(c->in[1]); r++) count += label[r] >= 0;
    cadre_put_loss(c, count);
    return CADRE_OK;
}
