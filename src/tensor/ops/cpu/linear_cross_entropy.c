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
    int64_t classes = cadre_columns(logits);
    bool narrow = c->a.training && !cadre_in_f32(c->in[0]);
    for (int64_t r = begin; r < end; r++) {
        loss[r] =
            cadre_cross_entropy_row(logits, r, label[r], c->a.label_smoothing, c->a.training, NULL);
        if (narrow) cadre_narrow_in_place((float *)logits->data + r * classes, classes);
    }
    return CADRE_OK;
}

/* The products of a block: logits, the weight's gradient, the input's. A row that is narrowed in
 * place fills half of its room. */
typedef struct products {
    cadre_product logits, weight, input;
} products;

static products products_of(const cadre_call *c, int64_t rows, bool add) {
    int64_t columns = cadre_columns(c->in[0]), classes = c->param[0]->dims.at[0];
    int64_t stride = cadre_in_f32(c->in[0]) ? classes : 2 * classes;
    products p = {.logits = {.m = rows,
                             .n = classes,
                             .k = columns,
                             .lda = columns,
                             .ldb = columns,
                             .ldc = classes,
                             .c = CADRE_F32,
                             .b_transposed = true},
                  .weight = {.m = classes,
                             .n = columns,
                             .k = rows,
                             .lda = stride,
                             .ldb = columns,
                             .ldc = columns,
                             .c = c->dparam[0] ? c->dparam[0]->dtype : CADRE_F32,
                             .a_transposed = true,
                             .add = add},
                  .input = {.m = rows,
                            .n = columns,
                            .k = classes,
                            .lda = stride,
                            .ldb = columns,
                            .ldc = columns,
                            .c = c->in[0]->dtype}};
    p.logits.ab = p.weight.ab = p.input.ab = c->in[0]->dtype;
    return p;
}

void cadre_linear_cross_entropy_keeps(const cadre_call *c, cadre_kept *ret) {
    products p = products_of(c, c->scratch->dims.at[0], true);
    cadre_product_tiled_keeps(&p.logits, ret);
    if (!c->a.training) return;
    cadre_product_tiled_keeps(&p.weight, ret);
    cadre_product_tiled_keeps(&p.input, ret);
}

static cadre_status block(cadre_queue *q, cadre_call *c, const cadre_head_block *b) {
    const void *w = c->param[0]->data;
    int64_t rows = b->x.dims.at[0];
    products p = products_of(c, rows, b->add);
    CADRE_TRY(cadre_product_tiled(q, &p.logits, b->x.data, w, b->logits.data));
    rows_of work = {c, b};
    CADRE_TRY(cadre_pooled_work(q, &work, rows, ROW_GRAIN, losses));
    if (!c->a.training) return CADRE_OK;
    if (c->dparam[0])
        CADRE_TRY(cadre_product_tiled(q, &p.weight, b->logits.data, b->x.data, c->dparam[0]->data));
    return cadre_product_tiled(q, &p.input, b->logits.data, w, b->x.data);
}

cadre_status cadre_cpu_linear_cross_entropy(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->in[0])) return cadre_ref_linear_cross_entropy(q, c);
    return cadre_head_blocks(q, c, block);
}
