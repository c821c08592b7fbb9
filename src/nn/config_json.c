/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json as Hugging Face's transformers write and read it for GPT-2 (formats.md, section 6).
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nn/model_private.h"

/* ---- writing ---- */

/* transformers would take GPT-2's own tokenizer, and its end of text, which a small vocabulary has
 * not; the class named takes tokenizer.json as it is. */
static void add_tokenizer(json_t *root, int64_t vocab) {
    enum { END_OF_TEXT = 50256 };
    if (!root) return;
    json_object_set_new(root, "tokenizer_class", json_string("PreTrainedTokenizerFast"));
    if (vocab > END_OF_TEXT) return;
    json_object_set_new(root, "bos_token_id", json_null());
    json_object_set_new(root, "eos_token_id", json_null());
}

static json_t *gpt2_json(const cadre_model_cfg *c) {
    return json_pack(
        "{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:b, s:s}",
        "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "activation_function", "gelu_new",
        "n_embd", (json_int_t)c->width, "n_layer", (json_int_t)c->layers, "n_head",
        (json_int_t)c->heads, "n_inner", (json_int_t)c->ffn_width, "n_positions",
        (json_int_t)c->context, "n_ctx", (json_int_t)c->context, "vocab_size", (json_int_t)c->vocab,
        "layer_norm_epsilon", c->norm_eps, "initializer_range", 0.02, "resid_pdrop", c->dropout,
        "embd_pdrop", c->dropout, "attn_pdrop", 0.0, "tie_word_embeddings", c->tied, "torch_dtype",
        "float32");
}

cadre_status cadre_model_config_json(const cadre_model *m, cadre_text *to) {
    const cadre_model_cfg *c = cadre_model_config(m);
    CADRE_CHECK(c && c->kind == CADRE_KIND_GPT2, CADRE_EUSAGE,
                "config.json is written for the known language models, not for %s",
                c ? cadre_model_kinds[c->kind].name : "an own chain of blocks");
    json_t *root = gpt2_json(c);
    add_tokenizer(root, c->vocab);
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(root);
    CADRE_CHECK(text, CADRE_ERESOURCE, "no memory for config.json");
    cadre_text_add(to, "%s\n", text);
    free(text);
    return to->status;
}

/* ---- reading ---- */

typedef struct reader {
    cadre_settings *set;
    const json_t *root;
    const char *label;
} reader;

/* The member as a whole number; 0 when it is absent or null. */
static cadre_status whole(const reader *r, const char *key, int64_t *ret) {
    const json_t *value = json_object_get(r->root, key);
    *ret = 0;
    if (!value || json_is_null(value)) return CADRE_OK;
    CADRE_CHECK(json_is_integer(value) && json_integer_value(value) > 0, CADRE_EDATA,
                "%s: \"%s\" takes a whole number above 0", r->label, key);
    *ret = json_integer_value(value);
    return CADRE_OK;
}

static cadre_status put_whole(const reader *r, const char *key, const char *setting, bool needed) {
    int64_t value;
    char text[32];
    CADRE_TRY(whole(r, key, &value));
    CADRE_CHECK(value || !needed, CADRE_EDATA, "%s: \"%s\" is missing", r->label, key);
    if (!value) return CADRE_OK;
    snprintf(text, sizeof text, "%" PRId64, value);
    return cadre_settings_put(r->set, setting, text, CADRE_FROM_FILE, r->label);
}

/* As text without the locale, jansson's own, no longer than it takes to be read back. */
static cadre_status put_real(const reader *r, const char *key, const char *setting) {
    json_t *value = json_object_get(r->root, key);
    double back;
    if (!value || json_is_null(value)) return CADRE_OK;
    CADRE_CHECK(json_is_number(value), CADRE_EDATA, "%s: \"%s\" takes a number", r->label, key);
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    if (text && !(cadre_parse_f64(text, &back) && back == json_number_value(value))) {
        free(text);
        text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    }
    CADRE_CHECK(text, CADRE_ERESOURCE, "no memory for reading %s", r->label);
    cadre_status st = cadre_settings_put(r->set, setting, text, CADRE_FROM_FILE, r->label);
    free(text);
    return st;
}

static cadre_status check_flag(const reader *r, const char *key, bool want) {
    const json_t *value = json_object_get(r->root, key);
    CADRE_CHECK(!value || json_is_null(value) || json_is_true(value) == want, CADRE_EDATA,
                "%s: \"%s\" is not %s; this variant of GPT-2 is not known", r->label, key,
                want ? "true" : "false");
    return CADRE_OK;
}

static cadre_status check_variant(const reader *r) {
    const char *activation = json_string_value(json_object_get(r->root, "activation_function"));
    CADRE_CHECK(!activation || strcmp(activation, "gelu_new") == 0 ||
                    strcmp(activation, "gelu_pytorch_tanh") == 0,
                CADRE_EDATA, "%s: activation_function %s; gpt2 takes gelu_new (the tanh form)",
                r->label, activation);
    CADRE_TRY(check_flag(r, "scale_attn_weights", true));
    return check_flag(r, "scale_attn_by_inverse_layer_idx", false);
}

