/* SPDX-License-Identifier: Apache-2.0
 *
 * A small text to train on, made before the tests of a program.
 */
#ifndef CADRE_TESTS_TEXT_OF_H
#define CADRE_TESTS_TEXT_OF_H

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "support/check.h"

enum { CHARACTERS = 3000 };

static char text_file[CADRE_PATH];

static inline int make_text(void **state) {
    (void)state;
    static const char line[] = "the cat sat on a mat, and it was so; she said no more.\n";
    char text[CHARACTERS];
    for (int i = 0; i < CHARACTERS; i++) text[i] = line[(i * 7 + i / 50) % (int)(sizeof line - 1)];
    char *path = temp_file(temp_folder(), "text.txt", text, sizeof text);
    snprintf(text_file, sizeof text_file, "%s", path);
    free(path);
    return 0;
}

#endif
