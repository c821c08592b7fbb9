/* SPDX-License-Identifier: Apache-2.0
 *
 * Running one phase of a call: cost, trace, kernel.
 */
#include "base/clock.h"
#include "base/trace.h"
#include "tensor/ops/ops.h"

static cadre_status watched(cadre_queue *q, cadre_call *c, cadre_phase phase,
                            cadre_kernel *kernel) {
    cadre_op_watch *watch = q->watch;
    int64_t begin = cadre_now_ns();
    watch->product_ns = 0;
    CADRE_TRY(kernel(q, c));
    watch->done(watch->self, c, phase, cadre_now_ns() - begin, watch->product_ns);
    return CADRE_OK;
}

static void note_kept(cadre_queue *q, const cadre_op *op, const cadre_call *c) {
    cadre_kept kept = {0};
    op->keeps(c, &kept);
    if (q->kept.scratch < kept.scratch) q->kept.scratch = kept.scratch;
    if (q->kept.packed < kept.packed) q->kept.packed = kept.packed;
}

cadre_status cadre_op_run(cadre_queue *q, cadre_call *c, cadre_phase phase) {
    const cadre_op *op = &cadre_op_table[c->op];
    cadre_cost cost = {0};
    op->cost(c, phase, &cost);
    q->cost.flops += cost.flops;
    q->cost.matmul_flops += cost.matmul_flops;
    q->cost.bytes += cost.bytes;
    if (q->meta && op->keeps) note_kept(q, op, c);
    if (q->meta && q->watch) q->watch->done(q->watch->self, c, phase, 0, 0);
    if (q->meta) return CADRE_OK;
    cadre_kernel *kernel = q->backend->kernel[c->op][phase];
    if (!kernel) return CADRE_OK;
    cadre_trace_span span = cadre_trace_enter(CADRE_TRACE_COMPUTE, op->name);
    cadre_status st = q->watch ? watched(q, c, phase, kernel) : kernel(q, c);
    cadre_trace_leave(span, (int64_t)cost.bytes);
    if (st) return cadre_pass_at(__FILE__, __LINE__, __func__, st);
    return CADRE_OK;
}
