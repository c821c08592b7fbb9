/* SPDX-License-Identifier: Apache-2.0
 *
 * Cadre, tape: a model's formulas. A recorder runs an operation and writes it on the tape; the
 * backward pass replays the tape in reverse. Recorders never return a status: the first failure
 * sticks to the tape and later recorders do nothing, so that a layer reads as a formula; whoever
 * runs the model gets the failure. Every tensor a recorder returns belongs to the tape. Inside a
 * block of a model it lives until the block's forward returns, and what the block returns until the
 * next block's does; memory that nobody needs any more is used again, and cadre_tensor_data is then
 * NULL. After a failure recorders return a valid placeholder that must not be read.
 *
 * A model's forward only records: in a dry run (`cadre plan`) the same code runs with shapes and no
 * data.
 */
#ifndef CADRE_TAPE_H
#define CADRE_TAPE_H

#include <cadre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_tape cadre_tape;

/* A parameter by handle: where its values and gradient lie is looked up at each use. */
typedef struct cadre_parameter cadre_parameter;

/* A tensor of the batch by name: "inputs" is handed to the first block; "labels" and others are
 * fetched here. NULL in a pass without labels (generation), and then only there. */
CADRE_API cadre_tensor *cadre_input(cadre_tape *t, const char *name);

/* x (..., in) -> (..., out): x W' + b. `weight` (out, in), `bias` (out) or NULL. */
CADRE_API cadre_tensor *cadre_linear(cadre_tape *t, cadre_tensor *x, const cadre_parameter *weight,
                                     const cadre_parameter *bias);
/* The same with gelu() of the result, fused. */
CADRE_API cadre_tensor *cadre_linear_gelu(cadre_tape *t, cadre_tensor *x,
                                          const cadre_parameter *weight,
                                          const cadre_parameter *bias);
/* The same two with `weight` (in, out): the orientation of GPT-2's files. */
CADRE_API cadre_tensor *cadre_linear_in_out(cadre_tape *t, cadre_tensor *x,
                                            const cadre_parameter *weight,
                                            const cadre_parameter *bias);
CADRE_API cadre_tensor *cadre_linear_in_out_gelu(cadre_tape *t, cadre_tensor *x,
                                                 const cadre_parameter *weight,
                                                 const cadre_parameter *bias);
/* ids (i32, any shape) -> (..., width): rows of `table` (vocab, width). */
CADRE_API cadre_tensor *cadre_embedding(cadre_tape *t, cadre_tensor *ids,
                                        const cadre_parameter *table);
/* x (B, T, C) + table[0..T): learned positions; `table` (context, C), T <= context. */
CADRE_API cadre_tensor *cadre_positions(cadre_tape *t, cadre_tensor *x,
                                        const cadre_parameter *table);
/* Normalises the last dim to mean 0, variance 1, then weight and bias (C) (Ba, Kiros, Hinton 2016).
 */
CADRE_API cadre_tensor *cadre_layer_norm(cadre_tape *t, cadre_tensor *x,
                                         const cadre_parameter *weight, const cadre_parameter *bias,
                                         double eps);
/* qkv (B, T, 3C) -> (B, T, C): causal self-attention of `heads` heads, softmax(q k' / sqrt(C /
 * heads)) v. */
CADRE_API cadre_tensor *cadre_attention(cadre_tape *t, cadre_tensor *qkv, int64_t heads);
/* Tanh form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks, Gimpel 2016). */
CADRE_API cadre_tensor *cadre_gelu(cadre_tape *t, cadre_tensor *x);
CADRE_API cadre_tensor *cadre_add(cadre_tape *t, cadre_tensor *a, cadre_tensor *b);
/* Zeroes elements with probability `rate` and scales the rest by 1 / (1 - rate), in training passes
 * alone. `site` names the place ("h.0.attn") and keys the mask with seed, step, sample and element,
 * so every layout draws the same; the text is borrowed until the next pass. */
CADRE_API cadre_tensor *cadre_dropout(cadre_tape *t, cadre_tensor *x, double rate,
                                      const char *site);

/* Losses. A loss is a sum with its count, f64 (2); the mean is taken once, over all ranks and
 * micro-batches. */

/* logits (..., V), labels (...) i32, -1 ignored: sum of -log softmax(logits)[label] and the number
 * of labels that count. In a training pass the logits' memory is reused for their gradient: do not
 * read them afterwards. In a pass without labels (labels NULL) it hands the logits through. */
CADRE_API cadre_tensor *cadre_cross_entropy(cadre_tape *t, cadre_tensor *logits,
                                            cadre_tensor *labels);
/* cadre_cross_entropy(t, cadre_linear(t, x, weight, NULL), labels) with weight (V, C), in blocks of
 * rows, so that the logits of a long batch are never held whole. In a training pass x's memory is
 * reused for its gradient: nothing else may read x. In a pass without labels it hands out the
 * logits. */
CADRE_API cadre_tensor *cadre_linear_cross_entropy(cadre_tape *t, cadre_tensor *x,
                                                   const cadre_parameter *weight,
                                                   cadre_tensor *labels);
/* Sum of (x - target)^2 and the number of elements. */
CADRE_API cadre_tensor *cadre_squared_error(cadre_tape *t, cadre_tensor *x, cadre_tensor *target);
/* Sum of all elements and the number of rows. */
CADRE_API cadre_tensor *cadre_sum(cadre_tape *t, cadre_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
