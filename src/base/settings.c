/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings themselves: entries in table order, each with its text, its source, and what it was
 * worked out to. Reading YAML is in settings_yaml.c, typed values in settings_values.c,
 * the written file in settings_write.c.
 */
#include "base/settings_private.h"

#include <string.h>

#include "base/file.h"

static cadre_status add_rows(cadre_settings *set, const cadre_setting_table *table) {
    for (int r = 0; r < table->count; r++) {
        CADRE_CHECK(!cadre_settings_entry(set, table->rows[r].name), CADRE_EINTERNAL,
                    "two settings are called %s", table->rows[r].name);
        set->entries[set->count++] = (cadre_entry){.row = &table->rows[r]};
    }
    return CADRE_OK;
}

cadre_status cadre_settings_make(cadre_settings **ret_set, const cadre_setting_table *const *tables,
                                 int count) {
    cadre_settings *set = NULL;
    int rows = 0;
    for (int i = 0; i < count; i++) rows += tables[i]->count;
    CADRE_TRY(cadre_alloc(&set, CADRE_MEM_OTHER, sizeof *set));
    cadre_status st = cadre_alloc_array(&set->entries, CADRE_MEM_OTHER, rows, sizeof *set->entries);
    for (int i = 0; !st && i < count; i++) st = add_rows(set, tables[i]);
    if (st) {
        cadre_settings_close(&set);
        return st;
    }
    *ret_set = set;
    return CADRE_OK;
}

static cadre_status copy_text(char **ret_copy, const char *text) {
    if (!text) return CADRE_OK;
    return cadre_strdup(ret_copy, text);
}

cadre_status cadre_settings_copy(cadre_settings **ret_set, const cadre_settings *from) {
    cadre_settings *set = NULL;
    CADRE_TRY(cadre_alloc(&set, CADRE_MEM_OTHER, sizeof *set));
    cadre_status st =
        cadre_alloc_array(&set->entries, CADRE_MEM_OTHER, from->count, sizeof *set->entries);
    for (int i = 0; !st && i < from->count; i++) {
        const cadre_entry *e = &from->entries[i];
        cadre_entry *copy = &set->entries[set->count++];
        *copy = (cadre_entry){.row = e->row, .source = e->source, .unset = e->unset};
        st = copy_text(&copy->value, e->value);
        if (!st) st = copy_text(&copy->worked_out, e->worked_out);
        if (!st) st = copy_text(&copy->where, e->where);
    }
    if (st) {
        cadre_settings_close(&set);
        return st;
    }
    *ret_set = set;
    return CADRE_OK;
}

static void drop_list(cadre_entry *e) {
    cadre_free(&e->list);
    cadre_free(&e->list_text);
}

void cadre_settings_close(cadre_settings **set) {
    if (!*set) return;
    for (int i = 0; i < (*set)->count; i++) {
        cadre_entry *e = &(*set)->entries[i];
        cadre_free(&e->value);
        cadre_free(&e->worked_out);
        cadre_free(&e->where);
        drop_list(e);
    }
    cadre_free(&(*set)->entries);
    cadre_free(set);
}

cadre_entry *cadre_settings_entry(const cadre_settings *set, const char *name) {
    for (int i = 0; i < set->count; i++)
        if (strcmp(set->entries[i].row->name, name) == 0) return &set->entries[i];
    return NULL;
}

/* How far a candidate is from what was asked for: the distance of the whole names; 1 for the same
 * key in another section ("optim.steps", "train.steps"); 2 for a name that goes on ("optim.warmup",
 * "optim.warmup_steps"). */
static int name_distance(const char *name, const char *candidate) {
    const char *dot = strrchr(name, '.'), *section_end = strchr(candidate, '.');
    const char *key = dot ? dot + 1 : name;
    int distance = cadre_distance(name, candidate);
    if (section_end && strcmp(section_end + 1, key) == 0 && distance > 1) distance = 1;
    if (strlen(key) >= 3 && dot && strncmp(candidate, name, strlen(name)) == 0 && distance > 2)
        distance = 2;
    return distance;
}

const char *cadre_settings_nearest(const cadre_settings *set, const char *name) {
    const char *best = NULL;
    int least = (int)strlen(name) / 3 + 2;
    for (int i = 0; i < set->count; i++) {
        int distance = name_distance(name, set->entries[i].row->name);
        if (distance >= least) continue;
        least = distance;
        best = set->entries[i].row->name;
    }
    return best;
}

static cadre_status unknown(const cadre_settings *set, const char *name) {
    const char *nearest = cadre_settings_nearest(set, name);
    if (nearest)
        return CADRE_FAIL(CADRE_EUSAGE, "unknown setting %s; did you mean %s?", name, nearest);
    return CADRE_FAIL(CADRE_EUSAGE, "unknown setting %s; `cadre settings` lists all", name);
}

