/* SPDX-License-Identifier: Apache-2.0
 *
 * Telling the root cause from what follows from it. A rank that died by a signal told nobody; a
 * rank that failed by itself said so with its own sentence; the others repeat, or miss, a peer.
 */
#include "train/report.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { LOG_LINES = 4 };

void cadre_rank_report(int fd, const cadre_rank_end *end) {
    if (fd < 0) return;
    ssize_t n = write(fd, end, sizeof *end);
    (void)n;
}

static bool failed(const cadre_rank_fate *f) {
    if (!f->ended || f->killed) return false;
    if (f->signal) return true;
    return f->told ? f->end.status < 0 : f->code != 0;
}

/* The smaller, the nearer to the cause. */
static int distance(const cadre_rank_fate *f) {
    if (f->signal && !f->told) return 0;
    if (f->told && f->end.status < 0 && f->end.status != CADRE_EPEER) return 1;
    if (!f->told) return 2; /* ended without a word */
    return f->end.cause < 0 ? 3 : 4;
}

int cadre_first_cause(const cadre_rank_fate *fates, int ranks) {
    int first = -1;
    for (int r = 0; r < ranks; r++) {
        const cadre_rank_fate *f = &fates[r];
        if (!failed(f)) continue;
        if (first < 0 || distance(f) < distance(&fates[first]) ||
            (distance(f) == distance(&fates[first]) && f->order < fates[first].order))
            first = r;
    }
    return first;
}

/* The end of a rank's log, indented. */
static void add_log(const char *log_folder, int rank, cadre_text *to) {
    char path[CADRE_PATH];
    cadre_map map;
    snprintf(path, sizeof path, "%s/rank-%03d.log", log_folder, rank);
    if (!cadre_path_is_file(path) || cadre_map_open(&map, path)) return;
    const char *at = (const char *)map.data, *end = at + map.bytes, *start = end;
    for (int lines = 0; start > at; start--)
        if (start[-1] == '\n' && start != end && ++lines == LOG_LINES) break;
    if (end - start > 2000) start = end - 2000;
    if (start < end) cadre_text_add(to, "\n  last lines of %s:", path);
    while (start < end) {
        const char *newline = memchr(start, '\n', (size_t)(end - start));
        const char *stop = newline ? newline : end;
        cadre_text_add(to, "\n  | ");
        cadre_text_add_bytes(to, start, (size_t)(stop - start));
        start = newline ? newline + 1 : end;
    }
    cadre_map_close(&map);
}

/* What a peer waited for when the rank died: the nearest there is to its last operation. */
static const char *seen_by_peer(const cadre_rank_fate *fates, int ranks, int first) {
    for (int r = 0; r < ranks; r++)
        if (r != first && fates[r].told && fates[r].end.status == CADRE_EPEER)
            return fates[r].end.text;
    return NULL;
}

void cadre_failure_text(const cadre_rank_fate *fates, int ranks, int first, const char *log_folder,
                        cadre_text *to) {
    const cadre_rank_fate *f = &fates[first];
    if (f->signal && !f->told) {
        const char *name = sigabbrev_np(f->signal), *seen = seen_by_peer(fates, ranks, first);
        cadre_text_add(
            to, "rank %d of %d was ended by SIG%s%s", first, ranks, name ? name : "?",
            f->signal == 9 ? " (kill -9, or the system's out-of-memory killer: see dmesg)" : "");
        if (seen) cadre_text_add(to, "; a peer saw: %s", seen);
        if (log_folder) add_log(log_folder, first, to);
    } else if (f->told) {
        /* What is wrong with settings, data or numbers is the same on every rank. */
        bool common = f->end.status == CADRE_EUSAGE || f->end.status == CADRE_EDATA ||
                      f->end.status == CADRE_ENUMERIC;
        if (ranks > 1 && !common) cadre_text_add(to, "rank %d: ", first);
        cadre_text_add(to, "%s", f->end.text);
    } else {
        cadre_text_add(to, "rank %d of %d ended with exit code %d", first, ranks, f->code);
        if (log_folder) add_log(log_folder, first, to);
    }
}
