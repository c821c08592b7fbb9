/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_cross_entropy: the head of a language model and its loss in one, in blocks of rows, so
 * that the logits of a long batch are never held whole.
 *
 *   x (R, C), W (V, C), labels (R) -> f64 (2): sum of losses, count
 *   block of rows:  logits = x W'    losses    dlogits in the logits' place
 *                   dW += dlogits' x    dx = dlogits W, in x's place
 *
 * Logits are in f32 also where x is in bf16; their gradient is then narrowed, row by row in place.
 *
 * The gradient of a loss is one, so all of it can be had in the forward of a training pass; done
 * later, it would take the logits again.
 */
#include "tensor/ops/linear_cross_entropy.h"

#include <string.h>

#include "tensor/ops/losses.h"
#include "tensor/ops/ref.h"

enum { BLOCK_BYTES = 1 << 27, BLOCK_LEAST = 64 };

/* Rows of a block: as few equal blocks as keep the logits within BLOCK_BYTES. */
static int64_t block_rows(int64_t rows, int64_t classes, size_t size) {
    int64_t most = BLOCK_BYTES / (classes * (int64_t)size) / BLOCK_LEAST * BLOCK_LEAST;
    if (most < BLOCK_LEAST) most = BLOCK_LEAST;
    int64_t blocks = (rows + most - 1) / most;
    return blocks ? (rows + blocks - 1) / blocks : 0;
}

cadre_status cadre_linear_cross_entropy_infer(const cadre_call *c, cadre_inferred *ret) {
    CADRE_TRY(cadre_check_entropy(c));
    CADRE_CHECK_ALIKE(c);
    const cadre_tensor *x = c->in[0], *w = c->param[0];
    char shape[96];
    CADRE_CHECK(w->dims.n == 2 && w->dims.at[1] == cadre_columns(x), CADRE_EUSAGE,
                "linear_cross_entropy: a weight of %lld columns is needed, not %s",
                (long long)cadre_columns(x), cadre_dims_text(shape, sizeof shape, &w->dims));
    *ret = cadre_nothing_made();
    ret->out = (cadre_made){CADRE_F64, cadre_dims1(2)};
    ret->saved[0] = (cadre_made){CADRE_F64, cadre_dims1(cadre_rows(x))};
    int64_t classes = w->dims.at[0];
    cadre_dtype dtype = cadre_sum_dtype(x->dtype);
    int64_t block = block_rows(cadre_rows(x), classes, cadre_dtype_size(dtype));
    ret->scratch = (cadre_made){dtype, cadre_dims2(block, classes)};
    return CADRE_OK;
}

/* Three products in the forward of a training pass, one elsewhere. */
void cadre_linear_cross_entropy_cost(const cadre_call *c, cadre_phase phase, cadre_cost *ret) {
    double rows = (double)cadre_rows(c->in[0]), in = (double)cadre_columns(c->in[0]),
           out = (double)c->param[0]->dims.at[0], products = c->a.training ? 3 : 1;
    double size = (double)cadre_dtype_size(c->in[0]->dtype);
    if (phase != CADRE_FORWARD) return;
    ret->matmul_flops = products * 2 * rows * in * out;
    ret->flops = ret->matmul_flops + 6 * rows * out;
    ret->bytes = products * size * (rows * in + in * out + rows * out) + 2 * rows * out * size;
}

cadre_status cadre_head_blocks(cadre_queue *q, cadre_call *c, cadre_head_block_fn *fn) {
    int64_t rows = cadre_rows(c->in[0]), columns = cadre_columns(c->in[0]);
    int64_t most = c->scratch->dims.at[0], classes = c->scratch->dims.at[1];
    size_t size = cadre_dtype_size(c->in[0]->dtype);
    CADRE_TRY(cadre_check_labels(c, classes));
    if (rows == 0 && c->dparam[0] && !c->dparam_add[0])
        memset(c->dparam[0]->data, 0, cadre_tensor_bytes(c->dparam[0]));
    for (int64_t first = 0; first < rows; first += most) {
        int64_t n = rows - first < most ? rows - first : most;
        cadre_head_block b = {.first = first, .logits = *c->scratch, .x = *c->in[0]};
        b.logits.dims = cadre_dims2(n, classes);
        b.x.dims = cadre_dims2(n, columns);
        b.x.data = (char *)c->in[0]->data + (size_t)(first * columns) * size;
        b.add = first > 0 || c->dparam_add[0];
        CADRE_TRY(fn(q, c, &b));
    }
    cadre_put_loss(c, cadre_count_labels(c));
    return CADRE_OK;
}

/* ---- reference ---- */

static void ref_row(cadre_call *c, const cadre_head_block *b, int64_t r, bool add) {
    const cadre_tensor *w = c->param[0];
    int64_t classes = w->dims.at[0], columns = w->dims.at[1];
    cadre_tensor logits = b->logits, x = b->x;
    for (int64_t v = 0; v < classes; v++) {
        double sum = 0;
        for (int64_t i = 0; i < columns; i++)
            sum += at(&x, r * columns + i) * at(w, v * columns + i);
        put(&logits, r * classes + v, sum);
    }
    int32_t label = ((const int32_t *)c->in[1]->data)[b->first + r];
    ((double *)c->saved[0]->data)[b->first + r] =
        cadre_ref_row_loss(&logits, r, label, c->a.label_smoothing, c->a.training);
    if (!c->a.training) return;
    for (int64_t n = 0; c->dparam[0] && n < classes * columns; n++)
        put_or_add(c->dparam[0], n,
                   at(&logits, r * classes + n / columns) * at(&x, r * columns + n % columns), add);
    for (int64_t i = 0; i < columns; i++) {
        double sum = 0;
        for (int64_t v = 0; v < classes; v++)
            sum += at(&logits, r * classes + v) * at(w, v * columns + i);
        put(&x, r * columns + i, sum);
    }
}

static cadre_status ref_block(cadre_queue *q, cadre_call *c, const cadre_head_block *b) {
    (void)q;
    for (int64_t r = 0; r < b->x.dims.at[0]; r++) ref_row(c, b, r, b->add || r > 0);
    return CADRE_OK;
}

cadre_status cadre_ref_linear_cross_entropy(cadre_queue *q, cadre_call *c) {
    return cadre_head_blocks(q, c, ref_block);
}
