/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors files: uint64 little-endian N; N bytes of JSON; then the data. JSON maps a tensor's
 * name to dtype, shape and data_offsets [begin, end) counted from the byte after the header.
 * Written: header padded with spaces so that data begins on a 64-byte boundary, tensors in the
 * given order without holes, `__metadata__` {"format": "pt"}. Read: the header is hostile input.
 */
#ifndef CADRE_CHECKPOINT_SAFETENSORS_H
#define CADRE_CHECKPOINT_SAFETENSORS_H

#include "base/file.h"
#include "base/text.h"
#include "tensor/tensor.h"

typedef struct cadre_stored {
    const char *name;
    const char *format; /* read: its type as the file says it, "F16" */
    cadre_dtype dtype;  /* CADRE_DTYPES: a format that has no dtype here (F16, BOOL, I8, ...) */
    cadre_dims dims;
    int64_t offset, bytes; /* of the data, in the file */
} cadre_stored;

typedef struct cadre_safetensors cadre_safetensors;

/* Reading: maps the file, checks the whole header (CADRE_EDATA: file, byte offset or tensor, what
 * was found). */
cadre_status cadre_safetensors_open(cadre_safetensors **ret_file, const char *path);
int cadre_safetensors_count(const cadre_safetensors *f);
const cadre_stored *cadre_safetensors_at(const cadre_safetensors *f, int i);
const cadre_stored *cadre_safetensors_find(const cadre_safetensors *f,
                                           const char *name); /* NULL when absent */
const void *cadre_safetensors_data(const cadre_safetensors *f, const cadre_stored *tensor);
/* Elements [first, first + count) as CADRE_F32, CADRE_F64 or CADRE_BF16 numbers, out of F16, BF16,
 * F32 or F64, rounded once where `to` is narrower; other formats are CADRE_EDATA. */
cadre_status cadre_safetensors_numbers(const cadre_safetensors *f, const cadre_stored *tensor,
                                       int64_t first, int64_t count, cadre_dtype to, void *ret);
void cadre_safetensors_close(cadre_safetensors **f);

/* Writing: the header for these tensors (offset and bytes are filled in), then data by the caller
 * through a bounded buffer. */
cadre_status cadre_safetensors_header(cadre_stored *tensors, int count, cadre_text *ret_header);

#endif
