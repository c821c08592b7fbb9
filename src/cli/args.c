/* SPDX-License-Identifier: Apache-2.0
 *
 * The words after a verb: options of the verb, --section.key=value, and the rest.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cli/cli.h"
#include "train/resolve.h"

/* "--name=value" or "--name value": whether `word` is the option; its value, NULL when it has to
 * be the next word. */
static bool is_option(const char *word, const char *name, const char **ret_value) {
    size_t n = strlen(name);
    if (strncmp(word, name, n) != 0) return false;
    *ret_value = word[n] == '=' ? word + n + 1 : NULL;
    return word[n] == '=' || word[n] == '\0';
}

static cadre_status unknown_option(const cli_verb *verb, const char *word) {
    const char *names[CLI_OPTIONS + 4];
    char name[128];
    int n = 0;
    for (const cli_option *o = verb->options; o && o->name; o++) names[n++] = o->name;
    if (verb->takes_ranks) names[n++] = "--ranks";
    if (verb->takes_json) names[n++] = "--json";
    names[n++] = "--help";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    int nearest = cadre_nearest(name, names, n);
    if (nearest >= 0)
        return CADRE_FAIL(CADRE_EUSAGE, "unknown option %s; did you mean %s?", name,
                          names[nearest]);
    return CADRE_FAIL(CADRE_EUSAGE, "unknown option %s; `cadre help %s` lists what it takes", name,
                      verb->name);
}

/* A value that may be the next word. */
static cadre_status take_value(const char *name, const char *what, char **words, int count, int *at,
                               const char **value) {
    if (*value) return CADRE_OK;
    CADRE_CHECK(*at + 1 < count, CADRE_EUSAGE, "%s takes a value: %s %s", name, name, what);
    *value = words[++*at];
    return CADRE_OK;
}

static cadre_status take_option(cli_call *call, char **words, int count, int *at, bool *ret_taken) {
    const char *word = words[*at], *value = NULL;
    const cli_verb *verb = call->verb;
    *ret_taken = true;
    for (int i = 0; verb->options && verb->options[i].name; i++) {
        const cli_option *o = &verb->options[i];
        if (!is_option(word, o->name, &value)) continue;
        CADRE_CHECK(o->value || !value, CADRE_EUSAGE, "%s takes no value", o->name);
        if (o->value) CADRE_TRY(take_value(o->name, o->value, words, count, at, &value));
        call->options[i] = o->value ? value : "";
        return CADRE_OK;
    }
    if (verb->takes_ranks && is_option(word, "--ranks", &value)) {
        CADRE_TRY(take_value("--ranks", "N", words, count, at, &value));
        call->ranks = value;
        return CADRE_OK;
    }
    *ret_taken = false;
    return CADRE_OK;
}

static cadre_status take_setting(cli_call *call, const char *word) {
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    CADRE_CHECK(strchr(word, '='), CADRE_EUSAGE, "%s takes a value: %s=VALUE", name, name);
    CADRE_CHECK(call->setting_count < CLI_WORDS, CADRE_EUSAGE, "more than %d settings",
                (int)CLI_WORDS);
    call->settings[call->setting_count++] = word + 2;
    return CADRE_OK;
}

