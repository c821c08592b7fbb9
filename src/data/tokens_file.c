/* SPDX-License-Identifier: Apache-2.0
 *
 * Token files, and the runs of tokens that a corpus holds.
 */
#include "data/tokens_file.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "data/files.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "token files are read as they are");

enum {
    HEADER = CADRE_TOKEN_HEADER,
    MAGIC = 20240520,
    MAGIC_WIDE = 20240801,
    MAGIC_EVAL = 20240522,
    VERSION = 1,
    VERSION_WIDE = 7
};

static int32_t header_word(const void *data, int i) {
    int32_t word;
    memcpy(&word, (const char *)data + 4 * i, sizeof word);
    return word;
}

bool cadre_token_file_has_header(const void *data, size_t bytes) {
    if (bytes < 4) return false;
    int32_t magic = header_word(data, 0), swapped = (int32_t)__builtin_bswap32((uint32_t)magic);
    return magic == MAGIC || magic == MAGIC_WIDE || magic == MAGIC_EVAL || swapped == MAGIC ||
           swapped == MAGIC_WIDE;
}

static cadre_status read_header(cadre_token_file *ret_file, const void *data, size_t bytes,
                                const char *path) {
    int32_t magic = header_word(data, 0);
    CADRE_CHECK(magic != MAGIC_EVAL, CADRE_EDATA,
                "%s is an evaluation file of llm.c (magic %d); training takes magic %d", path,
                magic, MAGIC);
    CADRE_CHECK(magic == MAGIC || magic == MAGIC_WIDE, CADRE_EDATA,
                "%s has the header of llm.c in big-endian order; little-endian is read", path);
    CADRE_CHECK(bytes >= HEADER, CADRE_EDATA,
                "%s has %zu bytes, but the header that it begins with has %d", path, bytes, HEADER);
    bool wide = magic == MAGIC_WIDE;
    int32_t version = header_word(data, 1), count = header_word(data, 2);
    size_t size = wide ? 4 : 2;
    CADRE_CHECK(version == (wide ? VERSION_WIDE : VERSION), CADRE_EDATA,
                "%s has version %d in its header; with magic %d it is %d", path, version, magic,
                wide ? VERSION_WIDE : VERSION);
    CADRE_CHECK(count >= 0 && bytes - HEADER == (size_t)count * size, CADRE_EDATA,
                "%s has %d tokens by its header, which takes %" PRId64 " bytes; it has %zu", path,
                count, HEADER + (int64_t)count * (int64_t)size, bytes);
    *ret_file = (cadre_token_file){(const char *)data + HEADER, wide, count};
    return CADRE_OK;
}

cadre_status cadre_token_file_read(cadre_token_file *ret_file, const void *data, size_t bytes,
                                   bool wide, const char *path) {
    size_t size = wide ? 4 : 2;
    if (cadre_token_file_has_header(data, bytes)) return read_header(ret_file, data, bytes, path);
    CADRE_CHECK(bytes % size == 0, CADRE_EDATA,
                "%s has %zu bytes, which is no whole number of tokens of %zu bytes "
                "(data.dtype=%s)",
                path, bytes, size, wide ? "uint32" : "uint16");
    *ret_file = (cadre_token_file){data, wide, (int64_t)(bytes / size)};
    return CADRE_OK;
}

void cadre_token_file_header(void *ret_header, int32_t count) {
    const int32_t words[] = {MAGIC, VERSION, count};
    memset(ret_header, 0, HEADER);
    memcpy(ret_header, words, sizeof words);
}

/* ---- runs of tokens ---- */

int32_t cadre_token_at(const cadre_run_of_tokens *r, int64_t i) {
    return r->wide ? ((const int32_t *)r->data)[i] : ((const uint16_t *)r->data)[i];
}

