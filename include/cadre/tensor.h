/* SPDX-License-Identifier: Apache-2.0
 *
 * Cadre, tensor: data types, shapes, and arrays of numbers: contiguous, row-major, sizes in 64
 * bits.
 */
#ifndef CADRE_TENSOR_H
#define CADRE_TENSOR_H

#include <cadre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cadre_dtype {
    CADRE_F32 = 0,
    CADRE_F64 = 1,
    CADRE_BF16 = 2,
    CADRE_I32 = 3,
    CADRE_I64 = 4,
    CADRE_U8 = 5,
    CADRE_U16 = 6,
    CADRE_DTYPES = 7
} cadre_dtype;

/* Local, any thread. Bytes an element; "f32", "bf16", ... */
CADRE_API size_t cadre_dtype_size(cadre_dtype dtype);
CADRE_API const char *cadre_dtype_name(cadre_dtype dtype);

#define CADRE_DIMS_MAX 6

/* A shape: n sizes, outermost first. n = 0 is a scalar. */
typedef struct cadre_dims {
    int32_t n;
    int64_t at[CADRE_DIMS_MAX];
} cadre_dims;

CADRE_API cadre_dims cadre_dims0(void);
CADRE_API cadre_dims cadre_dims1(int64_t a);
CADRE_API cadre_dims cadre_dims2(int64_t a, int64_t b);
CADRE_API cadre_dims cadre_dims3(int64_t a, int64_t b, int64_t c);
CADRE_API cadre_dims cadre_dims4(int64_t a, int64_t b, int64_t c, int64_t d);
CADRE_API int64_t cadre_dims_count(const cadre_dims *dims); /* elements */

/* An array of numbers. Those a tape hands out belong to the tape and live until its next pass. */
typedef struct cadre_tensor cadre_tensor;

/* Local. NULL in a dry run, where tensors have shapes but no data. */
CADRE_API void *cadre_tensor_data(const cadre_tensor *t);
CADRE_API cadre_dtype cadre_tensor_dtype(const cadre_tensor *t);
CADRE_API cadre_dims cadre_tensor_dims(const cadre_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
