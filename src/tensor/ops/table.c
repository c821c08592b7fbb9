/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables: one row an operation, one row its kernels a backend, one row a backend. A new
 * operation is a file of its own and rows here.
 */
#include <pthread.h>
#include <string.h>

#include "tensor/ops/kernels.h"

const cadre_op cadre_op_table[CADRE_OPS] = {
    [CADRE_OP_LINEAR] = {.name = "linear",
                         .help = "x W' + b, optionally through GELU",
                         .inputs = 1,
                         .params = 2,
                         .infer = cadre_linear_infer,
                         .cost = cadre_linear_cost,
                         .keeps = cadre_linear_keeps,
                         .reads_in = {true}},
    [CADRE_OP_EMBEDDING] = {.name = "embedding",
                            .help = "rows of a table by id",
                            .inputs = 1,
                            .params = 1,
                            .infer = cadre_embedding_infer,
                            .cost = cadre_embedding_cost,
                            .reads_in = {true}},
    [CADRE_OP_POSITIONS] = {.name = "positions",
                            .help = "adds a learned row to each place of a sequence",
                            .inputs = 1,
                            .params = 1,
                            .infer = cadre_positions_infer,
                            .cost = cadre_embedding_cost,
                            .gradient_passes = true},
    [CADRE_OP_LAYER_NORM] = {.name = "layer_norm",
                             .help =
                                 "mean 0 and variance 1 over the last dim, then weight and bias",
                             .inputs = 1,
                             .params = 2,
                             .infer = cadre_layer_norm_infer,
                             .cost = cadre_layer_norm_cost,
                             .reads_in = {true}},
    [CADRE_OP_ATTENTION] = {.name = "attention",
                            .help = "causal self-attention over (B, T, 3C)",
                            .inputs = 1,
                            .infer = cadre_attention_infer,
                            .cost = cadre_attention_cost,
                            .keeps = cadre_attention_keeps,
                            .reads_in = {true},
                            .reads_out = true},
    [CADRE_OP_GELU] = {.name = "gelu",
                       .help = "x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
                       .inputs = 1,
                       .infer = cadre_gelu_infer,
                       .cost = cadre_gelu_cost,
                       .reads_in = {true}},
    [CADRE_OP_ADD] = {.name = "add",
                      .help = "a + b",
                      .inputs = 2,
                      .infer = cadre_add_infer,
                      .cost = cadre_add_cost,
                      .gradient_passes = true},
    [CADRE_OP_DROPOUT] = {.name = "dropout",
                          .help = "zeroes elements at a rate and scales the rest",
                          .inputs = 1,
                          .infer = cadre_dropout_infer,
                          .cost = cadre_dropout_cost},
    [CADRE_OP_CROSS_ENTROPY] = {.name = "cross_entropy",
                                .help = "sum of -log softmax(logits)[label], with its gradient",
                                .inputs = 2,
                                .infer = cadre_cross_entropy_infer,
                                .cost = cadre_loss_cost,
                                .gradient_in_place = true,
                                .loss = true},
    [CADRE_OP_LINEAR_CROSS_ENTROPY] = {.name = "linear_cross_entropy",
                                       .help = "cross_entropy of x W', in blocks of rows",
                                       .inputs = 2,
                                       .params = 1,
                                       .infer = cadre_linear_cross_entropy_infer,
                                       .cost = cadre_linear_cross_entropy_cost,
                                       .keeps = cadre_linear_cross_entropy_keeps,
                                       .gradient_in_place = true,
                                       .params_in_forward = true,
                                       .loss = true},
    [CADRE_OP_SQUARED_ERROR] = {.name = "squared_error",
                                .help = "sum of (x - target)^2",
                                .inputs = 2,
                                .infer = cadre_squared_error_infer,
                                .cost = cadre_loss_cost,
                                .reads_in = {true, true},
                                .loss = true},
    [CADRE_OP_SUM] = {.name = "sum",
                      .help = "sum of all elements",
                      .inputs = 1,
                      .infer = cadre_sum_infer,
                      .cost = cadre_loss_cost,
                      .loss = true},
};

typedef struct kernel_row {
    cadre_op_id op;
    cadre_kernel *kernel[CADRE_PHASES]; /* forward, towards inputs, towards parameters */
} kernel_row;

