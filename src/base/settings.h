/* SPDX-License-Identifier: Apache-2.0
 *
 * One table of settings. A room brings its rows (src/ROOM/settings.c); train joins them. The whole
 * feeds the YAML file, the command line, --help, the man page, the resolved copy in the run folder
 * and the checkpoint.
 *
 * A value has a text, a source and, once filled in, a typed place in the room's struct. What the
 * user leaves unset and the program works out (threads, warm-up, steps of an evaluation) is
 * derived: kept apart, so that the written file repeats the run and still runs at another size.
 */
#ifndef CADRE_BASE_SETTINGS_H
#define CADRE_BASE_SETTINGS_H

#include "base/text.h"

typedef enum cadre_setting_type {
    CADRE_SET_INT,    /* int64_t; unset: CADRE_UNSET */
    CADRE_SET_REAL,   /* double; unset: NaN */
    CADRE_SET_BOOL,   /* bool; always has a default */
    CADRE_SET_TEXT,   /* const char *; unset: NULL; owned by the settings */
    CADRE_SET_CHOICE, /* int: index into `choices`; always has a default */
    CADRE_SET_BYTES,  /* int64_t; unset: CADRE_UNSET */
    CADRE_SET_TIME,   /* int64_t, milliseconds; unset: CADRE_UNSET */
    CADRE_SET_EVERY,  /* cadre_every: a time ("10min") or a bare number of steps */
    CADRE_SET_LIST    /* cadre_list: a YAML list, or text with commas; owned by the settings */
} cadre_setting_type;

#define CADRE_UNSET INT64_MIN

typedef struct cadre_every {
    int64_t ms, steps; /* the one that counts is > 0; both 0: never */
} cadre_every;

typedef struct cadre_list {
    int count;
    const char *const *at;
} cadre_list;

typedef struct cadre_setting {
    const char *name; /* "train.batch" */
    cadre_setting_type type;
    const char *fallback; /* default as text; NULL: unset, then `derived` says how it comes about */
    size_t offset;        /* in the room's struct */
    const char *help;     /* one sentence without its full stop: what it is, in which unit */
    const char *choices;  /* CHOICE: "none|linear|sqrt" */
    double low, high;     /* inclusive range of numbers, checked where low < high */
    const char *derived;  /* "batch / dp": how an unset value is worked out, for the help */
    const char *of;       /* "model.kind=gpt2|llama": belongs to these kinds alone; NULL: to all */
    const char
        *later; /* not built yet: a value other than the default is refused with this sentence */
} cadre_setting;

typedef struct cadre_setting_table {
    const char *room;
    const cadre_setting *rows;
    int count;
} cadre_setting_table;

/* Later sources beat earlier ones. */
typedef enum cadre_source {
    CADRE_FROM_DEFAULT,
    CADRE_FROM_PRESET,
    CADRE_FROM_FILE,
    CADRE_FROM_COMMAND,
} cadre_source;

/* The tables are borrowed and must outlive the settings. Two rows of one name are CADRE_EINTERNAL.
 */
cadre_status cadre_settings_make(cadre_settings **ret_set, const cadre_setting_table *const *tables,
                                 int count);
cadre_status cadre_settings_copy(cadre_settings **ret_set, const cadre_settings *from);

/* Checks name, type, range, choice, `later`; `where` ("run.yaml line 7", NULL for none) goes in
 * front of a complaint. A weaker source never overwrites a stronger one; the same source given
 * twice: the last counts. "" or "null" unsets. */
cadre_status cadre_settings_put(cadre_settings *set, const char *name, const char *value,
                                cadre_source source, const char *where);
/* YAML (libyaml): a map of sections of keys; scalars, and lists for LIST rows. Complaints name the
 * label and the line. A section or key that is unknown names the nearest. Keys given twice in one
 * file are refused. */
cadre_status cadre_settings_read(cadre_settings *set, const char *yaml, size_t bytes,
                                 const char *label, cadre_source source);
cadre_status cadre_settings_read_file(cadre_settings *set,
                                      const char *path); /* missing file: CADRE_EUSAGE */
/* A key given by a source that belongs to another kind (`of`) than the resolved one, same source or
 * stronger: CADRE_EUSAGE. */
cadre_status cadre_settings_check_kinds(const cadre_settings *set);

/* Fills the room's struct from the table: text to typed values, defaults included, derived values
 * when recorded. */
cadre_status cadre_settings_fill(const cadre_settings *set, const cadre_setting_table *table,
                                 void *ret_struct);
/* Records a worked-out value; `cadre_settings_get` and `fill` then give it; no effect where the
 * user gave one. */
cadre_status cadre_settings_derive(cadre_settings *set, const char *name, const char *format, ...)
    CADRE_PRINTF(3, 4);
bool cadre_settings_given(const cadre_settings *set,
                          const char *name); /* by preset, file or command */
/* The name nearest to `name`, or NULL. */
const char *cadre_settings_nearest(const cadre_settings *set, const char *name);

/* Walking the table, in table order. */
typedef struct cadre_setting_view {
    const cadre_setting *row;
    const char *value; /* as `cadre_settings_get` */
    bool derived;
    cadre_source source;
    const char *where; /* "" when nothing more is known */
} cadre_setting_view;
int cadre_settings_count(const cadre_settings *set);
void cadre_settings_view(const cadre_settings *set, int i, cadre_setting_view *ret_view);
/* The resolved file: every setting with its source as a comment; derived ones commented out with
 * their value now. */
void cadre_settings_write(const cadre_settings *set, cadre_text *to);

#endif
