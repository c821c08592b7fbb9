/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-level BPE at work. A piece of text begins as one symbol a byte; the pair of neighbours with
 * the lowest rank, the leftmost among equals, is joined until no pair has a rank. Symbols are a
 * linked list and candidates a heap, so that a piece of n bytes takes n log n steps.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "data/bpe.h"

typedef struct symbol {
    int32_t id; /* -1: joined into its left neighbour */
    int32_t previous, next;
} symbol;

typedef struct candidate {
    int32_t rank, at; /* `at`: the left symbol */
    uint64_t pair;
    int32_t id;
} candidate;

typedef struct encoder {
    const cadre_bpe *t;
    const char *text, *label;
    cadre_id_list ids;
    symbol *symbols;
    candidate *heap;
    int32_t room, waiting; /* symbols there is room for; candidates in the heap */
} encoder;

int32_t cadre_bpe_word(const cadre_bpe *t, const char *bytes, size_t n) {
    for (uint64_t i = cadre_hash(bytes, n, 0);; i++) {
        int32_t id = t->words[i & t->word_mask];
        if (id < 0) return -1;
        const cadre_bpe_piece *piece = &t->pieces[id];
        if ((size_t)piece->length == n && memcmp(t->bytes.at + piece->at, bytes, n) == 0) return id;
    }
}

cadre_bpe_merge *cadre_bpe_slot(const cadre_bpe *t, uint64_t pair) {
    uint64_t mixed = pair * UINT64_C(0x9E3779B97F4A7C15);
    for (uint64_t i = mixed >> 32;; i++) {
        cadre_bpe_merge *merge = &t->merges[i & t->merge_mask];
        if (merge->rank < 0 || merge->pair == pair) return merge;
    }
}

static bool before(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(encoder *e, candidate c) {
    int32_t i = e->waiting++;
    for (int32_t up; i > 0 && (up = (i - 1) / 2, before(&c, &e->heap[up])); i = up)
        e->heap[i] = e->heap[up];
    e->heap[i] = c;
}

static candidate heap_pop(encoder *e) {
    candidate top = e->heap[0], last = e->heap[--e->waiting];
    int32_t i = 0;
    for (int32_t down; (down = 2 * i + 1) < e->waiting; i = down) {
        if (down + 1 < e->waiting && before(&e->heap[down + 1], &e->heap[down])) down++;
        if (!before(&e->heap[down], &last)) break;
        e->heap[i] = e->heap[down];
    }
    e->heap[i] = last;
    return top;
}

/* The symbol and its right neighbour, when they can be joined. */
static void propose(encoder *e, int32_t at) {
    if (at < 0 || e->symbols[at].next < 0) return;
    uint64_t pair = cadre_bpe_pair(e->symbols[at].id, e->symbols[e->symbols[at].next].id);
    const cadre_bpe_merge *merge = cadre_bpe_slot(e->t, pair);
    if (merge->rank >= 0) heap_push(e, (candidate){merge->rank, at, pair, merge->id});
}

static void join(encoder *e, const candidate *c) {
    symbol *left = &e->symbols[c->at];
    if (left->id < 0 || left->next < 0) return;
    symbol *right = &e->symbols[left->next];
    if (cadre_bpe_pair(left->id, right->id) != c->pair) return; /* one of them has changed since */
    left->id = c->id;
    left->next = right->next;
    right->id = -1;
    if (left->next >= 0) e->symbols[left->next].previous = c->at;
    propose(e, left->previous);
    propose(e, c->at);
}

/* Each of n - 1 joins proposes at most two pairs, and there are n - 1 to begin with. */
static cadre_status make_room(encoder *e, size_t n) {
    CADRE_CHECK(n <= INT32_MAX / 4, CADRE_EDATA,
                "%s has a piece of %zu bytes that the tokenizer's pattern does not split; at most "
                "%d can be encoded",
                e->label, n, INT32_MAX / 4);
    if ((int32_t)n <= e->room) return CADRE_OK;
    size_t room = n < 256 ? 256 : 2 * n;
    if (room > INT32_MAX / 4) room = n;
    CADRE_TRY(cadre_realloc(&e->symbols, CADRE_MEM_OTHER, room * sizeof *e->symbols));
    CADRE_TRY(cadre_realloc(&e->heap, CADRE_MEM_OTHER, 3 * room * sizeof *e->heap));
    e->room = (int32_t)room;
    return CADRE_OK;
}

static cadre_status encode_piece(void *self, const char *piece, size_t bytes) {
    encoder *e = self;
    int32_t n = (int32_t)bytes;
    if (e->t->ignore_merges) {
        int32_t id = cadre_bpe_word(e->t, piece, bytes);
        if (id >= 0) return cadre_id_add(&e->ids, id);
    }
    CADRE_TRY(make_room(e, bytes));
    for (int32_t i = 0; i < n; i++) {
        int byte = (unsigned char)piece[i];
        CADRE_CHECK(e->t->byte_id[byte] >= 0, CADRE_EDATA,
                    "%s has the byte 0x%02X at byte %zu, for which the tokenizer has no token",
                    e->label, byte, (size_t)(piece - e->text) + (size_t)i);
        e->symbols[i] = (symbol){e->t->byte_id[byte], i - 1, i + 1 < n ? i + 1 : -1};
    }
    e->waiting = 0;
    for (int32_t i = 0; i < n; i++) propose(e, i);
    while (e->waiting) {
        candidate c = heap_pop(e);
        join(e, &c);
    }
    for (int32_t i = 0; i >= 0; i = e->symbols[i].next)
        CADRE_TRY(cadre_id_add(&e->ids, e->symbols[i].id));
    return CADRE_OK;
}

static cadre_status bpe_encode(const cadre_tokenizer *head, const char *text, size_t bytes,
                               const char *label, cadre_tokens *ret_tokens) {
    const cadre_bpe *t = (const cadre_bpe *)head;
    encoder e = {.t = t, .text = text, .label = label};
    cadre_status st = cadre_splitter_run(t->splitter, text, bytes, label, encode_piece, &e);
    cadre_free(&e.heap);
    cadre_free(&e.symbols);
    if (st) {
        cadre_free(&e.ids.at);
        return st;
    }
    *ret_tokens = (cadre_tokens){.ids = e.ids.at, .count = e.ids.count};
    return CADRE_OK;
}

static const char *bpe_piece(const cadre_tokenizer *head, int32_t id, size_t *ret_bytes) {
    const cadre_bpe *t = (const cadre_bpe *)head;
    if (!t->pieces[id].known) return NULL;
    *ret_bytes = (size_t)t->pieces[id].length;
    return t->bytes.at + t->pieces[id].at;
}

static cadre_status bpe_to_json(const cadre_tokenizer *head, cadre_text *to) {
    const cadre_bpe *t = (const cadre_bpe *)head;
    cadre_text_add_bytes(to, t->json.at, t->json.length);
    return to->status;
}

static void bpe_close(cadre_tokenizer *head) {
    cadre_bpe *t = (cadre_bpe *)head;
    cadre_splitter_close(&t->splitter);
    cadre_free(&t->merges);
    cadre_free(&t->words);
    cadre_free(&t->pieces);
    cadre_text_free(&t->bytes);
    cadre_text_free(&t->json);
    cadre_free(&t);
}

const cadre_tokenizer_row cadre_bpe_row = {"bpe", bpe_encode, bpe_piece, bpe_to_json, bpe_close};