static const kernel_row ref_rows[] = {
    {CADRE_OP_LINEAR, {cadre_ref_linear, cadre_ref_linear_inputs, cadre_ref_linear_params}},
    {CADRE_OP_EMBEDDING, {cadre_ref_embedding, NULL, cadre_ref_embedding_params}},
    {CADRE_OP_POSITIONS,
     {cadre_ref_positions, cadre_ref_positions_inputs, cadre_ref_positions_params}},
    {CADRE_OP_LAYER_NORM,
     {cadre_ref_layer_norm, cadre_ref_layer_norm_inputs, cadre_ref_layer_norm_params}},
    {CADRE_OP_ATTENTION, {cadre_ref_attention, cadre_ref_attention_inputs, NULL}},
    {CADRE_OP_GELU, {cadre_ref_gelu, cadre_ref_gelu_inputs, NULL}},
    {CADRE_OP_ADD, {cadre_ref_add, cadre_ref_add_inputs, NULL}},
    {CADRE_OP_DROPOUT, {cadre_ref_dropout, cadre_ref_dropout_inputs, NULL}},
    {CADRE_OP_CROSS_ENTROPY, {cadre_ref_cross_entropy, NULL, NULL}},
    {CADRE_OP_LINEAR_CROSS_ENTROPY, {cadre_ref_linear_cross_entropy, NULL, NULL}},
    {CADRE_OP_SQUARED_ERROR, {cadre_ref_sum, cadre_ref_squared_error_inputs, NULL}},
    {CADRE_OP_SUM, {cadre_ref_sum, cadre_ref_sum_inputs, NULL}},
};

static const kernel_row cpu_rows[] = {
    {CADRE_OP_LINEAR, {cadre_cpu_linear, cadre_cpu_linear_inputs, cadre_cpu_linear_params}},
    {CADRE_OP_EMBEDDING, {cadre_cpu_embedding, NULL, cadre_cpu_embedding_params}},
    {CADRE_OP_POSITIONS,
     {cadre_cpu_positions, cadre_cpu_positions_inputs, cadre_cpu_positions_params}},
    {CADRE_OP_LAYER_NORM,
     {cadre_cpu_layer_norm, cadre_cpu_layer_norm_inputs, cadre_cpu_layer_norm_params}},
    {CADRE_OP_ATTENTION, {cadre_cpu_attention, cadre_cpu_attention_inputs, NULL}},
    {CADRE_OP_GELU, {cadre_cpu_gelu, cadre_cpu_gelu_inputs, NULL}},
    {CADRE_OP_ADD, {cadre_cpu_add, cadre_cpu_add_inputs, NULL}},
    {CADRE_OP_DROPOUT, {cadre_cpu_dropout, cadre_cpu_dropout_inputs, NULL}},
    {CADRE_OP_CROSS_ENTROPY, {cadre_cpu_cross_entropy, NULL, NULL}},
    {CADRE_OP_LINEAR_CROSS_ENTROPY, {cadre_cpu_linear_cross_entropy, NULL, NULL}},
};

static cadre_backend backends[] = {
    {.name = "ref", .help = "plain C in f32 and f64: slow and obviously right"},
    {.name = "cpu", .help = "oneDNN and vectorised kernels in f32 and bf16; the rest as ref"},
    {.name = "meta", .help = "shapes and costs, no data"},
};
enum { REF, CPU };

static void put_rows(cadre_backend *b, const kernel_row *rows, int count) {
    for (int i = 0; i < count; i++)
        memcpy(b->kernel[rows[i].op], rows[i].kernel, sizeof rows[i].kernel);
}

/* Every slot starts as the reference; hardware replaces what it has. */
static void fill(void) {
    put_rows(&backends[REF], ref_rows, CADRE_COUNT(ref_rows));
    put_rows(&backends[CPU], ref_rows, CADRE_COUNT(ref_rows));
    put_rows(&backends[CPU], cpu_rows, CADRE_COUNT(cpu_rows));
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

int cadre_backend_count(void) {
    return CADRE_COUNT(backends);
}

const cadre_backend *cadre_backend_at(int i) {
    pthread_once(&once, fill);
    return &backends[i];
}

const cadre_backend *cadre_backend_find(const char *name) {
    for (int i = 0; i < cadre_backend_count(); i++)
        if (strcmp(backends[i].name, name) == 0) return cadre_backend_at(i);
    return NULL;
}
