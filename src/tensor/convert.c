/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers from one type to another, rounded to nearest, ties to even.
 */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "tensor/tensor.h"

float cadre_bf16_to_f32(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t cadre_f32_to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u); /* NaN, quiet */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

uint16_t cadre_f64_to_bf16(double x) {
    /* Through f32 with the rest folded into the last bit ("round to odd"), so that it rounds once.
     */
    float near = (float)x;
    uint32_t bits;
    memcpy(&bits, &near, sizeof bits);
    if ((double)near != x && isfinite(x)) {
        if (fabs((double)near) > fabs(x)) bits--;
        bits |= 1;
    }
    memcpy(&near, &bits, sizeof near);
    return cadre_f32_to_bf16(near);
}

bool cadre_is_real(cadre_dtype dtype) {
    return dtype == CADRE_F32 || dtype == CADRE_F64 || dtype == CADRE_BF16;
}

/* The same as loops over bits, which compilers turn into vectors. */
typedef uint32_t __attribute__((may_alias)) bits32;

CADRE_CLONES static void narrow(const bits32 *restrict from, uint16_t *restrict to, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = from[i], rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
        to[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
    }
}

CADRE_CLONES static void widen(const uint16_t *restrict from, bits32 *restrict to, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = (uint32_t)from[i] << 16;
}

void cadre_narrow(const float *from, uint16_t *to, int64_t n) {
    narrow((const bits32 *)from, to, n);
}

void cadre_widen(const uint16_t *from, float *to, int64_t n) {
    widen(from, (bits32 *)to, n);
}

enum { PIECE = 2048 };

void cadre_narrow_in_place(void *data, int64_t n) {
    uint16_t piece[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t part = n - at < PIECE ? n - at : PIECE;
        cadre_narrow((const float *)data + at, piece, part);
        memcpy((uint16_t *)data + at, piece, (size_t)part * sizeof *piece);
    }
}

void cadre_widen_in_place(void *data, int64_t n) {
    uint16_t piece[PIECE];
    for (int64_t at = (n - 1) / PIECE * PIECE; n > 0 && at >= 0; at -= PIECE) { /* from the end */
        int64_t part = n - at < PIECE ? n - at : PIECE;
        memcpy(piece, (const uint16_t *)data + at, (size_t)part * sizeof *piece);
        cadre_widen(piece, (float *)data + at, part);
    }
}

static double real_at(const void *from, cadre_dtype dtype, int64_t i) {
    if (dtype == CADRE_F64) return ((const double *)from)[i];
    return (double)(dtype == CADRE_F32 ? ((const float *)from)[i]
                                       : cadre_bf16_to_f32(((const uint16_t *)from)[i]));
}

void cadre_convert(const void *from, cadre_dtype from_dtype, void *to, cadre_dtype to_dtype,
                   int64_t n) {
    if (from_dtype == to_dtype) {
        memcpy(to, from, (size_t)n * cadre_dtype_size(to_dtype));
    } else if (from_dtype == CADRE_F32 && to_dtype == CADRE_BF16) {
        cadre_narrow(from, to, n);
    } else if (from_dtype == CADRE_BF16 && to_dtype == CADRE_F32) {
        cadre_widen(from, to, n);
    } else {
        for (int64_t i = 0; i < n; i++) {
            double x = real_at(from, from_dtype, i);
            if (to_dtype == CADRE_F64) ((double *)to)[i] = x;
            if (to_dtype == CADRE_F32) ((float *)to)[i] = (float)x;
            if (to_dtype == CADRE_BF16) ((uint16_t *)to)[i] = cadre_f64_to_bf16(x);
        }
    }
}