static cadre_status take_word(cli_call *call, char **words, int count, int *at) {
    const char *word = words[*at];
    bool taken = false;
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
        call->help = true;
        return CADRE_OK;
    }
    if (strcmp(word, "-q") == 0 || strcmp(word, "-v") == 0) {
        *(word[1] == 'q' ? &call->quiet : &call->verbose) = true;
        return CADRE_OK;
    }
    if (call->verb->takes_json && strcmp(word, "--json") == 0) {
        call->json = true;
        return CADRE_OK;
    }
    CADRE_TRY(take_option(call, words, count, at, &taken));
    if (taken) return CADRE_OK;
    if (word[0] == '-' && word[1] != '\0') {
        bool dotted = memchr(word, '.', strcspn(word, "=")) != NULL;
        if (strncmp(word, "--local-rank=", 13) == 0 || strncmp(word, "--local_rank=", 13) == 0)
            return CADRE_OK; /* torchrun adds it; the environment says it too */
        if (call->verb->takes_settings && dotted && strncmp(word, "--", 2) == 0)
            return take_setting(call, word);
        return unknown_option(call->verb, word);
    }
    CADRE_CHECK(call->word_count < call->verb->most_words, CADRE_EUSAGE,
                "cadre %s does not know what to do with '%s'; usage: cadre %s", call->verb->name,
                word, call->verb->usage);
    call->words[call->word_count++] = word;
    return CADRE_OK;
}

cadre_status cli_parse(cli_call *call, const cli_verb *verb, int count, char **words) {
    call->verb = verb;
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], "--") == 0) {
            CADRE_CHECK(verb->takes_program, CADRE_EUSAGE,
                        "cadre %s takes no program behind --; `cadre run` does", verb->name);
            call->rest = words + i + 1;
            return CADRE_OK;
        }
        CADRE_TRY(take_word(call, words, count, &i));
    }
    return CADRE_OK;
}

const char *cli_value(const cli_call *call, const char *name) {
    for (int i = 0; call->verb->options && call->verb->options[i].name; i++)
        if (strcmp(call->verb->options[i].name, name) == 0) return call->options[i];
    return NULL;
}

cadre_status cli_integer(const cli_call *call, const char *name, int64_t low, int64_t high,
                         int64_t fallback, int64_t *ret_value) {
    const char *text = cli_value(call, name);
    int64_t n = fallback;
    if (text)
        CADRE_CHECK(cadre_parse_i64(text, &n) && n >= low && n <= high, CADRE_EUSAGE,
                    "%s %s: it takes a whole number from %" PRId64 " to %" PRId64, name, text, low,
                    high);
    *ret_value = n;
    return CADRE_OK;
}

cadre_status cli_real(const cli_call *call, const char *name, double low, double high,
                      double fallback, double *ret_value) {
    const char *text = cli_value(call, name);
    double x = fallback;
    if (text)
        CADRE_CHECK(cadre_parse_f64(text, &x) && x >= low && x <= high, CADRE_EUSAGE,
                    "%s %s: it takes a number from %g to %g", name, text, low, high);
    *ret_value = x;
    return CADRE_OK;
}

cadre_status cli_ranks(const cli_call *call, int fallback, int *ret_ranks) {
    int64_t n = fallback;
    if (call->ranks)
        CADRE_CHECK(cadre_parse_i64(call->ranks, &n) && n >= 1 && n <= 4096, CADRE_EUSAGE,
                    "--ranks %s: it takes a whole number from 1 to 4096", call->ranks);
    *ret_ranks = (int)n;
    return CADRE_OK;
}

cadre_status cli_open_settings(const cli_call *call, const char *run_file,
                               cadre_settings **ret_set) {
    cadre_settings *set = NULL;
    int ranks = 0;
    CADRE_TRY(cli_ranks(call, 1, &ranks));
    CADRE_TRY(cadre_settings_open(&set, run_file));
    cadre_status st = CADRE_OK;
    if (call->ranks) st = cadre_settings_set(set, "run.ranks", call->ranks);
    for (int i = 0; !st && i < call->setting_count; i++) {
        char name[128];
        const char *equals = strchr(call->settings[i], '=');
        snprintf(name, sizeof name, "%.*s", (int)(equals - call->settings[i]), call->settings[i]);
        st = cadre_settings_set(set, name, equals + 1);
    }
    if (!st) st = cadre_settings_restore(set);
    if (st) {
        cadre_settings_close(&set);
        return cadre_pass_at(__FILE__, __LINE__, __func__, st);
    }
    *ret_set = set;
    return CADRE_OK;
}
