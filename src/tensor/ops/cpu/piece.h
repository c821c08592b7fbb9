/* SPDX-License-Identifier: Apache-2.0
 *
 * How a kernel that computes in f32 reads and writes a run of elements: where they lie when the
 * tensor is f32; through a little room of the caller's when it is bf16.
 *
 *   const float *x = cadre_piece_read(c->in[0], first, n, room);
 *   float *y = cadre_piece_open(c->out, first, n, false, other_room);
 *   ... y[i] = f(x[i]) ...
 *   cadre_piece_close(c->out, first, n, y);
 */
#ifndef CADRE_TENSOR_OPS_CPU_PIECE_H
#define CADRE_TENSOR_OPS_CPU_PIECE_H

#include "tensor/tensor.h"

enum { CADRE_PIECE = 1024 }; /* elements: what fits a kernel's stack and the nearest cache */

/* Elements of the next piece of [at, end). */
static inline int64_t cadre_piece_length(int64_t at, int64_t end) {
    return end - at < CADRE_PIECE ? end - at : CADRE_PIECE;
}

static inline bool cadre_in_f32(const cadre_tensor *t) {
    return t->dtype == CADRE_F32;
}

static inline const float *cadre_piece_read(const cadre_tensor *t, int64_t first, int64_t n,
                                            float *room) {
    if (cadre_in_f32(t)) return (const float *)t->data + first;
    cadre_widen((const uint16_t *)t->data + first, room, n);
    return room;
}

/* Where n results go. `keep`: the kernel reads what is there (it adds to it). */
static inline float *cadre_piece_open(const cadre_tensor *t, int64_t first, int64_t n, bool keep,
                                      float *room) {
    if (cadre_in_f32(t)) return (float *)t->data + first;
    if (keep) cadre_widen((const uint16_t *)t->data + first, room, n);
    return room;
}

static inline void cadre_piece_close(const cadre_tensor *t, int64_t first, int64_t n,
                                     const float *values) {
    if (!cadre_in_f32(t)) cadre_narrow(values, (uint16_t *)t->data + first, n);
}

/* f32 and bf16 have fast kernels; f64 has the reference. */
static inline bool cadre_is_fast(const cadre_tensor *t) {
    return t->dtype == CADRE_F32 || t->dtype == CADRE_BF16;
}

#endif
