/* SPDX-License-Identifier: Apache-2.0
 *
 * From text to typed values: what a row accepts, the one form of a list, and the rooms' structs.
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

static bool same(const cadre_setting *row, const char *a, const char *b) {
    typed x = {0}, y = {0};
    if (!parse(row, a, &x) || !parse(row, b, &y)) return false;
    switch (row->type) {
    case CADRE_SET_INT:
    case CADRE_SET_BYTES:
    case CADRE_SET_TIME:
        return x.whole == y.whole;
    case CADRE_SET_REAL:
        return x.real == y.real;
    case CADRE_SET_BOOL:
        return x.yes == y.yes;
    case CADRE_SET_CHOICE:
        return x.choice == y.choice;
    case CADRE_SET_EVERY:
        return x.every.ms == y.every.ms && x.every.steps == y.every.steps;
    default:
        return strcmp(a, b) == 0;
    }
}

/* The end of a range, in the unit that a user would write. */
static void show_bound(const cadre_setting *row, double bound, char *ret_text, size_t room) {
    if (row->type == CADRE_SET_BYTES)
        cadre_show_bytes(ret_text, room, bound);
    else if (row->type == CADRE_SET_TIME && fmod(bound, 1000) == 0)
        snprintf(ret_text, room, "%.15gs", bound / 1000);
    else
        snprintf(ret_text, room, "%.15g%s", bound, row->type == CADRE_SET_TIME ? "ms" : "");
}

static cadre_status check_range(const cadre_setting *row, const char *value, const typed *v,
                                const char *may) {
    bool number = row->type == CADRE_SET_INT || row->type == CADRE_SET_REAL ||
                  row->type == CADRE_SET_BYTES || row->type == CADRE_SET_TIME;
    if (!number || !(row->low < row->high)) return CADRE_OK;
    double x = row->type == CADRE_SET_REAL ? v->real : (double)v->whole;
    if (x >= row->low && x <= row->high) return CADRE_OK;
    char low[64], high[64];
    show_bound(row, row->low, low, sizeof low);
    show_bound(row, row->high, high, sizeof high);
    if (row->high >= 1e15) /* as good as no end */
        return CADRE_FAIL(CADRE_EUSAGE, "%s=%s: it takes %s of at least %s", row->name, value, may,
                          low);
    return CADRE_FAIL(CADRE_EUSAGE, "%s=%s: it takes %s from %s to %s", row->name, value, may, low,
                      high);
}

cadre_status cadre_setting_check(const cadre_setting *row, const char *value) {
    char may[512];
    typed v;
    accepted(row, may, sizeof may);
    CADRE_CHECK(parse(row, value, &v), CADRE_EUSAGE, "%s=%s: it takes %s", row->name, value, may);
    CADRE_TRY(check_range(row, value, &v, may));
    if (!row->later) return CADRE_OK;
    CADRE_CHECK(row->fallback && same(row, value, row->fallback), CADRE_EUSAGE, "%s=%s: %s",
                row->name, value, row->later);
    return CADRE_OK;
}

const char *cadre_list_next(const char *at, const char *text, const char **ret_item,
                            size_t *ret_length) {
    char separator = strchr(text, '\n') ? '\n' : ',';
    for (;;) {
        while (*at == ' ' || *at == separator) at++;
        if (!*at) return NULL;
        const char *end = strchr(at, separator);
        if (!end) end = at + strlen(at);
        size_t n = (size_t)(end - at);
        while (n && at[n - 1] == ' ') n--;
        *ret_item = at;
        *ret_length = n;
        return end;
    }
}

cadre_status cadre_list_normal(const char *text, char **ret_normal) {
    const char *item;
    size_t n;
    bool commas = false;
    for (const char *at = text; (at = cadre_list_next(at, text, &item, &n));)
        commas |= memchr(item, ',', n) != NULL;
    cadre_text normal = {0};
    cadre_text_add(&normal, "%s", "");
    for (const char *at = text; (at = cadre_list_next(at, text, &item, &n));) {
        if (normal.length && !commas) cadre_text_add(&normal, ",");
        cadre_text_add_bytes(&normal, item, n);
        if (commas) cadre_text_add(&normal, "\n"); /* after the last too: a list of one shows it */
    }
    cadre_status st = normal.status;
    if (!st) st = cadre_strdup(ret_normal, normal.at);
    cadre_text_free(&normal);
    return st;
}

/* Kept until the value changes, so that all structs filled from these settings share it. */
static cadre_status fill_list(cadre_entry *e, const char *text, cadre_list *ret_list) {
    if (!e->list) {
        const char *item;
        size_t n;
        int count = 0;
        for (const char *at = text; (at = cadre_list_next(at, text, &item, &n));) count++;
        char *copy = NULL;
        const char **list = NULL;
        CADRE_TRY(cadre_strdup(&copy, text));
        cadre_status st = cadre_alloc_array(&list, CADRE_MEM_OTHER, count, sizeof *list);
        if (st) {
            cadre_free(&copy);
            return st;
        }
        count = 0;
        for (const char *at = text; (at = cadre_list_next(at, text, &item, &n));) {
            list[count++] = copy + (item - text);
            copy[item - text + (ptrdiff_t)n] = '\0';
        }
        e->list = list;
        e->list_text = copy;
        e->list_count = count;
    }
    *ret_list = (cadre_list){.count = e->list_count, .at = e->list};
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
