/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings that grow, numbers with units, and the nearest name for a misspelt one.
 */
#ifndef CADRE_BASE_TEXT_H
#define CADRE_BASE_TEXT_H

#include <cadre/base.h>

/* A growing string, always terminated by 0. The first failure to grow sticks in `status`; check it
 * once at the end. */
typedef struct cadre_text {
    char *at;
    size_t length, room;
    cadre_status status;
} cadre_text;

void cadre_text_add(cadre_text *t, const char *format, ...) CADRE_PRINTF(2, 3);
/* A word as a POSIX shell reads it back: quoted where it has to be. */
void cadre_text_add_shell(cadre_text *t, const char *word);
void cadre_text_add_bytes(cadre_text *t, const void *bytes, size_t n);
void cadre_text_clear(cadre_text *t); /* keeps the room */
void cadre_text_free(cadre_text *t);

/* "13.8 GiB", "512 B"; "1m18s", "2h05m", "41 ms"; "1,557,611,200". Return `ret_text`. */
char *cadre_show_bytes(char *ret_text, size_t room, double bytes);
char *cadre_show_seconds(char *ret_text, size_t room, double seconds);
char *cadre_show_count(char *ret_text, size_t room, int64_t n);

/* Whole strings: surrounding blanks, trailing junk and overflow are refused (false). */
bool cadre_parse_i64(const char *text, int64_t *ret);   /* 12, 1e9 when whole */
bool cadre_parse_f64(const char *text, double *ret);    /* finite, independent of the locale */
bool cadre_parse_bytes(const char *text, int64_t *ret); /* 25MiB, 1GB, 4096, 1e9 */
bool cadre_parse_duration_ms(const char *text,
                             int64_t *ret); /* 30s, 10min, 1h, 250ms; a bare number is seconds */
bool cadre_parse_bool(const char *text, bool *ret); /* true false yes no on off 1 0 */

/* Levenshtein distance, and the index of the nearest of `n` names within a third of the word's
 * length + 1, or -1. */
int cadre_distance(const char *a, const char *b);
int cadre_nearest(const char *word, const char *const *names, int n);
/* `*` any run, `?` one character, other characters themselves. */
bool cadre_glob(const char *pattern, const char *text);

#endif
