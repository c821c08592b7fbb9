/* SPDX-License-Identifier: Apache-2.0
 *
 * A corpus from its settings: read, cut into a training and a validation part, make tokens.
 */
#include "data/corpus.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "data/files.h"
#include "data/tokenizer_private.h"
#include "data/utf8.h"

struct cadre_corpus {
    cadre_held_run train, valid; /* a validation part cut off `train` borrows its memory */
    const cadre_tokenizer *tokenizer;
    cadre_tokenizer *owned; /* the same, where it is ours */
    uint64_t hash;
};

/* What the settings name, while a corpus is made of it. */
typedef struct sources {
    const cadre_data_cfg *cfg;
    cadre_paths train, valid;
    cadre_file_text train_text, valid_text;
    double fraction;
} sources;

static cadre_status check_cfg(const cadre_data_cfg *cfg) {
    static const char *const later[] = {
        [CADRE_DATA_IDX] = "idx", [CADRE_DATA_CIFAR10] = "cifar10", [CADRE_DATA_FOLDER] = "folder"};
    CADRE_CHECK(cfg->format <= CADRE_DATA_TOKENS, CADRE_EUSAGE,
                "data.format=%s: images are not built yet; text and tokens are",
                later[cfg->format]);
    CADRE_CHECK(!cfg->valid.count || !(cfg->valid_fraction > 0), CADRE_EUSAGE,
                "data.valid and data.valid_fraction=%g are both given; give one of them",
                cfg->valid_fraction);
    return CADRE_OK;
}

/* ---- the cut ---- */

/* The first floor(n (1 - f)) of n, without the error of a product that should have been whole. */
static int64_t training_share(int64_t n, double fraction) {
    return n - (int64_t)ceil((double)n * fraction * (1 - 4e-16));
}

static cadre_status check_parts(const cadre_corpus *c, const char *name, const char *valid_name) {
    int64_t train = c->train.run.count, valid = c->valid.run.count;
    CADRE_CHECK(train > 0, CADRE_EDATA, "nothing is left of %s to train on", name);
    CADRE_CHECK(valid == 0 || valid >= 2, CADRE_EDATA,
                "the validation data (%s) has %" PRId64 " token; it takes at least 2", valid_name,
                valid);
    return CADRE_OK;
}

static cadre_status too_little(const char *name, double fraction, int64_t n) {
    return CADRE_FAIL(CADRE_EDATA,
                      "the validation part of %s has %" PRId64 " tokens, which is below 2; give "
                      "more data, or data.valid_fraction=0 (it is %g)",
                      name, n, fraction);
}

/* ---- text ---- */

static cadre_status open_tokenizer(cadre_corpus *c, const sources *s) {
    const cadre_paths *const lists[] = {&s->train, &s->valid};
    CADRE_TRY(cadre_paths_tokenizer(&c->owned, s->cfg->tokenizer, lists, 2));
    c->tokenizer = c->owned;
    return CADRE_OK;
}

static cadre_status encode(cadre_held_run *ret_run, const cadre_tokenizer *tokenizer,
                           const char *text, size_t bytes, const char *label) {
    cadre_tokens tokens = {0};
    CADRE_TRY(cadre_tokenizer_encode(tokenizer, text, bytes, label, &tokens));
    cadre_status st = cadre_held_run_take(ret_run, &tokens, cadre_tokenizer_vocab(tokenizer));
    cadre_tokens_free(&tokens);
    if (!st) ret_run->run.text_bytes = (int64_t)bytes;
    return st;
}

/* Bytes of the training part: characters are counted, bytes where the text is not UTF-8. */
static size_t cut_text(const cadre_file_text *text, double fraction) {
    if (cadre_utf8_valid(text->at, text->bytes) < text->bytes)
        return (size_t)training_share((int64_t)text->bytes, fraction);
    int64_t count = cadre_utf8_count(text->at, text->bytes);
    return cadre_utf8_offset(text->at, text->bytes, training_share(count, fraction));
}

static cadre_status encode_text(cadre_corpus *c, const sources *s) {
    const cadre_file_text *text = &s->train_text;
    const char *name = s->train.at[0];
    size_t cut = s->fraction > 0 ? cut_text(text, s->fraction) : text->bytes;
    CADRE_TRY(encode(&c->train, c->tokenizer, text->at, cut, name));
    if (s->valid.count)
        return encode(&c->valid, c->tokenizer, s->valid_text.at, s->valid_text.bytes,
                      s->valid.at[0]);
    if (s->fraction == 0) return CADRE_OK;
    CADRE_TRY(encode(&c->valid, c->tokenizer, text->at + cut, text->bytes - cut, name));
    if (c->valid.run.count < 2) return too_little(name, s->fraction, c->valid.run.count);
    return CADRE_OK;
}

