/* SPDX-License-Identifier: Apache-2.0
 *
 * The resolved settings as a YAML file. Read back it gives the same settings: what was worked out
 * is a comment and is worked out again; what was unset against a default is written as null.
 */
#include <ctype.h>
#include <string.h>

#include "base/settings_private.h"

/* How many bytes the character at `at` has where only an escape in double quotes says it (controls
 * and Unicode's line ends), and its code; 0: it needs none. */
static size_t needs_escape(const char *at, size_t n, unsigned *ret_code) {
    const unsigned char *c = (const unsigned char *)at;
    if (c[0] < ' ' || c[0] == 0x7f) return *ret_code = c[0], 1;
    if (n >= 2 && c[0] == 0xc2 && c[1] < 0xa0) return *ret_code = c[1], 2;
    if (n >= 3 && c[0] == 0xe2 && c[1] == 0x80 && (c[2] == 0xa8 || c[2] == 0xa9))
        return *ret_code = 0x2000 + c[2] - 0x80, 3;
    if (n >= 3 && c[0] == 0xef && c[1] == 0xbb && c[2] == 0xbf) return *ret_code = 0xfeff, 3;
    return 0;
}

static bool has_escapes(const char *value, size_t n) {
    unsigned code;
    for (size_t i = 0; i < n; i++)
        if (needs_escape(value + i, n - i, &code)) return true;
    return false;
}

static void add_escaped(cadre_text *to, const char *value, size_t n) {
    cadre_text_add(to, "\"");
    for (size_t i = 0; i < n;) {
        unsigned code;
        size_t bytes = needs_escape(value + i, n - i, &code);
        if (bytes)
            cadre_text_add(to, "\\u%04x", code);
        else
            cadre_text_add(to, value[i] == '"' || value[i] == '\\' ? "\\%c" : "%c", value[i]);
        i += bytes ? bytes : 1;
    }
    cadre_text_add(to, "\"");
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
    if (has_escapes(value, n)) {
        add_escaped(to, value, n);
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
