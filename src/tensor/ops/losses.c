/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses: f64 (2): a sum and its count. Their own gradient is one.
 *
 * cross-entropy over V classes, with e = label smoothing:
 *   row loss = -(1 - e) log p[label] - e / V sum over v of log p[v]
 *   in training in[0] is overwritten with p - (1 - e) [v = label] - e / V; ignored rows give 0
 *   saved[0] f64 (rows): the rows' losses, added along the tree T
 *
 * squared error: sum of (x - target)^2, count of elements        dx = 2 (x - target)
 *
 * sum: sum of all elements, count of rows                        dx = 1
 */
#include "tensor/ops/losses.h"

#include "base/tree.h"
#include "tensor/ops/ref.h"

cadre_status cadre_check_entropy(const cadre_call *c) {
    CADRE_CHECK_REAL(c);
    const cadre_tensor *x = c->in[0], *labels = c->in[1];
    CADRE_CHECK(labels && labels->dtype == CADRE_I32, CADRE_EUSAGE,
                "cross-entropy takes labels in i32, not %s",
                labels ? cadre_dtype_name(labels->dtype) : "none");
    CADRE_CHECK(x->dims.n >= 1 && cadre_count(labels) == cadre_rows(x), CADRE_EUSAGE,
                "cross-entropy: %lld labels for %lld rows", (long long)cadre_count(labels),
                (long long)cadre_rows(x));
    CADRE_CHECK(c->a.label_smoothing >= 0 && c->a.label_smoothing < 1, CADRE_EUSAGE,
                "cross-entropy: label smoothing %g; it takes 0 to below 1", c->a.label_smoothing);
    return CADRE_OK;
}

cadre_status cadre_cross_entropy_infer(const cadre_call *c, cadre_inferred *ret) {
    CADRE_TRY(cadre_check_entropy(c));
    *ret = cadre_nothing_made();
    ret->out = (cadre_made){CADRE_F64, cadre_dims1(2)};
    ret->saved[0] = (cadre_made){CADRE_F64, cadre_dims1(cadre_rows(c->in[0]))};
    return CADRE_OK;
}

cadre_status cadre_squared_error_infer(const cadre_call *c, cadre_inferred *ret) {
    CADRE_CHECK_REAL(c);
    char a[96], b[96];
    CADRE_CHECK(c->in[1] && cadre_dims_equal(&c->in[0]->dims, &c->in[1]->dims) &&
                    c->in[0]->dtype == c->in[1]->dtype,
                CADRE_EUSAGE, "squared error: %s and its target %s are not of one shape and type",
                cadre_dims_text(a, sizeof a, &c->in[0]->dims),
                c->in[1] ? cadre_dims_text(b, sizeof b, &c->in[1]->dims) : "(none)");
    *ret = cadre_nothing_made();
    ret->out = (cadre_made){CADRE_F64, cadre_dims1(2)};
    return CADRE_OK;
}

cadre_status cadre_sum_infer(const cadre_call *c, cadre_inferred *ret) {
    CADRE_CHECK_REAL(c);
    *ret = cadre_nothing_made();
    ret->out = (cadre_made){CADRE_F64, cadre_dims1(2)};
    return CADRE_OK;
}

void cadre_loss_cost(const cadre_call *c, cadre_phase phase, cadre_cost *ret) {
    double n = (double)cadre_count(c->in[0]), size = (double)cadre_dtype_size(c->in[0]->dtype);
    bool entropy = c->op == CADRE_OP_CROSS_ENTROPY;
    if (phase == CADRE_BACKWARD_PARAMS || (phase == CADRE_BACKWARD_INPUTS && entropy)) return;
    *ret = (cadre_cost){.flops = (entropy ? 6 : 2) * n, .bytes = (entropy ? 2 : 1) * n * size};
}

cadre_status cadre_check_labels(const cadre_call *c, int64_t classes) {
    const int32_t *label = c->in[1]->data;
    for (int64_t r = 0; r < cadre_count(c->in[1]); r++)
        CADRE_CHECK(label[r] >= -1 && label[r] < classes, CADRE_EDATA,
                    "label %d at place %lld is out of range; it takes 0 to %lld, or -1 for none",
                    label[r], (long long)r, (long long)classes - 1);
    return CADRE_OK;
}

