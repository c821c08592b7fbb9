/* SPDX-License-Identifier: Apache-2.0
 *
 * Run files: YAML maps of sections of keys, read with libyaml's document parser so that complaints
 * can name the line. A section nests its keys; a dotted key at the top is the same.
 */
#include <string.h>
#include <yaml.h>

#include "base/file.h"
#include "base/settings_private.h"

typedef struct reader {
    cadre_settings *set;
    yaml_document_t *document;
    const char *label;
    cadre_source source;
    int *lines; /* [settings] the line that has given it in this file; 0: none yet */
} reader;

static cadre_status complain(const reader *r, const yaml_node_t *at, const char *what) {
    return CADRE_FAIL(CADRE_EUSAGE, "%s line %zu: %s", r->label, at->start_mark.line + 1, what);
}

static const char *scalar(const yaml_node_t *node) {
    return (const char *)node->data.scalar.value;
}

/* A YAML list as text: items joined by newlines. */
static cadre_status list_text(const reader *r, const yaml_node_t *node, cadre_text *to) {
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top;
         i++) {
        const yaml_node_t *item = yaml_document_get_node(r->document, *i);
        if (item->type != YAML_SCALAR_NODE)
            return complain(r, item, "a list of plain values is expected");
        cadre_text_add(to, "%s\n", scalar(item));
    }
    return to->status;
}

/* "null" and "~" without quotes; "" is the key with nothing behind it. */
static bool is_null(const yaml_node_t *node) {
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (strcmp(scalar(node), "~") == 0 || strcmp(scalar(node), "null") == 0 ||
            scalar(node)[0] == '\0');
}

static cadre_status put_list(const reader *r, const cadre_setting *row, const yaml_node_t *value,
                             const char *where) {
    if (row->type != CADRE_SET_LIST)
        return complain(r, value, "a single value is expected, not a list");
    cadre_text text = {0};
    cadre_status st = list_text(r, value, &text);
    if (!st) st = cadre_settings_put(r->set, row->name, text.at ? text.at : "", r->source, where);
    cadre_text_free(&text);
    return st;
}

static cadre_status put_value(const reader *r, const char *name, const yaml_node_t *key,
                              const yaml_node_t *value) {
    char where[512];
    int line = (int)key->start_mark.line + 1;
    snprintf(where, sizeof where, "%s line %d", r->label, line);
    cadre_entry *e = cadre_settings_entry(r->set, name);
    if (!e) /* the complaint about an unknown name */
        return cadre_settings_put(r->set, name, "", r->source, where);
    int *given = &r->lines[e - r->set->entries];
    CADRE_CHECK(!*given, CADRE_EUSAGE, "%s: %s is given twice, first in line %d", where, name,
                *given);
    *given = line;
    if (value->type == YAML_MAPPING_NODE)
        return complain(r, value, "a value is expected, not a section");
    if (value->type == YAML_SEQUENCE_NODE) return put_list(r, e->row, value, where);
    if (strlen(scalar(value)) != value->data.scalar.length)
        return complain(r, value, "a value with a zero byte cannot be used");
    return cadre_settings_put(r->set, name, is_null(value) ? "" : scalar(value), r->source, where);
}

static bool is_section(const cadre_settings *set, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < set->count; i++)
        if (strncmp(set->entries[i].row->name, name, n) == 0 && set->entries[i].row->name[n] == '.')
            return true;
    return false;
}

static cadre_status unknown_section(const reader *r, const yaml_node_t *key) {
    const char *best = NULL;
    int least = (int)strlen(scalar(key)) / 3 + 2;
    char section[64], nearest[64] = "";
    for (int i = 0; i < r->set->count; i++) {
        const char *name = r->set->entries[i].row->name;
        snprintf(section, sizeof section, "%.*s", (int)strcspn(name, "."), name);
        int distance = cadre_distance(scalar(key), section);
        if (distance >= least) continue;
        least = distance;
        memcpy(nearest, section, sizeof nearest);
        best = nearest;
    }
    char what[256];
    if (best)
        snprintf(what, sizeof what, "unknown section %s; did you mean %s?", scalar(key), best);
    else
        snprintf(what, sizeof what, "unknown section %s; `cadre settings` lists all settings",
                 scalar(key));
    return complain(r, key, what);
}

