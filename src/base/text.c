/* SPDX-License-Identifier: Apache-2.0
 *
 * Growing strings, and numbers as people read them. Parsing is in text_parse.c.
 */
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

static bool make_room(cadre_text *t, size_t more) {
    if (t->status) return false;
    if (t->at && t->length + more < t->room) return true;
    size_t room = t->room ? t->room : 256;
    while (room <= t->length + more) room *= 2;
    t->status = cadre_realloc(&t->at, CADRE_MEM_OTHER, room);
    if (!t->status) t->room = room;
    return !t->status;
}

void cadre_text_add(cadre_text *t, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n >= 0 && make_room(t, (size_t)n)) {
        vsnprintf(t->at + t->length, (size_t)n + 1, format, again);
        t->length += (size_t)n;
    }
    va_end(again);
}

void cadre_text_add_bytes(cadre_text *t, const void *bytes, size_t n) {
    if (!make_room(t, n)) return;
    if (n) memcpy(t->at + t->length, bytes, n);
    t->length += n;
    t->at[t->length] = '\0';
}

static bool shell_reads_plainly(const char *word) {
    if (!*word) return false;
    for (; *word; word++) {
        bool plain = (*word >= 'a' && *word <= 'z') || (*word >= 'A' && *word <= 'Z') ||
                     (*word >= '0' && *word <= '9') || strchr("-_=./,:+%@", *word);
        if (!plain) return false;
    }
    return true;
}

void cadre_text_add_shell(cadre_text *t, const char *word) {
    if (shell_reads_plainly(word)) {
        cadre_text_add(t, "%s", word);
        return;
    }
    cadre_text_add(t, "'");
    for (; *word; word++) cadre_text_add(t, *word == '\'' ? "'\\''" : "%c", *word);
    cadre_text_add(t, "'");
}

void cadre_text_clear(cadre_text *t) {
    t->length = 0;
    t->status = CADRE_OK;
    if (t->at) t->at[0] = '\0';
}

void cadre_text_free(cadre_text *t) {
    cadre_free(&t->at);
    *t = (cadre_text){0};
}

char *cadre_show_bytes(char *ret_text, size_t room, double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int unit = 0;
    while (fabs(bytes) >= 1023.95 && unit + 1 < CADRE_COUNT(units)) {
        bytes /= 1024;
        unit++;
    }
    snprintf(ret_text, room, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return ret_text;
}

char *cadre_show_seconds(char *ret_text, size_t room, double seconds) {
    int64_t whole = (int64_t)llround(seconds);
    if (seconds < 0.9995)
        snprintf(ret_text, room, "%.0f ms", seconds * 1000);
    else if (seconds < 9.95)
        snprintf(ret_text, room, "%.1f s", seconds);
    else if (whole < 60)
        snprintf(ret_text, room, "%" PRId64 " s", whole);
    else if (whole < 3600)
        snprintf(ret_text, room, "%" PRId64 "m%02" PRId64 "s", whole / 60, whole % 60);
    else
        snprintf(ret_text, room, "%" PRId64 "h%02" PRId64 "m", whole / 3600, whole / 60 % 60);
    return ret_text;
}

char *cadre_show_count(char *ret_text, size_t room, int64_t n) {
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRId64, n);
    size_t length = strlen(digits), sign = digits[0] == '-', at = 0;
    for (size_t i = 0; i < length && at + 1 < room; i++) {
        if (i > sign && (length - i) % 3 == 0 && at + 2 < room) ret_text[at++] = ',';
        ret_text[at++] = digits[i];
    }
    if (room) ret_text[at] = '\0';
    return ret_text;
}

int cadre_distance(const char *a, const char *b) {
    enum { MOST = 128 };
    int row[MOST + 1];
    int n = (int)strlen(b);
    if (n > MOST) n = MOST;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 0; a[i]; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 0; j < n; j++) {
            int least = diagonal + (a[i] != b[j]);
            if (row[j] + 1 < least) least = row[j] + 1;
            if (row[j + 1] + 1 < least) least = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = least;
        }
    }
    return row[n];
}

int cadre_nearest(const char *word, const char *const *names, int n) {
    int best = -1, least = (int)strlen(word) / 3 + 2;
    for (int i = 0; i < n; i++) {
        int distance = cadre_distance(word, names[i]);
        if (distance < least) {
            least = distance;
            best = i;
        }
    }
    return best;
}

bool cadre_glob(const char *pattern, const char *text) {
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}
