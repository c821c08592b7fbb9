/* SPDX-License-Identifier: Apache-2.0
 *
 * Running one phase of a call: cost, trace, kernel.
 */
#include "base/trace.h"
#include "tensor/ops/ops.h"

cadre_status cadre_op_run(cadre_queue *q, cadre_call *c, cadre_phase phase) {
    const cadre_op *op = &cadre_op_table[c->op];
    cadre_cost cost = {0};
    op->cost(c, phase, &cost);
    q->cost.flops += cost.flops;
    q->cost.matmul_flops += cost.matmul_flops;
    q->cost.bytes += cost.bytes;
    if (q->meta) return CADRE_OK;
    cadre_kernel *kernel = q->backend->kernel[c->op][phase];
    if (!kernel) return CADRE_OK;
    cadre_trace_span span = cadre_trace_enter(CADRE_TRACE_COMPUTE, op->name);
    cadre_status st = kernel(q, c);
    cadre_trace_leave(span, (int64_t)cost.bytes);
    if (st) return cadre_pass_at(__FILE__, __LINE__, __func__, st);
    return CADRE_OK;
}
