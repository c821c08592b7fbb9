/* SPDX-License-Identifier: Apache-2.0
 *
 * From text to typed values, and the resolved settings as a YAML file.
 */
#include <math.h>
#include <string.h>

#include "base/settings_private.h"

int cadre_choice_index(const char *choices, const char *word) {
    size_t length = strlen(word);
    int i = 0;
    for (const char *at = choices; at; i++) {
        const char *end = strchr(at, '|');
        size_t n = end ? (size_t)(end - at) : strlen(at);
        if (n == length && memcmp(at, word, n) == 0) return i;
        at = end ? end + 1 : NULL;
    }
    return -1;
}

/* One value in its type. */
typedef union typed {
    int64_t whole;
    double real;
    bool yes;
    int choice;
    cadre_every every;
} typed;

static bool parse_every(const char *text, cadre_every *ret) {
    cadre_every every = {0};
    if (!cadre_parse_i64(text, &every.steps) && !cadre_parse_duration_ms(text, &every.ms))
        return false;
    *ret = every;
    return every.steps >= 0 && every.ms >= 0;
}

static bool parse(const cadre_setting *row, const char *text, typed *ret) {
    switch (row->type) {
    case CADRE_SET_INT:
        return cadre_parse_i64(text, &ret->whole);
    case CADRE_SET_REAL:
        return cadre_parse_f64(text, &ret->real);
    case CADRE_SET_BOOL:
        return cadre_parse_bool(text, &ret->yes);
    case CADRE_SET_BYTES:
        return cadre_parse_bytes(text, &ret->whole);
    case CADRE_SET_TIME:
        return cadre_parse_duration_ms(text, &ret->whole);
    case CADRE_SET_EVERY:
        return parse_every(text, &ret->every);
    case CADRE_SET_CHOICE:
        return (ret->choice = cadre_choice_index(row->choices, text)) >= 0;
    case CADRE_SET_TEXT:
    case CADRE_SET_LIST:
        return true;
    }
    return false;
}

static void accepted(const cadre_setting *row, char *ret_text, size_t room) {
    switch (row->type) {
    case CADRE_SET_INT:
        snprintf(ret_text, room, "a whole number");
        break;
    case CADRE_SET_REAL:
        snprintf(ret_text, room, "a number");
        break;
    case CADRE_SET_BOOL:
        snprintf(ret_text, room, "true or false");
        break;
    case CADRE_SET_BYTES:
        snprintf(ret_text, room, "a size like 25MiB or 1e9");
        break;
    case CADRE_SET_TIME:
        snprintf(ret_text, room, "a time like 30s or 10min");
        break;
    case CADRE_SET_EVERY:
        snprintf(ret_text, room, "a time like 10min or a number of steps");
        break;
    case CADRE_SET_CHOICE: {
        size_t at = (size_t)snprintf(ret_text, room, "one of ");
        for (const char *c = row->choices; *c && at + 3 < room; c++) {
            if (*c == '|') ret_text[at++] = ',';
            ret_text[at++] = *c == '|' ? ' ' : *c;
        }
        ret_text[at] = '\0';
        break;
    }
    default:
        snprintf(ret_text, room, "a text");
    }
}

cadre_status cadre_setting_check(const cadre_setting *row, const char *value) {
    char may[512];
    typed v;
    accepted(row, may, sizeof may);
    CADRE_CHECK(parse(row, value, &v), CADRE_EUSAGE, "%s=%s: it takes %s", row->name, value, may);
    if (row->low < row->high && (row->type == CADRE_SET_INT || row->type == CADRE_SET_REAL ||
                                 row->type == CADRE_SET_BYTES || row->type == CADRE_SET_TIME)) {
        double number = row->type == CADRE_SET_REAL ? v.real : (double)v.whole;
        if (isinf(row->high) || row->high >= 9.2e18)
            CADRE_CHECK(number >= row->low, CADRE_EUSAGE, "%s=%s: it takes %s of at least %g",
                        row->name, value, may, row->low);
        CADRE_CHECK(number >= row->low && number <= row->high, CADRE_EUSAGE,
                    "%s=%s: it takes %s from %g to %g", row->name, value, may, row->low, row->high);
    }
    if (!row->later) return CADRE_OK;
    CADRE_CHECK(row->fallback && strcmp(value, row->fallback) == 0, CADRE_EUSAGE, "%s=%s: %s",
                row->name, value, row->later);
    return CADRE_OK;
}

