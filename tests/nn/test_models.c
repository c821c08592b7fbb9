/* SPDX-License-Identifier: Apache-2.0
 *
 * What the known models are made of: presets and their sizes, names and orientation, settings that
 * cannot be, config.json; and own chains that are wrong.
 */
#include "model_of.h"

#include "base/alloc.h"
#include "base/fault.h"

static cadre_model *open_model(cadre_settings *set) {
    cadre_model *m = NULL;
    OK(cadre_model_open(&m, set));
    cadre_settings_close(&set);
    return m;
}

/* Sizes as published for GPT-2; the others counted by hand. */
static void presets(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t parameters;
    } want[] = {
        {"gpt2-char", 809856},     {"gpt2-124m", 124439808},   {"gpt2", 124439808},
        {"gpt2-355m", 354823168},  {"gpt2-medium", 354823168}, {"gpt2-774m", 774030080},
        {"gpt2-large", 774030080}, {"gpt2-1.5b", 1557611200},  {"gpt2-xl", 1557611200},
        {"gpt2-13b", 12853386240},
    };
    assert_int_equal(cadre_model_preset_count, CADRE_COUNT(want));
    for (int i = 0; i < CADRE_COUNT(want); i++) {
        assert_string_equal(cadre_model_presets[i].name, want[i].name);
        cadre_settings *set = SETTINGS("model.preset", want[i].name);
        if (i == 0) OK(cadre_settings_set(set, "model.vocab", "65"));
        cadre_model *m = open_model(set);
        assert_int_equal(cadre_model_parameters(m), want[i].parameters);
        cadre_model_close(&m);
    }
}

static void check_param(const cadre_model *m, int id, const char *name, int block, int64_t first,
                        int64_t second, bool decay) {
    const cadre_parameter *p = cadre_model_param(m, id);
    assert_string_equal(p->name, name);
    assert_int_equal(p->id, id);
    assert_int_equal(p->block, block);
    assert_int_equal(p->dims.n, second ? 2 : 1);
    assert_int_equal(p->dims.at[0], first);
    if (second) assert_int_equal(p->dims.at[1], second);
    assert_int_equal(p->decay, decay);
    assert_ptr_equal(cadre_model_find(m, name), p);
}

static void names_of_gpt2(void **state) {
    (void)state;
    cadre_model *m = open_model(SETTINGS("model.vocab", "65")); /* gpt2-char by default */
    static const char *const layer[] = {
        "ln_1.weight",        "ln_1.bias",        "attn.c_attn.weight", "attn.c_attn.bias",
        "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight",        "ln_2.bias",
        "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};
    static const int64_t dims[][2] = {{128, 0},   {128, 0}, {128, 384}, {384, 0},
                                      {128, 128}, {128, 0}, {128, 0},   {128, 0},
                                      {128, 512}, {512, 0}, {512, 128}, {128, 0}};
    assert_int_equal(cadre_model_block_count(m), 6);
    assert_int_equal(cadre_model_param_count(m), 2 + 4 * 12 + 2);
    assert_int_equal(cadre_model_context(m), 64);
    assert_string_equal(cadre_model_block(m, 0)->name, "stem");
    assert_string_equal(cadre_model_block(m, 2)->name, "transformer.h.1");
    assert_string_equal(cadre_model_block(m, 5)->name, "head");
    check_param(m, 0, "transformer.wte.weight", 0, 65, 128, true);
    check_param(m, 1, "transformer.wpe.weight", 0, 64, 128, true);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 12; k++) {
            char name[64];
            snprintf(name, sizeof name, "transformer.h.%d.%s", i, layer[k]);
            check_param(m, 2 + 12 * i + k, name, 1 + i, dims[k][0], dims[k][1], dims[k][1] > 0);
        }
    check_param(m, 50, "transformer.ln_f.weight", 5, 128, 0, false);
    check_param(m, 51, "transformer.ln_f.bias", 5, 128, 0, false);
    assert_null(cadre_model_find(m, "lm_head.weight"));
    cadre_model_close(&m);
    m = open_model(SETTINGS("model.vocab", "65", "model.tied", "false"));
    check_param(m, 52, "lm_head.weight", 5, 65, 128, true);
    cadre_model_close(&m);
}

