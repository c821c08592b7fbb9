/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers out of text, whatever the locale: whole strings, nothing before or after.
 */
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"
#include "base/text.h"

/* A decimal number at the start of `text`; `*rest` is what follows it. */
static bool leading_number(const char *text, double *ret, const char **rest) {
    if (!isdigit((unsigned char)text[0]) && text[0] != '-' && text[0] != '+' && text[0] != '.')
        return false;
    size_t digits = text[0] == '-' || text[0] == '+';
    if (text[digits] == '0' && (text[digits + 1] | 32) == 'x') return false;
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!plain) return false;
    char *end;
    errno = 0;
    double value = strtod_l(text, &end, plain);
    freelocale(plain);
    if (end == text || !isfinite(value)) return false;
    *ret = value;
    *rest = end;
    return true;
}

bool cadre_parse_f64(const char *text, double *ret) {
    const char *rest;
    double value;
    if (!leading_number(text, &value, &rest) || *rest) return false;
    *ret = value;
    return true;
}

static bool whole(double value, int64_t *ret) {
    if (value != floor(value) || fabs(value) > 9.2e18) return false;
    *ret = (int64_t)value;
    return true;
}

bool cadre_parse_i64(const char *text, int64_t *ret) {
    if (!isdigit((unsigned char)text[0]) && !((text[0] == '-' || text[0] == '+') && text[1]))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0) {
        *ret = value;
        return true;
    }
    double real; /* 1e9 */
    if (*end != 'e' && *end != 'E' && *end != '.') return false;
    return cadre_parse_f64(text, &real) && whole(real, ret);
}

typedef struct unit {
    const char *name;
    double factor;
} unit;

static bool with_unit(const char *text, const unit *units, int n, int64_t *ret) {
    const char *rest;
    double value;
    if (!leading_number(text, &value, &rest) || value < 0) return false;
    while (*rest == ' ') rest++;
    for (int i = 0; i < n; i++)
        if (strcasecmp(rest, units[i].name) == 0) {
            double scaled = value * units[i].factor;
            if (scaled > 9.2e18) return false;
            *ret = (int64_t)llround(scaled);
            return true;
        }
    return false;
}

bool cadre_parse_bytes(const char *text, int64_t *ret) {
    static const unit units[] = {
        {"", 1},         {"B", 1},      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
        {"TiB", 0x1p40}, {"KB", 1e3},   {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
        {"K", 0x1p10},   {"M", 0x1p20}, {"G", 0x1p30},
    };
    return with_unit(text, units, CADRE_COUNT(units), ret);
}

bool cadre_parse_duration_ms(const char *text, int64_t *ret) {
    static const unit units[] = {
        {"", 1e3},    {"ms", 1},  {"s", 1e3},   {"sec", 1e3},
        {"min", 6e4}, {"m", 6e4}, {"h", 3.6e6}, {"d", 8.64e7},
    };
    return with_unit(text, units, CADRE_COUNT(units), ret);
}

bool cadre_parse_bool(const char *text, bool *ret) {
    static const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no",
                                                                                "off", "0"};
    for (int i = 0; i < CADRE_COUNT(yes); i++) {
        if (strcasecmp(text, yes[i]) == 0) return *ret = true, true;
        if (strcasecmp(text, no[i]) == 0) return *ret = false, true;
    }
    return false;
}
