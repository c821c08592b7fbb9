/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre generate: lets a checkpoint speak, token by token, to standard output. Each draw is keyed
 * by (seed, place), so the same call says the same.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "base/rng.h"
#include "base/status.h"
#include "cli/cli.h"

typedef struct speaker {
    cli_model model;
    int64_t context, vocab;
    int32_t *tokens;
    int64_t count, prompt; /* tokens there are; of them the prompt's */
    double temperature;
    int64_t top_k;
    uint64_t key;
    double *weights;
    int32_t *order;     /* for top-k */
    cadre_text pending; /* bytes of a character that is not whole yet */
} speaker;

/* ---- text out ---- */

/* Bytes at the end of `text` that begin a character and do not finish it. */
static size_t unfinished(const char *text, size_t n) {
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)text[n - back];
        if ((c & 0xC0) == 0x80) continue;
        size_t need = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
        return need > back ? back : 0;
    }
    return 0;
}

static cadre_status emit(speaker *s, int32_t token, bool last) {
    if (s->model.tokenizer)
        CADRE_TRY(cadre_tokenizer_decode(s->model.tokenizer, token, &s->pending));
    else
        cadre_text_add(&s->pending, "%d ", token);
    CADRE_TRY(s->pending.status);
    size_t held = last ? 0 : unfinished(s->pending.at, s->pending.length);
    size_t n = s->pending.length - held;
    char rest[4];
    if (n == 0) return CADRE_OK;
    memcpy(rest, s->pending.at + n, held);
    bool ok = fwrite(s->pending.at, 1, n, stdout) == n && fflush(stdout) == 0;
    cadre_text_clear(&s->pending);
    cadre_text_add_bytes(&s->pending, rest, held);
    CADRE_CHECK(ok, CADRE_ERESOURCE, "cannot write to standard output");
    return CADRE_OK;
}

/* ---- the next token ---- */

static cadre_status logits_of(speaker *s, const float **ret_logits) {
    int64_t n = s->count < s->context ? s->count : s->context, sample = 0;
    cadre_pass pass;
    memset(&pass, 0, sizeof pass);
    pass.no_labels = true;
    pass.key.samples = &sample;
    pass.key.sample_count = 1;
    pass.inputs = 1;
    pass.input[0].name = "inputs";
    pass.input[0].tensor = (cadre_tensor){
        .dtype = CADRE_I32, .dims = cadre_dims2(1, n), .data = s->tokens + s->count - n, .id = -1};
    CADRE_TRY(cadre_tape_begin(s->model.tape, &pass));
    const cadre_tensor *logits = cadre_model_forward(s->model.model, s->model.tape);
    CADRE_TRY(cadre_tape_status(s->model.tape));
    *ret_logits = (const float *)logits->data + (n - 1) * s->vocab;
    return CADRE_OK;
}

static const float *sort_logits;
static int by_logit(const void *a, const void *b) {
    int32_t i = *(const int32_t *)a, k = *(const int32_t *)b;
    if (sort_logits[i] != sort_logits[k]) return sort_logits[i] < sort_logits[k] ? 1 : -1;
    return i < k ? -1 : 1;
}