static void names_of_mlp(void **state) {
    (void)state;
    cadre_model *m = open_model(SETTINGS("model.kind", "mlp", "model.layers", "2", "model.width",
                                         "16", "model.context", "30", "model.vocab", "10"));
    check_param(m, 0, "fc.0.weight", 0, 16, 30, true);
    check_param(m, 1, "fc.0.bias", 0, 16, 0, false);
    check_param(m, 2, "fc.1.weight", 1, 16, 16, true);
    check_param(m, 4, "head.weight", 2, 10, 16, true);
    check_param(m, 5, "head.bias", 2, 10, 0, false);
    assert_int_equal(cadre_model_context(m), 0);
    cadre_model_close(&m);
}

static void refusals(void **state) {
    (void)state;
    static const struct {
        const char *pairs[9];
        const char *part;
    } cases[] = {
        {{"model.heads", "3", "model.vocab", "9"},
         "model.heads=3 does not divide model.width=128; nearest: 2 or 4 heads, or width 126 or "
         "129"},
        {{"model.heads", "200", "model.vocab", "9"}, "nearest: 128 heads, or width 200"},
        {{"model.head_dim", "16", "model.vocab", "9"}, "gpt2 takes head_dim 32"},
        {{"model.layers", "0", "model.vocab", "9"}, "at least 1"},
        {{"model.preset", "gpt2-charr"}, "did you mean gpt2-char?"},
        {{"model.preset", "enormous"}, "gpt2-13b"},
        {{"model.kind", "mlp", "model.preset", "gpt2-char"}, "model.preset=gpt2-char is of"},
        {{"model.kind", "mlp", "model.heads", "3"}, "model.heads belongs to"},
        {{"model.kind", "llama"}, "model.kind=llama is not built yet"},
        {{"model.kind", "cnn"}, "model.kind=cnn is not built yet"},
        {{"model.kind", "resnet"}, "model.kind=resnet is not built yet"},
        {{"model.heads", "4"}, "model.vocab is not set"},
        {{"model.kind", "mlp", "model.vocab", "9"}, "model.context is not set"},
        {{"model.kind", "mlp", "model.context", "9"}, "model.vocab is not set"},
    };
    for (int i = 0; i < CADRE_COUNT(cases); i++) {
        cadre_settings *set = settings_of(cases[i].pairs);
        cadre_model *m = NULL;
        FAILS(cadre_model_open(&m, set), CADRE_EUSAGE, cases[i].part);
        cadre_settings_close(&set);
    }
    cadre_settings *set = SETTINGS("model.layers", "2");
    FAILS(cadre_settings_set(set, "model.dropout", "1"), CADRE_EUSAGE, "model.dropout");
    cadre_settings_close(&set);
}

/* Weights that are given decide the sizes: unset ones are derived, given ones have to agree. */
static void given_weights_decide_the_sizes(void **state) {
    (void)state;
    static const char json[] = "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_head\": 2, "
                               "\"n_embd\": 8, \"vocab_size\": 13, "
                               "\"n_positions\": 32, \"n_inner\": null, \"resid_pdrop\": 0.1, "
                               "\"tie_word_embeddings\": false}";
    static const char *const want[][2] = {{"model.layers", "3"},   {"model.heads", "2"},
                                          {"model.width", "8"},    {"model.vocab", "13"},
                                          {"model.context", "32"}, {"model.ffn_width", "32"},
                                          {"model.head_dim", "4"}, {"model.dropout", "0.1"},
                                          {"model.tied", "false"}, {"model.kind", "gpt2"}};
    static const char *const against[][2] = {{"model.layers", "4"},     {"model.width", "16"},
                                             {"model.ffn_width", "16"}, {"model.tied", "true"},
                                             {"model.kind", "mlp"},     {"model.norm_eps", "1e-6"},
                                             {"model.vocab", "14"},     {"model.context", "16"},
                                             {"model.head_dim", "8"},   {"model.preset", "gpt2"}};
    for (int i = 0; i < CADRE_COUNT(against); i++) {
        cadre_settings *set = SETTINGS("model.from", "DIR", against[i][0], against[i][1]);
        cadre_status st = cadre_model_apply_preset(set);
        if (!st) st = cadre_model_apply_config(set, json, sizeof json - 1, "DIR/config.json");
        if (strcmp(against[i][0], "model.preset") == 0)
            FAILS(st, CADRE_EUSAGE, "model.preset=gpt2 is given, which has model.layers=12, but");
        else
            FAILS(st, CADRE_EUSAGE, "given, but the weights of model.from have");
        assert_non_null(strstr(cadre_error_text(), "DIR/config.json"));
        cadre_settings_close(&set);
    }
    cadre_settings *set = SETTINGS("model.from", "DIR", "model.layers", "3", "model.tied", "no",
                                   "model.norm_eps", "0.00001");
    OK(cadre_model_apply_preset(set));
    OK(cadre_model_apply_config(set, json, sizeof json - 1, "DIR/config.json"));
    for (int i = 0; i < CADRE_COUNT(want); i++)
        if (strcmp(want[i][0], "model.tied") != 0)
            assert_string_equal(cadre_settings_get(set, want[i][0]), want[i][1]);
    assert_null(cadre_settings_get(set, "model.preset"));
    OK(cadre_settings_set(set, "model.dropout", "0"));
    OK(cadre_model_apply_config(set, json, sizeof json - 1, "DIR/config.json"));
    assert_string_equal(cadre_settings_get(set, "model.dropout"), "0");
    cadre_settings_close(&set);
}