static cadre_status open_text(cadre_corpus *c, sources *s) {
    s->fraction =
        isnan(s->cfg->valid_fraction) ? (s->valid.count ? 0 : 0.1) : s->cfg->valid_fraction;
    CADRE_TRY(cadre_file_text_open(&s->train_text, &s->train));
    CADRE_TRY(cadre_file_text_open(&s->valid_text, &s->valid));
    CADRE_TRY(open_tokenizer(c, s));
    return encode_text(c, s);
}

/* ---- token files ---- */

/* X.tokenizer.json beside X.bin; files joined that have one have the same. */
static cadre_status beside(cadre_corpus *c, const cadre_paths *paths) {
    char path[CADRE_PATH], first[CADRE_PATH] = "";
    uint64_t hash = 0;
    for (int i = 0; i < paths->count; i++) {
        if (!cadre_path_is_file(cadre_tokenizer_beside(path, paths->at[i]))) continue;
        cadre_map map;
        CADRE_TRY(cadre_map_open(&map, path));
        uint64_t own = cadre_hash(map.data, map.bytes, 0);
        cadre_status st = CADRE_OK;
        if (!first[0])
            st = cadre_tokenizer_from_json(&c->owned, (const char *)map.data, map.bytes, path);
        else if (own != hash)
            st = CADRE_FAIL(CADRE_EDATA, "%s and %s differ; files joined have one tokenizer", first,
                            path);
        cadre_map_close(&map);
        if (st) return st;
        if (!first[0]) memcpy(first, path, sizeof first);
        hash = own;
    }
    c->tokenizer = c->owned;
    return CADRE_OK;
}

static cadre_status check_ids(const cadre_corpus *c, const cadre_held_run *held, const char *name) {
    if (!c->tokenizer || held->run.count == 0) return CADRE_OK;
    CADRE_CHECK(held->run.largest < cadre_tokenizer_vocab(c->tokenizer), CADRE_EDATA,
                "%s has the token %" PRId32 ", out of range of its tokenizer, whose ids end before "
                "%" PRId64,
                name, held->run.largest, cadre_tokenizer_vocab(c->tokenizer));
    return CADRE_OK;
}

/* The bytes that the tokens stand for; not known when one of them has none. */
static void count_bytes(cadre_held_run *held, const cadre_tokenizer *t) {
    int64_t bytes = 0;
    for (int64_t i = 0; t && i < held->run.count; i++) {
        size_t n = 0;
        if (!t->row->piece(t, cadre_token_at(&held->run, i), &n)) return;
        bytes += (int64_t)n;
    }
    held->run.text_bytes = bytes;
}

static cadre_status cut_tokens(cadre_corpus *c, const sources *s) {
    cadre_run_of_tokens *train = &c->train.run, *valid = &c->valid.run;
    if (s->fraction == 0) return CADRE_OK;
    int64_t cut = training_share(train->count, s->fraction);
    *valid = *train;
    valid->count = train->count - cut;
    valid->data = (const char *)train->data + cut * (train->wide ? 4 : 2);
    train->count = cut;
    if (valid->count < 2) return too_little(s->train.at[0], s->fraction, valid->count);
    CADRE_TRY(cadre_run_largest(train, s->train.at[0]));
    return cadre_run_largest(valid, s->train.at[0]);
}

static cadre_status open_tokens(cadre_corpus *c, sources *s) {
    const char *spec = s->cfg->tokenizer;
    s->fraction = isnan(s->cfg->valid_fraction) ? 0 : s->cfg->valid_fraction;
    CADRE_TRY(cadre_token_files_open(&c->train, &s->train, s->cfg->dtype));
    if (s->valid.count) CADRE_TRY(cadre_token_files_open(&c->valid, &s->valid, s->cfg->dtype));
    CADRE_TRY(beside(c, &s->train));
    if (!c->owned && strcmp(spec, "char") != 0)
        CADRE_TRY(cadre_tokenizer_open(&c->owned, spec, NULL, 0, ""));
    c->tokenizer = c->owned;
    CADRE_TRY(check_ids(c, &c->train, s->train.at[0]));
    if (s->valid.count) CADRE_TRY(check_ids(c, &c->valid, s->valid.at[0]));
    CADRE_TRY(cut_tokens(c, s));
    count_bytes(&c->train, c->tokenizer);
    count_bytes(&c->valid, c->tokenizer);
    return CADRE_OK;
}

/* ---- the whole ---- */

/* Both lists of files; whether they are tokens. */
static cadre_status open_sources(sources *s, bool *ret_tokens) {
    bool valid_tokens = false;
    CADRE_TRY(cadre_paths_open(&s->train, &s->cfg->train));
    CADRE_TRY(cadre_paths_open(&s->valid, &s->cfg->valid));
    CADRE_TRY(cadre_paths_are_tokens(&s->train, s->cfg->format, ret_tokens));
    CADRE_TRY(cadre_paths_are_tokens(&s->valid, s->cfg->format, &valid_tokens));
    CADRE_CHECK(!s->valid.count || *ret_tokens == valid_tokens, CADRE_EDATA,
                "%s looks like %s and %s like %s; training and validation data are of one kind, "
                "which data.format=text or tokens can say",
                s->train.at[0], *ret_tokens ? "tokens" : "text", s->valid.at[0],
                valid_tokens ? "tokens" : "text");
    return CADRE_OK;
}

