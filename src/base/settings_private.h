/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files settings*.c share.
 */
#ifndef CADRE_BASE_SETTINGS_PRIVATE_H
#define CADRE_BASE_SETTINGS_PRIVATE_H

#include <stdarg.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"

typedef struct cadre_entry {
    const cadre_setting *row;
    char *value;      /* given by preset, file or command; NULL: not given */
    char *worked_out; /* recorded by cadre_settings_derive */
    char *where;
    cadre_source source;
    bool unset;        /* "null" was given: not even the default */
    const char **list; /* LIST rows: what fill hands out, pointing into list_text */
    int list_count;
    char *list_text;
} cadre_entry;

struct cadre_settings {
    cadre_entry *entries;
    int count;
};

cadre_entry *cadre_settings_entry(const cadre_settings *set,
                                  const char *name); /* NULL when unknown */
/* Type, range, choice, `later`; CADRE_EUSAGE with the value and what would be accepted. */
cadre_status cadre_setting_check(const cadre_setting *row, const char *value);
/* The place of `word` in "a|b|c", or -1. */
int cadre_choice_index(const char *choices, const char *word);
/* Walks a list's items, which commas separate or, where one is there, newlines: `at` begins as
 * `text` and is what the call before returned. NULL after the last. */
const char *cadre_list_next(const char *at, const char *text, const char **ret_item,
                            size_t *ret_length);
/* The one form of a list in text: items joined by commas; each ended by a newline where an item has
 * a comma. */
cadre_status cadre_list_normal(const char *text, char **ret_normal);
/* Whether the row belongs to the resolved kind; else which key decides and its value now. */
bool cadre_setting_belongs(const cadre_settings *set, const cadre_setting *row,
                           const char **ret_key, const char **ret_kind);

#endif