/* A feed-forward width of their own is no 4 x width. */
static void given_weights_decide_the_ffn_width(void **state) {
    (void)state;
    static const char json[] = "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_head\": 2, "
                               "\"n_embd\": 8, \"vocab_size\": 13, "
                               "\"n_positions\": 32, \"n_inner\": 48}";
    cadre_settings *set = SETTINGS("model.from", "DIR");
    for (int i = 0; i < 2; i++) { /* settings are resolved again once the data are known */
        OK(cadre_model_apply_preset(set));
        OK(cadre_model_apply_config(set, json, sizeof json - 1, "DIR/config.json"));
        OK(cadre_model_resolve(set));
        assert_string_equal(cadre_settings_get(set, "model.ffn_width"), "48");
    }
    cadre_settings_close(&set);
}

static void every_kind_has_its_row(void **state) {
    (void)state;
    static const char *const names[] = {"mlp", "gpt2", "llama", "cnn", "resnet"};
    assert_int_equal(cadre_model_kind_count, CADRE_COUNT(names));
    for (int i = 0; i < cadre_model_kind_count; i++)
        assert_string_equal(cadre_model_kinds[i].name, names[i]);
}

/* What the user gives beats the preset; what is worked out is recorded as derived. */
static void resolving(void **state) {
    (void)state;
    cadre_settings *set = SETTINGS("model.width", "64");
    OK(cadre_model_apply_preset(set));
    OK(cadre_model_resolve(set));
    assert_string_equal(cadre_settings_get(set, "model.preset"), "gpt2-char");
    assert_string_equal(cadre_settings_get(set, "model.width"), "64");
    assert_string_equal(cadre_settings_get(set, "model.layers"), "4");
    assert_string_equal(cadre_settings_get(set, "model.ffn_width"), "256");
    assert_string_equal(cadre_settings_get(set, "model.head_dim"), "16");
    assert_false(cadre_settings_given(set, "model.ffn_width"));
    assert_null(cadre_settings_get(set, "model.vocab"));
    cadre_settings_close(&set);
}

/* ---- config.json ---- */

static void config_goes_round(void **state) {
    (void)state;
    cadre_text json = {0};
    cadre_model *m = open_model(SETTINGS("model.preset", "gpt2-medium", "model.dropout", "0.1",
                                         "model.ffn_width", "48", "model.norm_eps", "1e-6"));
    OK(cadre_model_config_json(m, &json));
    cadre_model_close(&m);
    assert_non_null(strstr(json.at, "\"architectures\": [\n    \"GPT2LMHeadModel\"\n  ]"));
    assert_non_null(strstr(json.at, "\"layer_norm_epsilon\": 1e-6"));
    assert_non_null(strstr(json.at, "\"resid_pdrop\": 0.1"));
    assert_non_null(strstr(json.at, "\"activation_function\": \"gelu_new\""));
    assert_non_null(strstr(json.at, "\"tokenizer_class\": \"PreTrainedTokenizerFast\""));
    assert_null(strstr(json.at, "eos_token_id")); /* GPT-2's vocabulary has its end of text */
    cadre_settings *set = SETTINGS(NULL);
    OK(cadre_model_config_read(set, json.at, json.length, "config.json"));
    m = open_model(set);
    const cadre_model_cfg *c = cadre_model_config(m);
    assert_int_equal(c->kind, CADRE_KIND_GPT2);
    assert_int_equal(c->layers, 24);
    assert_int_equal(c->heads, 16);
    assert_int_equal(c->width, 1024);
    assert_int_equal(c->context, 1024);
    assert_int_equal(c->vocab, 50257);
    assert_int_equal(c->ffn_width, 48);
    assert_true(c->dropout == 0.1 && c->norm_eps == 1e-6 && c->tied);
    cadre_model_close(&m);
    cadre_text_free(&json);
}

