/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON documents of this room, built with jansson: numbers that may not be finite, and the way to
 * text.
 */
#ifndef CADRE_INSIGHT_DOCUMENT_H
#define CADRE_INSIGHT_DOCUMENT_H

#include <jansson.h>

#include "base/text.h"

/* Sets `key`; a number that is not finite becomes null, beside "KEY_nonfinite": true. */
void cadre_document_number(json_t *object, const char *key, double value);
/* Appends the document and a newline, and gives `root` back (NULL: it could not be built).
 * `one_line`: compact, as in a .jsonl file. */
cadre_status cadre_document_add(json_t *root, bool one_line, cadre_text *to);

#endif
