/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress bar: one line that is drawn over itself, never wrapped. The width is asked for each
 * time, so that it follows the window.
 */
#include "insight/console.h"

#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"

enum { EVERY_NS = 100000000, CELLS = 16, WIDEST = 400, NARROWEST = 50 };

static int width_of(const cadre_bar *b) {
    struct winsize size;
    int columns = b->columns;
    if (columns <= 0) {
        int fd = fileno(b->to);
        columns = fd >= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    }
    return columns < WIDEST ? columns - 1 : WIDEST - 1; /* the last column makes some wrap */
}

void cadre_bar_draw(cadre_bar *b, int64_t done, int64_t of, const char *words, bool now) {
    char line[WIDEST];
    int64_t ns = cadre_now_ns();
    if (!b->to || (!now && b->drawn_ns && ns - b->drawn_ns < EVERY_NS)) return;
    int width = width_of(b);
    if (width < 1) return;
    int filled = of > 0 ? (int)((double)CELLS * (double)done / (double)of) : 0;
    if (filled > CELLS) filled = CELLS;
    int percent = of > 0 ? (int)(100.0 * (double)done / (double)of) : 0;
    int cells = width >= NARROWEST ? CELLS : 0;
    char cell[CELLS + 1];
    memset(cell, '.', CELLS);
    memset(cell, '#', (size_t)filled);
    if (cells && b->colour) {
        snprintf(line, sizeof line, "%3d%% %s", percent, words);
        fprintf(b->to, "\r[\x1b[32m%.*s\x1b[0m%.*s] %.*s\x1b[K", filled, cell, CELLS - filled,
                cell + filled, width - CELLS - 3, line);
    } else {
        snprintf(line, sizeof line, "%s%.*s%s%3d%% %s", cells ? "[" : "", cells, cell,
                 cells ? "] " : "", percent, words);
        fprintf(b->to, "\r%.*s\x1b[K", width, line);
    }
    fflush(b->to);
    b->shown = true;
    b->drawn_ns = ns;
}

void cadre_bar_erase(cadre_bar *b) {
    if (!b->to || !b->shown) return;
    fputs("\r\x1b[K", b->to);
    fflush(b->to);
    b->shown = false;
}
