/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks of somebody's own program say, line by line, so that lines of different ranks never
 * interleave: "[1] " in front of the lines of ranks above 0.
 */
#ifndef CADRE_TRAIN_RELAY_H
#define CADRE_TRAIN_RELAY_H

#include "base/text.h"

typedef struct cadre_relay {
    int from; /* read end of a pipe; -1: closed */
    int to;
    char prefix[16];
    cadre_text line; /* not whole yet */
} cadre_relay;

/* Opens a pipe; `ret_child` is the end for the rank. */
cadre_status cadre_relay_open(cadre_relay *r, int rank, int to, int *ret_child);
/* Passes on what can be read now; at the end of the stream, or when `last`, the unfinished line
 * too. Returns whether there may be more. */
bool cadre_relay_pump(cadre_relay *r, bool last);
void cadre_relay_close(cadre_relay *r);

#endif
