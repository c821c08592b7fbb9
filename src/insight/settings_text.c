/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of settings for people (`cadre settings`) and programs (`--json`).
 */
#include "insight/insight.h"

#include <math.h>
#include <string.h>

#include "insight/document.h"

static const char *type_name(const cadre_setting *row) {
    static const char *const names[] = {
        [CADRE_SET_INT] = "integer",   [CADRE_SET_REAL] = "number",
        [CADRE_SET_BOOL] = "boolean",  [CADRE_SET_TEXT] = "text",
        [CADRE_SET_CHOICE] = "choice", [CADRE_SET_BYTES] = "bytes",
        [CADRE_SET_TIME] = "time",     [CADRE_SET_EVERY] = "time or steps",
        [CADRE_SET_LIST] = "list",
    };
    return names[row->type];
}

/* "optim", "optim." and "optim.lr" mean what they begin, up to a dot. */
static bool is_meant(const char *name, const char *prefix) {
    size_t n = prefix ? strlen(prefix) : 0;
    if (n && prefix[n - 1] == '.') n--;
    return n == 0 || (strncmp(name, prefix, n) == 0 && (name[n] == '.' || !name[n]));
}

static void add_value(const cadre_setting_view *v, cadre_text *to) {
    const cadre_setting *row = v->row;
    char value[64];
    if (v->value && v->derived)
        snprintf(value, sizeof value, "(%s)", v->value);
    else
        snprintf(value, sizeof value, "%s", v->value ? v->value : "-");
    cadre_text_add(to, "%-28s %-12s %s", row->name, value, row->help);
    if (row->choices) cadre_text_add(to, " [%s]", row->choices);
    cadre_text_add(to, "\n");
    if (row->derived) cadre_text_add(to, "%41s unset: %s\n", "", row->derived);
    if (row->of) cadre_text_add(to, "%41s of %s\n", "", row->of);
    if (row->later) cadre_text_add(to, "%41s not built yet: %s\n", "", row->later);
}

static void set_text(json_t *object, const char *key, const char *text) {
    json_object_set_new(object, key, text ? json_string(text) : json_null());
}

static json_t *setting_object(const cadre_setting_view *v) {
    const cadre_setting *row = v->row;
    json_t *o = json_pack("{s:s, s:s}", "name", row->name, "type", type_name(row));
    set_text(o, "default", row->fallback);
    set_text(o, "value", v->value);
    set_text(o, "help", row->help);
    set_text(o, "derived", row->derived);
    set_text(o, "choices", row->choices);
    set_text(o, "of", row->of);
    set_text(o, "later", row->later);
    if (row->low < row->high) {
        cadre_document_number(o, "low", row->low);
        cadre_document_number(o, "high", row->high);
    }
    return o;
}

static cadre_status no_such(const cadre_settings *set, const char *prefix) {
    const char *nearest = cadre_settings_nearest(set, prefix);
    return CADRE_FAIL(CADRE_EUSAGE, "no setting begins with '%s'%s%s", prefix,
                      nearest ? "; the nearest is " : "", nearest ? nearest : "");
}

cadre_status cadre_settings_text(const cadre_settings *set, const char *prefix, bool json,
                                 cadre_text *to) {
    json_t *rows = json ? json_array() : NULL;
    int found = 0;
    for (int i = 0; i < cadre_settings_count(set); i++) {
        cadre_setting_view v;
        cadre_settings_view(set, i, &v);
        if (!is_meant(v.row->name, prefix)) continue;
        found++;
        if (json)
            json_array_append_new(rows, setting_object(&v));
        else
            add_value(&v, to);
    }
    if (found && json)
        return cadre_document_add(json_pack("{s:i, s:o}", "schema", 1, "settings", rows), false,
                                  to);
    json_decref(rows);
    return found ? to->status : no_such(set, prefix);
}