/* Items are separated by commas or, out of a YAML list, by newlines. */
static cadre_status fill_list(cadre_entry *e, const char *text, cadre_list *ret_list) {
    const char *separators = strchr(text, '\n') ? "\n" : ",";
    int count = 1;
    for (const char *c = text; *c; c++) count += *c == separators[0];
    cadre_free(&e->list_text);
    cadre_free(&e->list);
    CADRE_TRY(cadre_strdup(&e->list_text, text));
    CADRE_TRY(cadre_alloc_array(&e->list, CADRE_MEM_OTHER, count, sizeof *e->list));
    int n = 0;
    char *rest = NULL;
    for (char *item = strtok_r(e->list_text, separators, &rest); item;
         item = strtok_r(NULL, separators, &rest)) {
        while (*item == ' ') item++;
        size_t length = strlen(item);
        while (length && item[length - 1] == ' ') item[--length] = '\0';
        if (*item) e->list[n++] = item;
    }
    *ret_list = (cadre_list){.count = n, .at = e->list};
    return CADRE_OK;
}

static cadre_status fill_one(cadre_entry *e, const char *text, char *place) {
    typed v = {0};
    if (text && !parse(e->row, text, &v)) return cadre_setting_check(e->row, text);
    switch (e->row->type) {
    case CADRE_SET_INT:
    case CADRE_SET_BYTES:
    case CADRE_SET_TIME:
        *(int64_t *)place = text ? v.whole : CADRE_UNSET;
        break;
    case CADRE_SET_REAL:
        *(double *)place = text ? v.real : NAN;
        break;
    case CADRE_SET_BOOL:
        *(bool *)place = v.yes;
        break;
    case CADRE_SET_CHOICE:
        *(int *)place = v.choice;
        break;
    case CADRE_SET_EVERY:
        *(cadre_every *)place = v.every;
        break;
    case CADRE_SET_TEXT:
        *(const char **)place = text;
        break;
    case CADRE_SET_LIST:
        if (text) return fill_list(e, text, (cadre_list *)place);
        *(cadre_list *)place = (cadre_list){0};
        break;
    }
    return CADRE_OK;
}

cadre_status cadre_settings_fill(const cadre_settings *set, const cadre_setting_table *table,
                                 void *ret_struct) {
    for (int i = 0; i < table->count; i++) {
        cadre_entry *e = cadre_settings_entry(set, table->rows[i].name);
        CADRE_CHECK(e, CADRE_EINTERNAL, "the settings have no row %s", table->rows[i].name);
        CADRE_TRY(fill_one(e, cadre_settings_get(set, e->row->name),
                           (char *)ret_struct + e->row->offset));
    }
    return CADRE_OK;
}

/* ---- the written file ---- */

/* Plain where YAML reads it back as the same text; else in single quotes. */
static void add_scalar(cadre_text *to, const char *value) {
    bool plain = value[0] != '\0' && !strchr(" -?:,[]{}#&*!|>'\"%@`~", value[0]) &&
                 !strstr(value, ": ") && !strstr(value, " #") && strcmp(value, "null") != 0 &&
                 value[strlen(value) - 1] != ' ' && value[strlen(value) - 1] != ':';
    if (plain) {
        cadre_text_add(to, "%s", value);
        return;
    }
    cadre_text_add(to, "'");
    for (const char *c = value; *c; c++) cadre_text_add(to, *c == '\'' ? "''" : "%c", *c);
    cadre_text_add(to, "'");
}

static void add_value(cadre_text *to, const cadre_setting *row, const char *value) {
    if (row->type != CADRE_SET_LIST) {
        add_scalar(to, value);
        return;
    }
    const char *separator = strchr(value, '\n') ? "\n" : ",";
    cadre_text_add(to, "[");
    bool first = true;
    for (const char *at = value; *at;) {
        size_t n = strcspn(at, separator);
        char item[4096];
        while (n && *at == ' ') at++, n--;
        snprintf(item, sizeof item, "%.*s", (int)n, at);
        if (*item && !first) cadre_text_add(to, ", ");
        if (*item) {
            cadre_text_add(to, "'");
            for (const char *c = item; *c; c++) cadre_text_add(to, *c == '\'' ? "''" : "%c", *c);
            cadre_text_add(to, "'");
            first = false;
        }
        at += n;
        at += *at != '\0';
    }
    cadre_text_add(to, "]");
}

static void add_source(cadre_text *to, const cadre_setting_view *v) {
    static const char *const names[] = {"default", "preset", "run file", "command line"};
    if (v->derived)
        cadre_text_add(to, "   # derived%s%s\n", v->row->derived ? ": " : "",
                       v->row->derived ? v->row->derived : "");
    else
        cadre_text_add(to, "   # %s\n", v->where[0] ? v->where : names[v->source]);
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
        bool live = v.value && !v.derived;
        cadre_text_add(to, "  %s%s: ", live ? "" : "# ", dot + 1);
        if (v.value) add_value(to, v.row, v.value);
        if (!v.value) {
            cadre_text_add(to, "   # unset%s%s\n", v.row->derived ? ": " : "",
                           v.row->derived ? v.row->derived : "");
            continue;
        }
        add_source(to, &v);
    }
}