static cadre_status read_section(const reader *r, const char *section, const yaml_node_t *map) {
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key = yaml_document_get_node(r->document, p->key);
        const yaml_node_t *value = yaml_document_get_node(r->document, p->value);
        if (key->type != YAML_SCALAR_NODE)
            return complain(r, key, "a key is expected to be a plain word");
        char name[256];
        snprintf(name, sizeof name, "%s.%s", section, scalar(key));
        CADRE_TRY(put_value(r, name, key, value));
    }
    return CADRE_OK;
}

static cadre_status read_top(const reader *r, const yaml_node_t *root) {
    if (!root) return CADRE_OK; /* an empty file sets nothing */
    if (is_null(root)) return CADRE_OK;
    if (root->type != YAML_MAPPING_NODE)
        return complain(r, root, "sections of settings are expected, as in `train:`");
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key = yaml_document_get_node(r->document, p->key);
        const yaml_node_t *value = yaml_document_get_node(r->document, p->value);
        if (key->type != YAML_SCALAR_NODE)
            return complain(r, key, "a section is expected to be a plain word");
        if (strchr(scalar(key), '.')) {
            CADRE_TRY(put_value(r, scalar(key), key, value));
        } else if (!is_section(r->set, scalar(key))) {
            return unknown_section(r, key);
        } else if (value->type == YAML_MAPPING_NODE) {
            CADRE_TRY(read_section(r, scalar(key), value));
        } else if (!is_null(value)) {
            return complain(r, value, "settings of the section are expected, as in `key: value`");
        }
    }
    return CADRE_OK;
}

static cadre_status load(yaml_parser_t *parser, yaml_document_t *ret_document, const char *label) {
    CADRE_CHECK(yaml_parser_load(parser, ret_document), CADRE_EUSAGE, "%s line %zu: not YAML: %s",
                label, parser->problem_mark.line + 1,
                parser->problem ? parser->problem : "unreadable");
    return CADRE_OK;
}

/* The second document of a file would go unread. */
static cadre_status expect_end(yaml_parser_t *parser, const reader *r) {
    yaml_document_t document;
    CADRE_TRY(load(parser, &document, r->label));
    yaml_node_t *root = yaml_document_get_root_node(&document);
    cadre_status st = CADRE_OK;
    if (root) st = complain(r, root, "a second document (`---`); a run file has one");
    yaml_document_delete(&document);
    return st;
}

static cadre_status read_document(yaml_parser_t *parser, reader *r) {
    yaml_document_t document;
    CADRE_TRY(load(parser, &document, r->label));
    r->document = &document;
    yaml_node_t *root = yaml_document_get_root_node(&document);
    cadre_status st = read_top(r, root);
    if (!st && root) st = expect_end(parser, r);
    yaml_document_delete(&document);
    return st;
}

cadre_status cadre_settings_read(cadre_settings *set, const char *yaml, size_t bytes,
                                 const char *label, cadre_source source) {
    yaml_parser_t parser;
    reader r = {.set = set, .label = label, .source = source};
    CADRE_TRY(cadre_alloc_array(&r.lines, CADRE_MEM_OTHER, set->count, sizeof *r.lines));
    cadre_status st = CADRE_OK;
    if (!yaml_parser_initialize(&parser)) {
        st = CADRE_FAIL(CADRE_ERESOURCE, "no memory to read %s", label);
    } else {
        yaml_parser_set_input_string(&parser, (const unsigned char *)yaml, bytes);
        st = read_document(&parser, &r);
        yaml_parser_delete(&parser);
    }
    cadre_free(&r.lines);
    return st;
}

cadre_status cadre_settings_read_file(cadre_settings *set, const char *path) {
    cadre_map map = {0};
    cadre_status st = cadre_map_open(&map, path);
    /* the run file is part of the command */
    if (st == CADRE_EDATA) return CADRE_FAIL(CADRE_EUSAGE, "%s", cadre_error_text());
    if (!st)
        st = cadre_settings_read(set, (const char *)map.data, map.bytes, path, CADRE_FROM_FILE);
    cadre_map_close(&map);
    return st;
}
