/* SPDX-License-Identifier: Apache-2.0
 *
 * The manual page (troff, man macros) out of the tables of verbs and settings.
 */
#include "insight/insight.h"

#include <string.h>

/* Text in a macro's line: a backslash is escaped, a hyphen is one that can be copied, and no line
 * begins with a control character. */
static void add_escaped(cadre_text *to, const char *text) {
    if (*text == '.' || *text == '\'') cadre_text_add(to, "\\&");
    for (; *text; text++) {
        if (*text == '\\')
            cadre_text_add(to, "\\e");
        else if (*text == '-')
            cadre_text_add(to, "\\-");
        else if (*text == '"')
            cadre_text_add(to, "\\(dq");
        else
            cadre_text_add_bytes(to, text, 1);
    }
}

static void add_item(cadre_text *to, const char *head, const char *words) {
    cadre_text_add(to, ".TP\n.B ");
    add_escaped(to, head);
    cadre_text_add(to, "\n");
    add_escaped(to, words);
    cadre_text_add(to, ".\n");
}

static void add_setting(cadre_text *to, const cadre_setting *row) {
    add_item(to, row->name, row->help);
    if (row->fallback) {
        cadre_text_add(to, "Default: ");
        add_escaped(to, row->fallback);
        cadre_text_add(to, ".\n");
    }
    if (row->derived) {
        cadre_text_add(to, "When unset: ");
        add_escaped(to, row->derived);
        cadre_text_add(to, ".\n");
    }
    if (row->choices) {
        cadre_text_add(to, "One of ");
        add_escaped(to, row->choices);
        cadre_text_add(to, ".\n");
    }
    if (row->later) {
        cadre_text_add(to, "Not built yet: ");
        add_escaped(to, row->later);
        cadre_text_add(to, ".\n");
    }
}

static void add_settings(cadre_text *to, const cadre_settings *set) {
    char section[64] = "";
    cadre_text_add(to, ".SH SETTINGS\nGiven in a run file (YAML, nested sections) or as "
                       "\\-\\-section.key=value; the command line counts before the file.\n");
    for (int i = 0; i < cadre_settings_count(set); i++) {
        cadre_setting_view v;
        cadre_settings_view(set, i, &v);
        size_t n = strcspn(v.row->name, ".");
        if (n != strlen(section) || strncmp(section, v.row->name, n) != 0) {
            snprintf(section, sizeof section, "%.*s", (int)n, v.row->name);
            cadre_text_add(to, ".SS %s\n", section);
        }
        add_setting(to, v.row);
    }
}

static const char *const exit_codes[][2] = {
    {"0", "done"},
    {"1", "a check said no"},
    {"2", "usage or settings"},
    {"3", "data or checkpoint"},
    {"4", "peer or communication"},
    {"5", "a value that is not finite"},
    {"6", "memory, disk or permission"},
    {"70", "a fault of Cadre itself"},
    {"75", "saved on SIGTERM or SIGUSR1; please requeue (run.exit_on_signal)"},
    {"130", "ended by Ctrl-C; the first one saves"},
};

cadre_status cadre_man_page(const cadre_verb_help *verbs, int count, const cadre_settings *set,
                            cadre_text *to) {
    cadre_text_add(to, ".TH CADRE 1 \"\" \"cadre %s\" \"User Commands\"\n", cadre_version());
    cadre_text_add(to, ".SH NAME\ncadre \\- train neural networks on many workers\n.SH SYNOPSIS\n"
                       ".B cadre\n.I VERB\n[\n.I ARGUMENTS\n]\n");
    cadre_text_add(to, ".SH DESCRIPTION\nRanks that learn as one: every rank sees different data, "
                       "and all agree after every step.\nA run writes a folder with its settings, "
                       "metrics and checkpoints; the same command goes on from it.\n.SH VERBS\n");
    for (int i = 0; i < count; i++) {
        char usage[512];
        snprintf(usage, sizeof usage, "cadre %s", verbs[i].usage);
        add_item(to, usage, verbs[i].help);
    }
    add_settings(to, set);
    cadre_text_add(to, ".SH EXIT STATUS\n");
    for (int i = 0; i < CADRE_COUNT(exit_codes); i++)
        add_item(to, exit_codes[i][0], exit_codes[i][1]);
    cadre_text_add(to, ".SH ENVIRONMENT\n");
    add_item(to, "NO_COLOR", "when set and not empty, nothing is coloured");
    add_item(to, "TERM", "dumb: no progress bar and no colour");
    return to->status;
}
