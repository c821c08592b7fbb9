/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a second run of a name is the same run: everything that decides the numbers must agree;
 * how many ranks compute them, how long, and what is written may differ.
 */
#include <string.h>

#include "base/status.h"
#include "train/resolve.h"

static bool may_differ(const char *name) {
    static const char *const free_names[] = {
        "parallel.*",
        "comm.*",
        "run.*",
        "checkpoint.*",
        "train.steps",
        "train.epochs",
        "train.micro_batch",
        "train.recompute",
        "train.memory_limit",
        "train.eval_every",
        "train.eval_samples",
        "data.workers",
    };
    for (int i = 0; i < CADRE_COUNT(free_names); i++)
        if (cadre_glob(free_names[i], name)) return true;
    return false;
}

/* "a, b" and a YAML list (separated by newlines) are the same list. */
static bool same_list(const char *a, const char *b) {
    for (;;) {
        while (*a && strchr(" ,\n", *a)) a++;
        while (*b && strchr(" ,\n", *b)) b++;
        size_t n = strcspn(a, " ,\n"), m = strcspn(b, " ,\n");
        if (n != m || memcmp(a, b, n) != 0) return false;
        if (n == 0) return true;
        a += n;
        b += m;
    }
}

static bool same_value(const cadre_setting *row, const char *a, const char *b) {
    double x, y;
    int64_t m, n;
    bool p, q;
    if (!a || !b) return a == b;
    if (strcmp(a, b) == 0) return true;
    switch (row->type) {
    case CADRE_SET_INT:
    case CADRE_SET_REAL:
        return cadre_parse_f64(a, &x) && cadre_parse_f64(b, &y) && x == y;
    case CADRE_SET_BYTES:
        return cadre_parse_bytes(a, &m) && cadre_parse_bytes(b, &n) && m == n;
    case CADRE_SET_TIME:
        return cadre_parse_duration_ms(a, &m) && cadre_parse_duration_ms(b, &n) && m == n;
    case CADRE_SET_BOOL:
        return cadre_parse_bool(a, &p) && cadre_parse_bool(b, &q) && p == q;
    case CADRE_SET_LIST:
        return same_list(a, b);
    default:
        return false;
    }
}

cadre_status cadre_settings_same_run(const cadre_settings *now, const cadre_settings *before,
                                     const char *where) {
    char text[800];
    size_t at = 0;
    int differences = 0;
    for (int i = 0; i < cadre_settings_count(now); i++) {
        cadre_setting_view a, b;
        cadre_settings_view(now, i, &a);
        cadre_settings_view(before, i, &b);
        bool given =
            cadre_settings_given(now, a.row->name) || cadre_settings_given(before, a.row->name);
        if (!given || may_differ(a.row->name)) continue; /* both derived, or both the default */
        if (same_value(a.row, a.value, b.value)) continue;
        differences++;
        if (at < sizeof text)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s is %s there and %s now",
                                   at ? ", " : "", a.row->name, b.value ? b.value : "unset",
                                   a.value ? a.value : "unset");
    }
    CADRE_CHECK(differences == 0, CADRE_EUSAGE,
                "%s cannot be continued with other settings: %s; take a new --run.name=NAME or "
                "--checkpoint.resume=never",
                where, text);
    return CADRE_OK;
}

cadre_status cadre_settings_check_resume(const cadre_settings *now, const char *yaml,
                                         const char *where) {
    cadre_settings *before = NULL;
    CADRE_TRY(cadre_settings_open(&before, NULL));
    cadre_status st = cadre_settings_read(before, yaml, strlen(yaml), where, CADRE_FROM_FILE);
    if (!st) st = cadre_settings_resolve(before, NULL);
    if (!st) st = cadre_settings_same_run(now, before, where);
    cadre_settings_close(&before);
    return st;
}