#define SIZES(heads, vocab)                                                                        \
    "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_embd\": 8, \"n_ctx\": 32, \"n_head\": " heads  \
    ", \"vocab_size\": " vocab "}"

static void config_of_hugging_face(void **state) {
    (void)state;
    static const char json[] =
        "{\"model_type\": \"gpt2\", \"n_ctx\": 32, \"n_embd\": 8, \"n_head\": 2, \"n_layer\": 3,"
        " \"n_inner\": null, \"vocab_size\": 77, \"scale_attn_weights\": true,"
        " \"tie_word_embeddings\": false, \"activation_function\": \"gelu_new\"}";
    static const struct {
        const char *json, *part;
    } bad[] = {
        {"{\"model_type\": \"bert\"}", "x.json: model_type bert is not known; it takes gpt2"},
        {"[1]", "no \"model_type\""},
        {"{\"model_type\": \"gpt2\"", "x.json line 1"},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 2.5}", "\"n_layer\" takes a whole number"},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 2}", "\"n_head\" is missing"},
        {"{\"model_type\": \"gpt2\", \"activation_function\": \"relu\"}", "takes gelu_new"},
        {"{\"model_type\": \"gpt2\", \"scale_attn_weights\": false}", "scale_attn_weights"},
        {SIZES("5", "77"), "x.json: model.heads=5 does not divide model.width=8"},
        {SIZES("2", "1000000000000000"), "x.json: model.vocab=1000000000000000"},
        {SIZES("2", "77, \"resid_pdrop\": 1.5"), "x.json: model.dropout=1.5"},
    };
    cadre_settings *set = SETTINGS(NULL);
    OK(cadre_model_config_read(set, json, sizeof json - 1, "config.json"));
    cadre_model *m = open_model(set);
    const cadre_model_cfg *c = cadre_model_config(m);
    assert_int_equal(c->context, 32);
    assert_int_equal(c->ffn_width, 32);
    assert_false(c->tied);
    cadre_model_close(&m);
    for (int i = 0; i < CADRE_COUNT(bad); i++) {
        set = SETTINGS(NULL);
        FAILS(cadre_model_config_read(set, bad[i].json, strlen(bad[i].json), "x.json"), CADRE_EDATA,
              bad[i].part);
        cadre_settings_close(&set);
    }
}

/* ---- own chains ---- */

static cadre_status params(cadre_block *b, const void *arg) {
    const char *const *names = arg;
    for (int i = 0; names[i]; i++) { /* failures stick: the return values need no look */
        if (names[i][0] == '^')
            cadre_param_tied(b, names[i] + 1);
        else
            cadre_param(b, names[i], cadre_dims2(4, 4), cadre_ones());
    }
    return CADRE_OK;
}

static cadre_tensor *asks_for_wrong_name(cadre_tape *t, const cadre_block *b, cadre_tensor *x) {
    return cadre_linear(t, x, cadre_p(b, "fc.wieght"), NULL);
}

static cadre_tensor *returns_nothing(cadre_tape *t, const cadre_block *b, cadre_tensor *x) {
    (void)t;
    (void)b;
    (void)x;
    return NULL;
}

static const char *const first[] = {"embed.weight", "fc.weight", NULL};
static const char *const again[] = {"fc.weight", NULL};
static const char *const ties_later[] = {"^later.weight", NULL};
static const char *const ties_first[] = {"own.weight", "^embed.weight", NULL};