static int32_t greatest(const float *logits, int64_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static int32_t draw(speaker *s, const float *logits) {
    int64_t n = s->top_k > 0 && s->top_k < s->vocab ? s->top_k : s->vocab;
    if (s->temperature == 0) return greatest(logits, s->vocab);
    for (int32_t i = 0; i < s->vocab; i++) s->order[i] = i;
    if (n < s->vocab) {
        sort_logits = logits;
        qsort(s->order, (size_t)s->vocab, sizeof *s->order, by_logit);
    }
    double most = logits[greatest(logits, s->vocab)], sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += s->weights[i] = exp((logits[s->order[i]] - most) / s->temperature);
    cadre_philox block = cadre_philox_draw(s->key, (uint64_t)(s->count - s->prompt), 0);
    double at = cadre_uniform_f64(block.v[0], block.v[1]) * sum;
    for (int64_t i = 0; i < n; i++)
        if ((at -= s->weights[i]) < 0) return s->order[i];
    return s->order[n - 1];
}

static cadre_status speak(speaker *s, int64_t tokens) {
    for (int64_t i = 0; i < tokens; i++) {
        const float *logits = NULL;
        CADRE_TRY(logits_of(s, &logits));
        int32_t next = draw(s, logits);
        s->tokens[s->count++] = next;
        CADRE_TRY(emit(s, next, i == tokens - 1));
    }
    return CADRE_OK;
}

/* ---- the call ---- */

/* A newline where the tokenizer has one, else the first token; shown only when it was asked for. */
static cadre_status take_prompt(speaker *s, const char *prompt, int64_t room) {
    cadre_tokens tokens = {0};
    cadre_status st = CADRE_OK;
    if (prompt && *prompt) {
        CADRE_CHECK(s->model.tokenizer, CADRE_EUSAGE,
                    "%s has no tokenizer, so that a prompt cannot be read; leave --prompt out",
                    s->model.path);
        st =
            cadre_tokenizer_encode(s->model.tokenizer, prompt, strlen(prompt), "--prompt", &tokens);
        CADRE_TRY(st);
    } else if (s->model.tokenizer) {
        st = cadre_tokenizer_encode(s->model.tokenizer, "\n", 1, "--prompt", &tokens);
    }
    bool shown = prompt && *prompt;
    s->count = s->prompt = !st && tokens.count ? tokens.count : 1;
    st = cadre_alloc_array(&s->tokens, CADRE_MEM_OTHER, s->count + room, sizeof *s->tokens);
    if (!st && tokens.count)
        memcpy(s->tokens, tokens.ids, (size_t)tokens.count * sizeof *tokens.ids);
    for (int64_t i = 0; !st && shown && i < s->count; i++) {
        CADRE_CHECK(s->tokens[i] < s->vocab, CADRE_EDATA,
                    "--prompt has token %d, but the model knows %lld", s->tokens[i],
                    (long long)s->vocab);
        st = emit(s, s->tokens[i], false);
    }
    cadre_tokens_free(&tokens);
    return st;
}

static cadre_status prepare(const cli_call *call, speaker *s, int64_t *ret_tokens) {
    int64_t seed = 1;
    CADRE_CHECK(call->word_count == 1, CADRE_EUSAGE,
                "generate takes a checkpoint or a run folder: cadre generate runs/NAME");
    CADRE_TRY(cli_integer(call, "--tokens", 0, 1000000000, 200, ret_tokens));
    CADRE_TRY(cli_real(call, "--temperature", 0, 1000, 1, &s->temperature));
    CADRE_TRY(cli_integer(call, "--top-k", 0, 1000000000, 0, &s->top_k));
    CADRE_TRY(cli_integer(call, "--seed", 0, INT64_MAX, 1, &seed));
    s->key = cadre_rng_key((uint64_t)seed, "generate");
    CADRE_TRY(cli_model_open(call, call->words[0], cadre_cpus_count(), &s->model));
    const cadre_model_cfg *cfg = cadre_model_config(s->model.model);
    s->context = cadre_model_context(s->model.model);
    s->vocab = cfg->vocab;
    CADRE_CHECK(s->context > 0, CADRE_EUSAGE, "%s is no model of tokens", s->model.path);
    CADRE_TRY(cadre_alloc_array(&s->weights, CADRE_MEM_OTHER, s->vocab, sizeof *s->weights));
    return cadre_alloc_array(&s->order, CADRE_MEM_OTHER, s->vocab, sizeof *s->order);
}

int cli_generate(const cli_call *call) {
    speaker s;
    int64_t tokens = 0;
    memset(&s, 0, sizeof s);
    cadre_status st = prepare(call, &s, &tokens);
    if (!st) st = take_prompt(&s, cli_value(call, "--prompt"), tokens);
    if (!st) st = speak(&s, tokens);
    if (!st) printf("\n");
    int code = st ? cli_fail(call, st) : 0;
    cadre_text_free(&s.pending);
    cadre_free(&s.order);
    cadre_free(&s.weights);
    cadre_free(&s.tokens);
    cli_model_close(&s.model);
    return code;
}