cadre_status cadre_run_largest(cadre_run_of_tokens *run, const char *label) {
    uint32_t largest = 0;
    const uint32_t *wide = run->data;
    const uint16_t *narrow = run->data;
    for (int64_t i = 0; i < run->count; i++) {
        uint32_t id = run->wide ? wide[i] : narrow[i];
        if (id > largest) largest = id;
    }
    CADRE_CHECK(largest <= INT32_MAX, CADRE_EDATA,
                "%s has the token %" PRIu32 "; ids end at %d (are these numbers of 16 bits?)",
                label, largest, INT32_MAX);
    run->largest = (int32_t)largest;
    return CADRE_OK;
}

static cadre_status open_one(cadre_held_run *ret_run, const char *path, int dtype) {
    cadre_map map;
    cadre_token_file file;
    CADRE_TRY(cadre_map_open(&map, path));
    cadre_status st = cadre_token_file_read(&file, map.data, map.bytes, dtype == 1, path);
    cadre_held_run held = {.map = map};
    if (!st) {
        held.run = (cadre_run_of_tokens){.data = file.data, .wide = file.wide, .count = file.count};
        st = cadre_run_largest(&held.run, path);
    }
    if (st) {
        cadre_held_run_close(&held);
        return st;
    }
    *ret_run = held;
    return CADRE_OK;
}

/* `to` has room for them behind its own. */
static void append(cadre_run_of_tokens *to, void *memory, const cadre_run_of_tokens *from) {
    uint16_t *narrow = (uint16_t *)memory + to->count;
    int32_t *wide = (int32_t *)memory + to->count;
    for (int64_t i = 0; i < from->count; i++)
        if (to->wide)
            wide[i] = cadre_token_at(from, i);
        else
            narrow[i] = (uint16_t)cadre_token_at(from, i);
    to->count += from->count;
    if (from->largest > to->largest) to->largest = from->largest;
}

static cadre_status join(cadre_held_run *held, const cadre_held_run *parts, int count) {
    int64_t tokens = 0;
    for (int i = 0; i < count; i++) {
        tokens += parts[i].run.count;
        held->run.wide = held->run.wide || parts[i].run.wide;
    }
    CADRE_TRY(cadre_alloc_array(&held->owned, CADRE_MEM_LOADER, tokens, held->run.wide ? 4 : 2));
    held->run.data = held->owned;
    for (int i = 0; i < count; i++) append(&held->run, held->owned, &parts[i].run);
    return CADRE_OK;
}

cadre_status cadre_token_files_open(cadre_held_run *ret_run, const cadre_paths *paths, int dtype) {
    cadre_held_run *parts = NULL, held = {0};
    int opened = 0;
    if (paths->count == 1) return open_one(ret_run, paths->at[0], dtype);
    CADRE_TRY(cadre_alloc_array(&parts, CADRE_MEM_OTHER, paths->count, sizeof *parts));
    cadre_status st = CADRE_OK;
    for (; !st && opened < paths->count; opened += !st)
        st = open_one(&parts[opened], paths->at[opened], dtype);
    if (!st) st = join(&held, parts, opened);
    for (int i = 0; i < opened; i++) cadre_held_run_close(&parts[i]);
    cadre_free(&parts);
    if (!st) *ret_run = held;
    return st;
}

cadre_status cadre_held_run_take(cadre_held_run *ret_run, cadre_tokens *take, int64_t vocab) {
    cadre_held_run held = {.run = {.wide = vocab > 65536, .count = take->count}};
    if (!held.run.wide) {
        for (int64_t i = 0; i < take->count; i++) { /* in place: 2 i never passes 4 i */
            uint16_t id = (uint16_t)take->ids[i];
            memcpy((char *)take->ids + 2 * i, &id, sizeof id);
        }
    }
    CADRE_TRY(
        cadre_realloc(&take->ids, CADRE_MEM_LOADER, (size_t)take->count * (held.run.wide ? 4 : 2)));
    held.owned = take->ids;
    held.run.data = take->ids;
    CADRE_TRY(cadre_run_largest(&held.run, "text"));
    *take = (cadre_tokens){0};
    *ret_run = held;
    return CADRE_OK;
}

void cadre_held_run_close(cadre_held_run *run) {
    cadre_free(&run->owned);
    cadre_map_close(&run->map);
    run->run = (cadre_run_of_tokens){0};
}
