/* SPDX-License-Identifier: Apache-2.0
 *
 * The splitter on PCRE2, compiled to machine code where that is allowed.
 *
 * Patterns are written for other engines (Oniguruma, Rust's, Python's regex). Two differences are
 * evened out: there a blank (\s) is Unicode's White_Space, which has no U+180E, and ^ and $ stand
 * at line ends.
 */
#include "data/split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "data/utf8.h"

enum { MOST_PATTERNS = 8 };

#define BLANKS                                                                                     \
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"        \
    "\\x{205f}\\x{3000}"

const char *const cadre_split_gpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct cadre_splitter {
    pcre2_code *patterns[MOST_PATTERNS];
    int count;
};

cadre_status cadre_splitter_open(cadre_splitter **ret_splitter) {
    return cadre_alloc(ret_splitter, CADRE_MEM_LOADER, sizeof **ret_splitter);
}

/* \s and \S in PCRE2's words; \S inside brackets, which nobody writes, keeps PCRE2's meaning. */
static void translate(const char *pattern, cadre_text *to) {
    bool inside = false;
    for (const char *p = pattern; *p; p++) {
        if (*p == '\\' && p[1]) {
            p++;
            if (*p == 's')
                cadre_text_add(to, "%s" BLANKS "%s", inside ? "" : "[", inside ? "" : "]");
            else if (*p == 'S' && !inside)
                cadre_text_add(to, "[^" BLANKS "]");
            else
                cadre_text_add(to, "\\%c", *p);
            continue;
        }
        if (*p == '[' && !inside) {
            inside = true;
            if (p[1] == '^') cadre_text_add(to, "%c", *p++);
            if (p[1] == ']') cadre_text_add(to, "%c", *p++);
        } else if (*p == ']') {
            inside = false;
        }
        cadre_text_add(to, "%c", *p);
    }
}

cadre_status cadre_splitter_add(cadre_splitter *s, const char *pattern, const char *label) {
    cadre_text text = {0};
    int error = 0;
    PCRE2_SIZE at = 0;
    CADRE_CHECK(s->count < MOST_PATTERNS, CADRE_EDATA,
                "%s splits text with more than %d patterns one after the other", label,
                MOST_PATTERNS);
    translate(pattern, &text);
    cadre_status st = text.status;
    pcre2_code *code =
        st ? NULL
           : pcre2_compile((PCRE2_SPTR)(text.at ? text.at : ""), text.length,
                           PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &at, NULL);
    cadre_text_free(&text);
    CADRE_TRY(st);
    if (!code) {
        char reason[256] = "";
        (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)reason, sizeof reason);
        return CADRE_FAIL(CADRE_EDATA, "%s: the split pattern '%.200s' cannot be used: %s", label,
                          pattern, reason);
    }
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* without it the pattern is interpreted */
    s->patterns[s->count++] = code;
    return CADRE_OK;
}

typedef struct splitting {
    const cadre_splitter *splitter;
    const char *label;
    cadre_piece_fn *fn;
    void *self;
    pcre2_match_context *context;
    pcre2_match_data *match[MOST_PATTERNS];
} splitting;

/* The next match that is not empty: `*ret_begin` = bytes where there is none. */
static cadre_status next_match(const splitting *g, int level, const char *text, size_t bytes,
                               size_t from, size_t *ret_begin, size_t *ret_end) {
    int found = pcre2_match(g->splitter->patterns[level], (PCRE2_SPTR)text, bytes, from,
                            PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, g->match[level], g->context);
    *ret_begin = *ret_end = bytes;
    if (found == PCRE2_ERROR_NOMATCH) return CADRE_OK;
    if (found < 0) {
        char reason[256] = "";
        (void)pcre2_get_error_message(found, (PCRE2_UCHAR *)reason, sizeof reason);
        return CADRE_FAIL(CADRE_EDATA, "the tokenizer's pattern cannot split %s: %s", g->label,
                          reason);
    }
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(g->match[level]);
    CADRE_CHECK(ends[0] >= from && ends[0] < ends[1], CADRE_EDATA,
                "the tokenizer's pattern moves the start of a match (\\K), which is not supported");
    *ret_begin = ends[0];
    *ret_end = ends[1];
    return CADRE_OK;
}

static cadre_status split(const splitting *g, int level, const char *text, size_t bytes) {
    if (level == g->splitter->count) return g->fn(g->self, text, bytes);
    for (size_t at = 0; at < bytes;) {
        size_t begin, end;
        CADRE_TRY(next_match(g, level, text, bytes, at, &begin, &end));
        if (begin > at) CADRE_TRY(split(g, level + 1, text + at, begin - at));
        if (end > begin) CADRE_TRY(split(g, level + 1, text + begin, end - begin));
        at = end;
    }
    return CADRE_OK;
}

/* The bytes up to the next valid character. */
static size_t invalid_run(const char *text, size_t bytes) {
    uint32_t point;
    size_t n = 0;
    while (n < bytes && cadre_utf8_next(text + n, bytes - n, &point) == 0) n++;
    return n;
}

static cadre_status split_all(const splitting *g, const char *text, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        size_t valid = cadre_utf8_valid(text + at, bytes - at);
        if (valid) CADRE_TRY(split(g, 0, text + at, valid));
        at += valid;
        size_t invalid = invalid_run(text + at, bytes - at);
        if (invalid) CADRE_TRY(g->fn(g->self, text + at, invalid));
        at += invalid;
    }
    return CADRE_OK;
}

cadre_status cadre_splitter_run(const cadre_splitter *s, const char *text, size_t bytes,
                                const char *label, cadre_piece_fn *fn, void *self) {
    splitting g = {.splitter = s, .label = label, .fn = fn, .self = self};
    pcre2_jit_stack *stack = pcre2_jit_stack_create(32 << 10, 16 << 20, NULL);
    g.context = pcre2_match_context_create(NULL);
    bool ready = stack && g.context;
    for (int i = 0; i < s->count; i++)
        ready = (g.match[i] = pcre2_match_data_create(1, NULL)) && ready;
    cadre_status st = CADRE_OK;
    if (!ready) st = CADRE_FAIL(CADRE_ERESOURCE, "no memory to split %s into words", label);
    if (!st) pcre2_jit_stack_assign(g.context, NULL, stack);
    if (!st) st = split_all(&g, text, bytes);
    for (int i = 0; i < s->count; i++) pcre2_match_data_free(g.match[i]);
    pcre2_match_context_free(g.context);
    pcre2_jit_stack_free(stack);
    return st;
}

void cadre_splitter_close(cadre_splitter **s) {
    if (!*s) return;
    for (int i = 0; i < (*s)->count; i++) pcre2_code_free((*s)->patterns[i]);
    cadre_free(s);
}
