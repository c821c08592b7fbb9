/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole lines from a pipe to a stream of this process.
 */
#include "train/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

cadre_status cadre_relay_open(cadre_relay *r, int rank, int to, int *ret_child) {
    int ends[2];
    CADRE_CHECK(pipe2(ends, O_CLOEXEC) == 0, CADRE_ERESOURCE, "no pipe for rank %d: %s", rank,
                strerror(errno));
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *r = (cadre_relay){.from = ends[0], .to = to};
    if (rank > 0) snprintf(r->prefix, sizeof r->prefix, "[%d] ", rank);
    *ret_child = ends[1];
    return CADRE_OK;
}

/* A closed terminal is no reason to end somebody's program: what cannot be written is dropped. */
static void put(int to, const char *at, size_t bytes) {
    while (bytes) {
        ssize_t n = write(to, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        at += n;
        bytes -= (size_t)n;
    }
}

static void put_line(cadre_relay *r, const char *at, size_t bytes) {
    cadre_text whole = {0};
    cadre_text_add(&whole, "%s", r->prefix);
    cadre_text_add_bytes(&whole, r->line.at ? r->line.at : "", r->line.length);
    cadre_text_add_bytes(&whole, at, bytes);
    put(r->to, whole.at, whole.length);
    cadre_text_free(&whole);
    cadre_text_clear(&r->line);
}

bool cadre_relay_pump(cadre_relay *r, bool last) {
    enum { READS = 64, LONGEST = 1 << 20 }; /* a round; a line, before it is cut */
    char block[8192];
    ssize_t n = -1;
    int reads = 0;
    while (r->from >= 0 && (last || reads++ < READS) &&
           (n = read(r->from, block, sizeof block)) > 0) {
        const char *at = block, *end = block + n, *newline;
        while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
            put_line(r, at, (size_t)(newline + 1 - at));
            at = newline + 1;
        }
        cadre_text_add_bytes(&r->line, at, (size_t)(end - at));
        if (r->line.length > LONGEST) put_line(r, "\n", 1);
    }
    if (r->from >= 0 && n > 0 && !last) return true; /* more another time: others wait too */
    bool over = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (r->from >= 0 && !over && !last) return true;
    if (r->line.length) put_line(r, "\n", 1);
    cadre_relay_close(r);
    return false;
}

void cadre_relay_close(cadre_relay *r) {
    if (r->from >= 0) close(r->from);
    r->from = -1;
    cadre_text_free(&r->line);
}