static cadre_status read_gpt2(const reader *r) {
    int64_t positions;
    const json_t *tied = json_object_get(r->root, "tie_word_embeddings");
    CADRE_TRY(check_variant(r));
    CADRE_TRY(cadre_settings_put(r->set, "model.kind", "gpt2", CADRE_FROM_FILE, r->label));
    CADRE_TRY(put_whole(r, "n_layer", "model.layers", true));
    CADRE_TRY(put_whole(r, "n_head", "model.heads", true));
    CADRE_TRY(put_whole(r, "n_embd", "model.width", true));
    CADRE_TRY(put_whole(r, "n_inner", "model.ffn_width", false));
    CADRE_TRY(put_whole(r, "vocab_size", "model.vocab", true));
    CADRE_TRY(whole(r, "n_positions", &positions));
    CADRE_TRY(put_whole(r, positions ? "n_positions" : "n_ctx", "model.context", true));
    CADRE_TRY(put_real(r, "layer_norm_epsilon", "model.norm_eps"));
    CADRE_TRY(put_real(r, "resid_pdrop", "model.dropout"));
    return cadre_settings_put(r->set, "model.tied", json_is_false(tied) ? "false" : "true",
                              CADRE_FROM_FILE, r->label);
}

static cadre_status read_root(const reader *r) {
    const char *type = json_string_value(json_object_get(r->root, "model_type"));
    CADRE_CHECK(json_is_object(r->root) && type, CADRE_EDATA,
                "%s is not a model's config.json: it has no \"model_type\"", r->label);
    CADRE_CHECK(strcmp(type, "gpt2") == 0, CADRE_EDATA,
                "%s: model_type %s is not known; it takes gpt2", r->label, type);
    return read_gpt2(r);
}

/* A value that no model has is a fault of the file, whatever setting it went to. */
static cadre_status fault_of_file(cadre_status st) {
    cadre_error error;
    if (st != CADRE_EUSAGE) return st;
    cadre_error_save(&error);
    error.status = CADRE_EDATA;
    return cadre_error_restore(&error);
}

cadre_status cadre_model_config_read(cadre_settings *set, const char *json, size_t bytes,
                                     const char *label) {
    json_error_t error;
    json_t *root = json_loadb(json, bytes, 0, &error);
    CADRE_CHECK(root, CADRE_EDATA, "%s line %d: %s", label, error.line, error.text);
    const reader r = {set, root, label};
    cadre_status st = read_root(&r);
    json_decref(root);
    if (!st && (st = cadre_model_resolve(set))) cadre_error_prefix(st, "%s: ", label);
    return fault_of_file(st);
}

/* ---- as derived values ---- */

static bool same_value(const char *a, const char *b) {
    double x, y;
    bool p, q;
    if (cadre_parse_f64(a, &x) && cadre_parse_f64(b, &y)) return x == y;
    if (cadre_parse_bool(a, &p) && cadre_parse_bool(b, &q)) return p == q;
    return strcmp(a, b) == 0;
}

static bool of_preset(const cadre_settings *set, const char *name) {
    for (int i = 0; i < cadre_settings_count(set); i++) {
        cadre_setting_view v;
        cadre_settings_view(set, i, &v);
        if (strcmp(v.row->name, name) == 0) return v.source == CADRE_FROM_PRESET;
    }
    return false;
}

static cadre_status refuse_other(const cadre_settings *set, const char *name, const char *theirs,
                                 const char *label) {
    const char *ours = cadre_settings_get(set, name);
    if (of_preset(set, name))
        return CADRE_FAIL(CADRE_EUSAGE,
                          "model.preset=%s is given, which has %s=%s, but the weights of "
                          "model.from have %s (%s); leave the preset out",
                          cadre_settings_get(set, "model.preset"), name, ours, theirs, label);
    return CADRE_FAIL(CADRE_EUSAGE,
                      "%s=%s is given, but the weights of model.from have %s (%s); leave it out",
                      name, ours, theirs, label);
}

/* One value that config.json decides; a start that drops out otherwise is the same model. */
static cadre_status apply_one(cadre_settings *set, const char *name, const char *theirs,
                              const char *label) {
    bool free = strcmp(name, "model.dropout") == 0;
    if (!free && cadre_settings_given(set, name) &&
        !same_value(cadre_settings_get(set, name), theirs))
        return refuse_other(set, name, theirs, label);
    return cadre_settings_derive(set, name, "%s", theirs);
}

static cadre_status apply_all(cadre_settings *set, cadre_settings *theirs, const char *label) {
    static const char *const decided[] = {"model.kind",      "model.layers",  "model.heads",
                                          "model.head_dim",  "model.width",   "model.vocab",
                                          "model.ffn_width", "model.context", "model.dropout",
                                          "model.tied",      "model.norm_eps"};
    for (int i = 0; i < CADRE_COUNT(decided); i++)
        CADRE_TRY(apply_one(set, decided[i], cadre_settings_get(theirs, decided[i]), label));
    return CADRE_OK;
}

cadre_status cadre_model_apply_config(cadre_settings *set, const char *json, size_t bytes,
                                      const char *label) {
    static const cadre_setting_table *const tables[] = {&cadre_model_settings};
    cadre_settings *theirs = NULL;
    CADRE_TRY(cadre_settings_make(&theirs, tables, 1));
    cadre_status st = cadre_model_config_read(theirs, json, bytes, label);
    if (!st) st = apply_all(set, theirs, label);
    cadre_settings_close(&theirs);
    return st;
}