void cadre_put_loss(cadre_call *c, double count) {
    double *out = c->out->data;
    out[0] = cadre_tree_sum(c->saved[0]->data, cadre_count(c->saved[0]));
    out[1] = count;
}

double cadre_count_labels(const cadre_call *c) {
    const int32_t *label = c->in[1]->data;
    double count = 0;
    for (int64_t r = 0; r < cadre_count(c->in[1]); r++) count += label[r] >= 0;
    return count;
}

double cadre_ref_row_loss(cadre_tensor *logits, int64_t r, int32_t label, double e, bool training) {
    int64_t classes = cadre_columns(logits), first = r * classes;
    double most = -INFINITY, sum = 0, plain = 0;
    for (int64_t v = 0; label < 0 && training && v < classes; v++) put(logits, first + v, 0);
    if (label < 0) return 0;
    for (int64_t v = 0; v < classes; v++) most = fmax(most, at(logits, first + v));
    for (int64_t v = 0; v < classes; v++) sum += exp(at(logits, first + v) - most);
    double log_sum = most + log(sum);
    for (int64_t v = 0; v < classes; v++) plain += at(logits, first + v) - log_sum;
    double loss = -(1 - e) * (at(logits, first + label) - log_sum) - e / (double)classes * plain;
    for (int64_t v = 0; training && v < classes; v++) {
        double p = exp(at(logits, first + v) - log_sum);
        put(logits, first + v, p - (v == label ? 1 - e : 0) - e / (double)classes);
    }
    return loss;
}

cadre_status cadre_ref_cross_entropy(cadre_queue *q, cadre_call *c) {
    (void)q;
    const int32_t *label = c->in[1]->data;
    double *loss = c->saved[0]->data;
    CADRE_TRY(cadre_check_labels(c, cadre_columns(c->in[0])));
    for (int64_t r = 0; r < cadre_rows(c->in[0]); r++)
        loss[r] = cadre_ref_row_loss(c->in[0], r, label[r], c->a.label_smoothing, c->a.training);
    cadre_put_loss(c, cadre_count_labels(c));
    return CADRE_OK;
}

static double sum_of(const cadre_call *c, int64_t first, int64_t n) {
    if (n > 2) {
        int64_t m = cadre_tree_split(n);
        return sum_of(c, first, m) + sum_of(c, first + m, n - m);
    }
    double sum = 0;
    for (int64_t i = first; i < first + n; i++) {
        double x = at(c->in[0], i), d = c->in[1] ? x - at(c->in[1], i) : 0;
        sum += c->op == CADRE_OP_SUM ? x : d * d;
    }
    return sum;
}

cadre_status cadre_ref_sum(cadre_queue *q, cadre_call *c) {
    (void)q;
    double *out = c->out->data;
    out[0] = sum_of(c, 0, cadre_count(c->in[0]));
    out[1] = (double)(c->op == CADRE_OP_SUM ? cadre_rows(c->in[0]) : cadre_count(c->in[0]));
    return CADRE_OK;
}

cadre_status cadre_ref_squared_error_inputs(cadre_queue *q, cadre_call *c) {
    (void)q;
    for (int64_t i = 0; i < cadre_count(c->in[0]); i++) {
        double d = 2 * (at(c->in[0], i) - at(c->in[1], i));
        if (c->din[0]) put_or_add(c->din[0], i, d, c->din_add[0]);
        if (c->din[1]) put_or_add(c->din[1], i, -d, c->din_add[1]);
    }
    return CADRE_OK;
}

cadre_status cadre_ref_sum_inputs(cadre_queue *q, cadre_call *c) {
    (void)q;
    for (int64_t i = 0; i < cadre_count(c->in[0]); i++) put_or_add(c->din[0], i, 1, c->din_add[0]);
    return CADRE_OK;
}