static void wrong_chains(void **state) {
    (void)state;
    const cadre_block_kind twice[] = {CADRE_BLOCK("a", params, returns_nothing, first),
                                      CADRE_BLOCK("b", params, returns_nothing, again)};
    const cadre_block_kind untied[] = {CADRE_BLOCK("a", params, returns_nothing, ties_later)};
    const cadre_block_kind no_forward[] = {CADRE_BLOCK("a", params, NULL, first)};
    cadre_model *m = NULL;
    FAILS(cadre_model_chain(&m, twice, 2, NULL), CADRE_EUSAGE,
          "blocks a and b both declare a parameter fc.weight");
    FAILS(cadre_model_chain(&m, untied, 1, NULL), CADRE_EUSAGE, "no earlier block declares");
    FAILS(cadre_model_chain(&m, no_forward, 1, NULL), CADRE_EUSAGE, "no forward function");
    FAILS(cadre_model_chain(&m, twice, 0, NULL), CADRE_EUSAGE, "at least one block");
}

static void tied_parameters(void **state) {
    (void)state;
    cadre_text json = {0};
    const cadre_block_kind chain[] = {CADRE_BLOCK("a", params, returns_nothing, first),
                                      CADRE_BLOCK("b", params, returns_nothing, ties_first)};
    cadre_model *m = NULL;
    OK(cadre_model_chain(&m, chain, 2, NULL));
    assert_int_equal(cadre_model_parameters(m), 3 * 16);
    const cadre_block *b = cadre_model_block(m, 1);
    assert_ptr_equal(cadre_p(b, "embed.weight"), cadre_model_param(m, 0));
    assert_ptr_equal(cadre_p(b, "own.weight"), cadre_model_param(m, 2));
    assert_true(cadre_p(b, "fc.weight")->id < 0); /* not this block's */
    assert_ptr_equal(cadre_block_arg(b), ties_first);
    assert_null(cadre_model_config(m));
    FAILS(cadre_model_config_json(m, &json), CADRE_EUSAGE, "own chain");
    cadre_model_close(&m);
}

static void mistakes_in_forward(void **state) {
    (void)state;
    static const struct {
        cadre_block_forward_fn *forward;
        const char *part;
    } cases[] = {
        {asks_for_wrong_name,
         "block a has no parameter fc.wieght; the nearest it declares is fc.weight"},
        {returns_nothing, "the forward of block a returned nothing"},
    };
    for (int i = 0; i < CADRE_COUNT(cases); i++) {
        const cadre_block_kind chain[] = {CADRE_BLOCK("a", params, cases[i].forward, first)};
        cadre_model *m = NULL;
        rig r;
        int32_t ids[4] = {0};
        OK(cadre_model_chain(&m, chain, 1, NULL));
        rig_open(&r, m, "ref");
        cadre_pass pass = pass_of(ids, NULL, 1, 4, false);
        OK(cadre_tape_begin(r.tape, &pass));
        (void)cadre_model_forward(m, r.tape);
        FAILS(cadre_tape_status(r.tape), CADRE_EUSAGE, cases[i].part);
        rig_close(&r);
    }
}

static void every_allocation_fails_once(void **state) {
    (void)state;
    cadre_settings *set = SETTINGS("model.layers", "2", "model.vocab", "65");
    int64_t live = cadre_live_bytes();
    bool hit = true;
    for (int k = 0; hit; k++) {
        cadre_model *m = NULL;
        cadre_fault_at(k);
        cadre_status st = cadre_model_open(&m, set);
        hit = cadre_fault_hit();
        cadre_fault_at(-1);
        if (hit) assert_int_equal(st, CADRE_ERESOURCE);
        if (!hit) assert_true(st == CADRE_OK && k > 20);
        cadre_model_close(&m);
        assert_int_equal(cadre_live_bytes(), live);
    }
    cadre_settings_close(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets),
        cmocka_unit_test(names_of_gpt2),
        cmocka_unit_test(names_of_mlp),
        cmocka_unit_test(refusals),
        cmocka_unit_test(given_weights_decide_the_sizes),
        cmocka_unit_test(given_weights_decide_the_ffn_width),
        cmocka_unit_test(every_kind_has_its_row),
        cmocka_unit_test(resolving),
        cmocka_unit_test(config_goes_round),
        cmocka_unit_test(config_of_hugging_face),
        cmocka_unit_test(wrong_chains),
        cmocka_unit_test(tied_parameters),
        cmocka_unit_test(mistakes_in_forward),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
