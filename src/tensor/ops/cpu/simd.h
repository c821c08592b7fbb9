/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector code without intrinsics: plain loops and `#pragma omp simd`, compiled several times
 * (CADRE_CLONES) and chosen at load time, so that one binary serves any x86-64. Sanitizers and
 * other compilers get the plain version.
 */
#ifndef CADRE_TENSOR_OPS_CPU_SIMD_H
#define CADRE_TENSOR_OPS_CPU_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/clones.h"

#define CADRE_INLINE static inline __attribute__((always_inline))

/* An element as f32, so that one loop is written for f32 and bf16. */
CADRE_INLINE float from_f32(float x) {
    return x;
}

CADRE_INLINE float from_bf16(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* e^x to about 2 units in the last place (Cody and Waite's reduction, a polynomial of degree 7); 0
 * below -87, held at e^88 above 88, NaN for NaN. */
CADRE_INLINE float exp_fast(float x) {
    float held = -87.0f > x ? -87.0f : x; /* in this order NaN passes */
    held = 88.0f < held ? 88.0f : held;
    float shifted =
        held * 1.44269504088896341f + 12582912.0f; /* 1.5 x 2^23: rounds to a whole number */
    float n = shifted - 12582912.0f;
    float r = held - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    int32_t bits, power; /* 2^n: n is the low part of `shifted` */
    memcpy(&bits, &shifted, sizeof bits);
    power = (int32_t)((uint32_t)(bits + 127) << 23);
    float scale;
    memcpy(&scale, &power, sizeof scale);
    return x < -87.0f ? 0.0f : p * scale;
}

/* gelu(x) = x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3), s the logistic function: the tanh form
 * without its cancellation. */
CADRE_INLINE float gelu_fast(float x) {
    float twice_u = 1.59576912160573071f * (x + 0.044715f * x * x * x);
    return x / (1.0f + exp_fast(-twice_u));
}

CADRE_INLINE float gelu_slope_fast(float x) {
    float twice_u = 1.59576912160573071f * (x + 0.044715f * x * x * x);
    float s = 1.0f / (1.0f + exp_fast(-twice_u));
    return s + x * s * (1.0f - s) * 1.59576912160573071f * (1.0f + 0.134145f * x * x);
}

#endif
