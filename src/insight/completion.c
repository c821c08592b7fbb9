/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion for bash out of the tables: verbs, their options, settings and the values of choices.
 */
#include "insight/insight.h"

#include <string.h>

/* The words of a usage that begin with "--"; "--section.key=value" stands for the settings. */
static bool add_options(cadre_text *to, const char *usage) {
    bool settings = false;
    for (const char *at = usage; (at = strstr(at, "--"));) {
        size_t n = 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-_.0123456789");
        bool is_word = at == usage || strchr(" [(|", at[-1]);
        if (strncmp(at, "--section.key", 13) == 0)
            settings = true;
        else if (is_word && n > 2)
            cadre_text_add(to, " %.*s", (int)n, at);
        at += n;
    }
    return settings;
}

static void add_verbs(cadre_text *to, const cadre_verb_help *verbs, int count) {
    cadre_text_add(to, "    case $verb in\n");
    for (int i = 0; i < count; i++) {
        cadre_text options = {0};
        bool settings = add_options(&options, verbs[i].usage);
        cadre_text_add(to, "    %s) words=\"--help%s%s\" ;;\n", verbs[i].name,
                       options.at ? options.at : "", settings ? " $settings" : "");
        if (options.status) to->status = options.status;
        cadre_text_free(&options);
    }
    cadre_text_add(to, "    esac\n");
}

static void add_choices(cadre_text *to, const cadre_settings *set) {
    cadre_text_add(to, "    case $key in\n");
    for (int i = 0; i < cadre_settings_count(set); i++) {
        cadre_setting_view v;
        cadre_settings_view(set, i, &v);
        const char *choices = v.row->type == CADRE_SET_BOOL ? "true|false" : v.row->choices;
        if (!choices) continue;
        cadre_text_add(to, "    --%s) words=\"", v.row->name);
        for (const char *c = choices; *c; c++) cadre_text_add_bytes(to, *c == '|' ? " " : c, 1);
        cadre_text_add(to, "\" ;;\n");
    }
    cadre_text_add(to, "    *) COMPREPLY=($(compgen -f -- \"$value\")); return ;;\n    esac\n");
}

cadre_status cadre_completion(const cadre_verb_help *verbs, int count, const cadre_settings *set,
                              cadre_text *to) {
    cadre_text_add(to, "# bash completion for cadre; load it with: . <(cadre completion)\n"
                       "_cadre_value() {\n    local key=$1 value=$2 words=\n");
    add_choices(to, set);
    cadre_text_add(to,
                   "    COMPREPLY=($(compgen -W \"$words\" -- \"$value\"))\n}\n"
                   "_cadre() {\n"
                   "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                   "    local before=${COMP_WORDS[COMP_CWORD-2]:-} verb=${COMP_WORDS[1]} words=\n"
                   "    local settings=\"");
    for (int i = 0; i < cadre_settings_count(set); i++) {
        cadre_setting_view v;
        cadre_settings_view(set, i, &v);
        cadre_text_add(to, "%s--%s=", i ? " " : "", v.row->name);
    }
    cadre_text_add(to,
                   "\"\n"
                   "    if [ \"$cur\" = = ]; then _cadre_value \"$prev\" ''; return; fi\n"
                   "    if [ \"$prev\" = = ]; then _cadre_value \"$before\" \"$cur\"; return; fi\n"
                   "    if [ \"$COMP_CWORD\" = 1 ]; then\n        words=\"");
    for (int i = 0; i < count; i++) cadre_text_add(to, "%s ", verbs[i].name);
    cadre_text_add(to,
                   "--version\"\n"
                   "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); return\n    fi\n");
    add_verbs(to, verbs, count);
    cadre_text_add(to, "    case $cur in\n"
                       "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                       "        [ \"${COMPREPLY[0]:(-1)}\" = = ] && compopt -o nospace ;;\n"
                       "    *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n    esac\n}\n"
                       "complete -F _cadre cadre\n");
    return to->status;
}
