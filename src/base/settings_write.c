/* SPDX-License-Identifier: Apache-2.0
 *
 * The resolved settings as a YAML file. Read back it gives the same settings: what was worked out
 * is a comment and is worked out again; what was unset against a default is written as null.
 */
#include <ctype.h>
#include <string.h>

#include "base/settings_private.h"

static bool has_control(const char *value, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)value[i] < ' ' || value[i] == 0x7f) return true;
    return false;
}

static bool has(const char *value, size_t n, const char *part) {
    return memmem(value, n, part, strlen(part)) != NULL;
}

/* Whether YAML reads these bytes back as they are, without quotes. In a list brackets and commas
 * end a value too. */
static bool is_plain(const char *value, size_t n, bool in_list) {
    if (n == 0 || isspace((unsigned char)value[0]) || isspace((unsigned char)value[n - 1]))
        return false;
    if (n > 1 && value[0] == '-' && isdigit((unsigned char)value[1])) return true;
    return !strchr("-?:,[]{}#&*!|>'\"%@`~=<", value[0]) && value[n - 1] != ':' &&
           !has(value, n, ": ") && !has(value, n, " #") && !(n == 4 && !memcmp(value, "null", 4)) &&
           !(in_list && (memchr(value, ',', n) || has(value, n, "[") || has(value, n, "]") ||
                         has(value, n, "{") || has(value, n, "}")));
}

static void add_scalar(cadre_text *to, const char *value, size_t n, bool in_list) {
    if (has_control(value, n)) { /* only double quotes know escapes */
        cadre_text_add(to, "\"");
        for (size_t i = 0; i < n; i++) {
            unsigned char c = (unsigned char)value[i];
            if (c < ' ' || c == 0x7f)
                cadre_text_add(to, "\\x%02x", c);
            else
                cadre_text_add(to, c == '"' || c == '\\' ? "\\%c" : "%c", c);
        }
        cadre_text_add(to, "\"");
    } else if (is_plain(value, n, in_list)) {
        cadre_text_add_bytes(to, value, n);
    } else {
        cadre_text_add(to, "'");
        for (size_t i = 0; i < n; i++)
            cadre_text_add_bytes(to, value[i] == '\'' ? "''" : &value[i], value[i] == '\'' ? 2 : 1);
        cadre_text_add(to, "'");
    }
}

static void add_value(cadre_text *to, const cadre_setting *row, const char *value) {
    if (row->type != CADRE_SET_LIST) {
        add_scalar(to, value, strlen(value), false);
        return;
    }
    const char *item;
    size_t n;
    int count = 0;
    cadre_text_add(to, "[");
    for (const char *at = value; (at = cadre_list_next(at, value, &item, &n));) {
        if (count++) cadre_text_add(to, ", ");
        add_scalar(to, item, n, true);
    }
    cadre_text_add(to, "]");
}

/* A name, and after a colon how the value comes about. */
static void add_comment(cadre_text *to, const char *name, const char *how) {
    cadre_text_add(to, "   # %s%s%s\n", name, how ? ": " : "", how ? how : "");
}

/* The key is a comment where the program works the value out. */
static void add_row(cadre_text *to, const char *key, const cadre_setting_view *v) {
    static const char *const names[] = {"default", "preset", "run file", "command line"};
    const char *source = v->where[0] ? v->where : names[v->source];
    if (v->derived) {
        cadre_text_add(to, "  # %s: ", key);
        add_value(to, v->row, v->value);
        add_comment(to, "derived", v->row->derived);
    } else if (v->value) {
        cadre_text_add(to, "  %s: ", key);
        add_value(to, v->row, v->value);
        add_comment(to, source, NULL);
    } else if (v->row->fallback) {
        cadre_text_add(to, "  %s: null", key);
        add_comment(to, source, NULL);
    } else {
        cadre_text_add(to, "  # %s:", key);
        add_comment(to, "unset", v->row->derived);
    }
}

void cadre_settings_write(const cadre_settings *set, cadre_text *to) {
    char section[64] = "";
    for (int i = 0; i < set->count; i++) {
        cadre_setting_view v;
        cadre_settings_view(set, i, &v);
        if (!cadre_setting_belongs(set, v.row, NULL, NULL)) continue;
        const char *dot = strchr(v.row->name, '.');
        size_t n = (size_t)(dot - v.row->name);
        if (strncmp(section, v.row->name, n) != 0 || section[n] != '\0') {
            snprintf(section, sizeof section, "%.*s", (int)n, v.row->name);
            cadre_text_add(to, "%s:\n", section);
        }
        add_row(to, dot + 1, &v);
    }
}
