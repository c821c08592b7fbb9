/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored values to compare with: tests/golden/NAME.safetensors, each written by the script beside
 * it. A small reader that trusts its files, so that rooms below checkpoint can use them too.
 */
#ifndef CADRE_TESTS_GOLDEN_H
#define CADRE_TESTS_GOLDEN_H

#include <stdint.h>

typedef struct golden_file golden_file;

/* "gpt2_golden.safetensors"; fails the test when it cannot be read. */
golden_file *golden_open(const char *name);
/* The tensor's elements (8-byte aligned where their size asks for it) and, unless NULL, their
 * number. Fails the test when there is no such tensor of this type ("F64", "I32"). */
const void *golden_tensor(const golden_file *f, const char *type, int64_t *ret_count,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same, f64. */
#define golden_f64(f, ret_count, ...)                                                              \
    ((const double *)golden_tensor((f), "F64", (ret_count), __VA_ARGS__))
void golden_close(golden_file **f);

#endif
