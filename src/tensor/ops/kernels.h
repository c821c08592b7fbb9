/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that the tables of ops/table.c point to, by operation.
 */
#ifndef CADRE_TENSOR_OPS_KERNELS_H
#define CADRE_TENSOR_OPS_KERNELS_H

#include "tensor/ops/ops.h"

typedef cadre_status cadre_infer_fn(const cadre_call *c, cadre_inferred *ret);
typedef void cadre_cost_fn(const cadre_call *c, cadre_phase phase, cadre_cost *ret);

cadre_infer_fn cadre_linear_infer, cadre_embedding_infer, cadre_positions_infer,
    cadre_layer_norm_infer, cadre_attention_infer, cadre_gelu_infer, cadre_add_infer,
    cadre_dropout_infer, cadre_cross_entropy_infer, cadre_linear_cross_entropy_infer,
    cadre_squared_error_infer, cadre_sum_infer;
cadre_cost_fn cadre_linear_cost, cadre_embedding_cost, cadre_layer_norm_cost, cadre_attention_cost,
    cadre_gelu_cost, cadre_add_cost, cadre_dropout_cost, cadre_loss_cost,
    cadre_linear_cross_entropy_cost;

void cadre_linear_keeps(const cadre_call *c, cadre_kept *ret);
void cadre_linear_cross_entropy_keeps(const cadre_call *c, cadre_kept *ret);
void cadre_attention_keeps(const cadre_call *c, cadre_kept *ret);

/* Reference kernels: forward, backward towards inputs, towards parameters. */
cadre_kernel cadre_ref_linear, cadre_ref_linear_inputs, cadre_ref_linear_params;
cadre_kernel cadre_ref_embedding, cadre_ref_embedding_params;
cadre_kernel cadre_ref_positions, cadre_ref_positions_inputs, cadre_ref_positions_params;
cadre_kernel cadre_ref_layer_norm, cadre_ref_layer_norm_inputs, cadre_ref_layer_norm_params;
cadre_kernel cadre_ref_attention, cadre_ref_attention_inputs;
cadre_kernel cadre_ref_gelu, cadre_ref_gelu_inputs;
cadre_kernel cadre_ref_add, cadre_ref_add_inputs;
cadre_kernel cadre_ref_dropout, cadre_ref_dropout_inputs;
cadre_kernel cadre_ref_cross_entropy, cadre_ref_linear_cross_entropy,
    cadre_ref_squared_error_inputs, cadre_ref_sum, cadre_ref_sum_inputs;

/* Fast kernels in f32 and bf16 (ops/cpu); another dtype they hand to the reference. */
cadre_kernel cadre_cpu_linear, cadre_cpu_linear_inputs, cadre_cpu_linear_params;
cadre_kernel cadre_cpu_embedding, cadre_cpu_embedding_params;
cadre_kernel cadre_cpu_positions, cadre_cpu_positions_inputs, cadre_cpu_positions_params;
cadre_kernel cadre_cpu_layer_norm, cadre_cpu_layer_norm_inputs, cadre_cpu_layer_norm_params;
cadre_kernel cadre_cpu_attention, cadre_cpu_attention_inputs;
cadre_kernel cadre_cpu_gelu, cadre_cpu_gelu_inputs;
cadre_kernel cadre_cpu_add, cadre_cpu_add_inputs;
cadre_kernel cadre_cpu_dropout, cadre_cpu_dropout_inputs;
cadre_kernel cadre_cpu_cross_entropy, cadre_cpu_linear_cross_entropy;

#endif
