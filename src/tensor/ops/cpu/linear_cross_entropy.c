/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_cross_entropy in f32 and bf16: the products of a block in tiles over the pool, its losses
 * by rows.
 */
#include "tensor/ops/linear_cross_entropy.h"

#include "tensor/ops/cpu/cross_entropy.h"
#include "tensor/ops/cpu/linear.h"
#include "tensor/ops/cpu/pooled.h"
#include "tensor/ops/kernels.h"

enum { ROW_GRAIN = 16 };

typedef struct rows_of {
    const cadre_call *call;
    const cadre_head_block *block;
} rows_of;

static cadre_status losses(void *self, int64_t begin, int64_t end) {
    const rows_of *w = self;
    const cadre_call *c = w->call;
    const cadre_tensor *logits = &w->block->logits;
    const int32_t *label = (const int32_t *)c->in[1]->data + w->block->first;
    double *loss = (double *)c->saved[0]->data + w->block->first;
    float *room = NULL;
    if (!cadre_in_f32(logits))
        CADRE_TRY(cadre_scratch((size_t)cadre_columns(logits) * sizeof *room, &room));
    for (int64_t r = begin; r < end; r++)
        loss[r] =
            cadre_cross_entropy_row(logits, r, label[r], c->a.label_smoothing, c->a.training, room);
    return CADRE_OK;
}

static cadre_status block(cadre_queue *q, cadre_call *c, const cadre_head_block *b) {
    const cadre_tensor *w = c->param[0];
    int64_t rows = b->x.dims.at[0], columns = b->x.dims.at[1], classes = b->logits.dims.at[1];
    cadre_product p = {.m = rows,
                       .n = classes,
                       .k = columns,
                       .lda = columns,
                       .ldb = columns,
                       .ldc = classes,
                       .ab = b->x.dtype,
                       .c = b->logits.dtype,
                       .b_transposed = true};
    CADRE_TRY(cadre_product_tiled(q, &p, b->x.data, w->data, b->logits.data));
    rows_of work = {c, b};
    CADRE_TRY(cadre_pooled_work(q, &work, rows, ROW_GRAIN, losses));
    if (!c->a.training) return CADRE_OK;
    if (c->dparam[0])
        CADRE_TRY(cadre_linear_weight_gradient(q, &b->x, &b->logits, false, c->dparam[0], b->add));
    cadre_product back = {.m = rows,
                          .n = columns,
                          .k = classes,
                          .lda = classes,
                          .ldb = columns,
                          .ldc = columns,
                          .ab = b->logits.dtype,
                          .c = b->x.dtype};
    return cadre_product_tiled(q, &back, b->logits.data, w->data, b->x.data);
}

cadre_status cadre_cpu_linear_cross_entropy(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->in[0])) return cadre_ref_linear_cross_entropy(q, c);
    return cadre_head_blocks(q, c, block);
}