/* The text to keep: a list in its one form, anything else as given. */
static cadre_status kept_text(const cadre_setting *row, const char *value, char **ret_text) {
    if (row->type == CADRE_SET_LIST) return cadre_list_normal(value, ret_text);
    return cadre_strdup(ret_text, value);
}

static cadre_status put(cadre_settings *set, const char *name, const char *value,
                        cadre_source source, const char *where) {
    cadre_entry *e = cadre_settings_entry(set, name);
    if (!e) return unknown(set, name);
    bool unset = value[0] == '\0' || strcmp(value, "null") == 0;
    if (!unset) CADRE_TRY(cadre_setting_check(e->row, value));
    if (e->source > source) return CADRE_OK;
    char *kept = NULL, *kept_where = NULL;
    if (!unset) CADRE_TRY(kept_text(e->row, value, &kept));
    cadre_status st = copy_text(&kept_where, where);
    if (st) {
        cadre_free(&kept);
        return st;
    }
    drop_list(e);
    cadre_free(&e->value);
    cadre_free(&e->where);
    cadre_free(&e->worked_out);
    e->value = kept;
    e->where = kept_where;
    e->unset = unset;
    e->source = source;
    return CADRE_OK;
}

cadre_status cadre_settings_put(cadre_settings *set, const char *name, const char *value,
                                cadre_source source, const char *where) {
    cadre_status st = put(set, name, value, source, where);
    if (st && where) cadre_error_prefix(st, "%s: ", where);
    if (st) return cadre_pass_at(__FILE__, __LINE__, __func__, st);
    return CADRE_OK;
}

cadre_status cadre_settings_set(cadre_settings *set, const char *name, const char *value) {
    CADRE_CHECK(set && name && value, CADRE_EUSAGE,
                "cadre_settings_set takes settings, a name and a value");
    return cadre_settings_put(set, name, value, CADRE_FROM_COMMAND, NULL);
}

static const char *value_of(const cadre_entry *e) {
    bool always = e->row->type == CADRE_SET_BOOL || e->row->type == CADRE_SET_CHOICE;
    if (e->value) return e->value;
    if (e->worked_out) return e->worked_out;
    return e->row->fallback && (always || !e->unset) ? e->row->fallback : NULL;
}

const char *cadre_settings_get(const cadre_settings *set, const char *name) {
    const cadre_entry *e = cadre_settings_entry(set, name);
    return e ? value_of(e) : NULL;
}

cadre_status cadre_settings_derive(cadre_settings *set, const char *name, const char *format, ...) {
    cadre_entry *e = cadre_settings_entry(set, name);
    if (!e) return unknown(set, name);
    if (e->value) return CADRE_OK;
    char text[CADRE_PATH];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CADRE_TRY(cadre_setting_check(e->row, text));
    char *kept = NULL;
    CADRE_TRY(kept_text(e->row, text, &kept));
    drop_list(e);
    cadre_free(&e->worked_out);
    e->worked_out = kept;
    return CADRE_OK;
}

bool cadre_settings_given(const cadre_settings *set, const char *name) {
    const cadre_entry *e = cadre_settings_entry(set, name);
    return e && e->value;
}

/* `of` is "model.kind=gpt2|llama". */
bool cadre_setting_belongs(const cadre_settings *set, const cadre_setting *row,
                           const char **ret_key, const char **ret_kind) {
    if (!row->of) return true;
    char key[64];
    const char *kinds = strchr(row->of, '=') + 1;
    snprintf(key, sizeof key, "%.*s", (int)(kinds - 1 - row->of), row->of);
    const cadre_entry *e = cadre_settings_entry(set, key);
    const char *kind = e ? value_of(e) : NULL;
    if (!kind) return true;
    if (ret_key) *ret_key = e->row->name;
    if (ret_kind) *ret_kind = kind;
    return cadre_choice_index(kinds, kind) >= 0;
}

cadre_status cadre_settings_check_kinds(const cadre_settings *set) {
    for (int i = 0; i < set->count; i++) {
        const cadre_entry *e = &set->entries[i];
        const char *key = NULL, *kind = NULL;
        if (!e->value || e->source < CADRE_FROM_FILE ||
            cadre_setting_belongs(set, e->row, &key, &kind))
            continue;
        if (cadre_settings_entry(set, key)->source > e->source)
            continue; /* a stronger source chose another kind */
        return CADRE_FAIL(CADRE_EUSAGE, "%s%s%s belongs to %s, but %s is %s",
                          e->where ? e->where : "", e->where ? ": " : "", e->row->name, e->row->of,
                          key, kind);
    }
    return CADRE_OK;
}

int cadre_settings_count(const cadre_settings *set) {
    return set->count;
}

void cadre_settings_view(const cadre_settings *set, int i, cadre_setting_view *ret_view) {
    const cadre_entry *e = &set->entries[i];
    *ret_view = (cadre_setting_view){
        .row = e->row,
        .value = value_of(e),
        .derived = !e->value && e->worked_out,
        .source = e->source,
        .where = e->where ? e->where : "",
    };
}