static void close_sources(sources *s) {
    cadre_file_text_close(&s->valid_text);
    cadre_file_text_close(&s->train_text);
    cadre_paths_close(&s->valid);
    cadre_paths_close(&s->train);
}

static cadre_status fill(cadre_corpus *c, sources *s) {
    bool tokens = false;
    CADRE_TRY(open_sources(s, &tokens));
    CADRE_TRY(tokens ? open_tokens(c, s) : open_text(c, s));
    CADRE_TRY(check_parts(c, s->train.at[0], s->valid.count ? s->valid.at[0] : s->train.at[0]));
    const cadre_run_of_tokens *train = &c->train.run;
    c->hash = cadre_hash(train->data, (size_t)train->count * (train->wide ? 4 : 2), train->wide);
    return CADRE_OK;
}

cadre_status cadre_corpus_open(cadre_corpus **ret_corpus, const cadre_data_cfg *cfg) {
    CADRE_TRY(check_cfg(cfg));
    CADRE_CHECK(cfg->train.count, CADRE_EUSAGE,
                "nothing to train on: give data.train, as in --data.train=FILE");
    sources s = {.cfg = cfg};
    cadre_corpus *c = NULL;
    CADRE_TRY(cadre_alloc(&c, CADRE_MEM_LOADER, sizeof *c));
    cadre_status st = fill(c, &s);
    close_sources(&s);
    if (st) {
        cadre_corpus_close(&c);
        return st;
    }
    *ret_corpus = c;
    return CADRE_OK;
}

static cadre_status fill_valid(cadre_corpus *c, sources *s) {
    bool tokens = false;
    const char *name = s->cfg->valid.at[0];
    CADRE_TRY(cadre_paths_open(&s->valid, &s->cfg->valid));
    CADRE_TRY(cadre_paths_are_tokens(&s->valid, s->cfg->format, &tokens));
    CADRE_CHECK(tokens || c->tokenizer, CADRE_EDATA,
                "%s is text, but there is no tokenizer to read it with; token files can be read",
                name);
    if (tokens) {
        CADRE_TRY(cadre_token_files_open(&c->valid, &s->valid, s->cfg->dtype));
        CADRE_TRY(check_ids(c, &c->valid, name));
        count_bytes(&c->valid, c->tokenizer);
    } else {
        CADRE_TRY(cadre_file_text_open(&s->valid_text, &s->valid));
        CADRE_TRY(encode(&c->valid, c->tokenizer, s->valid_text.at, s->valid_text.bytes, name));
    }
    CADRE_CHECK(c->valid.run.count >= 2, CADRE_EDATA,
                "%s has %" PRId64 " tokens; a validation takes at least 2", name,
                c->valid.run.count);
    return CADRE_OK;
}

cadre_status cadre_corpus_open_valid(cadre_corpus **ret_corpus, const cadre_data_cfg *cfg,
                                     const cadre_tokenizer *tokenizer) {
    CADRE_CHECK(cfg->valid.count, CADRE_EUSAGE,
                "nothing to validate on: give data.valid, as in --data.valid=FILE");
    cadre_data_cfg only = *cfg;
    only.valid_fraction = 0;
    CADRE_TRY(check_cfg(&only));
    sources s = {.cfg = &only};
    cadre_corpus *c = NULL;
    CADRE_TRY(cadre_alloc(&c, CADRE_MEM_LOADER, sizeof *c));
    c->tokenizer = tokenizer;
    cadre_status st = fill_valid(c, &s);
    close_sources(&s);
    if (st) {
        cadre_corpus_close(&c);
        return st;
    }
    *ret_corpus = c;
    return CADRE_OK;
}

const cadre_run_of_tokens *cadre_corpus_train(const cadre_corpus *c) {
    return &c->train.run;
}

const cadre_run_of_tokens *cadre_corpus_valid(const cadre_corpus *c) {
    return &c->valid.run;
}

const cadre_tokenizer *cadre_corpus_tokenizer(const cadre_corpus *c) {
    return c->tokenizer;
}

int64_t cadre_corpus_vocab(const cadre_corpus *c) {
    int32_t train = c->train.run.largest, valid = c->valid.run.largest;
    if (c->tokenizer) return cadre_tokenizer_vocab(c->tokenizer);
    return (int64_t)(train > valid ? train : valid) + 1;
}

uint64_t cadre_corpus_hash(const cadre_corpus *c) {
    return c->hash;
}

void cadre_corpus_close(cadre_corpus **c) {
    if (!*c) return;
    cadre_held_run_close(&(*c)->valid);
    cadre_held_run_close(&(*c)->train);
    cadre_tokenizer_close(&(*c)->owned);
    cadre_free(c);
}
