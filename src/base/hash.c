/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/status.h"

struct cadre_hasher {
    XXH3_state_t *state;
};

uint64_t cadre_hash(const void *data, size_t bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(data, bytes, seed);
}

uint64_t cadre_hash_text(const char *text) {
    return XXH3_64bits(text, strlen(text));
}

int cadre_hasher_open(cadre_hasher **ret_hasher) {
    cadre_hasher *h = NULL;
    CADRE_TRY(cadre_alloc(&h, CADRE_MEM_OTHER, sizeof *h));
    h->state = XXH3_createState();
    if (!h->state) {
        cadre_free(&h);
        return CADRE_FAIL(CADRE_ERESOURCE, "no memory for a hash");
    }
    XXH3_64bits_reset(h->state);
    *ret_hasher = h;
    return CADRE_OK;
}

void cadre_hasher_add(cadre_hasher *h, const void *data, size_t bytes) {
    XXH3_64bits_update(h->state, data, bytes);
}

uint64_t cadre_hasher_value(const cadre_hasher *h) {
    return XXH3_64bits_digest(h->state);
}

void cadre_hasher_close(cadre_hasher **h) {
    if (!*h) return;
    XXH3_freeState((*h)->state);
    cadre_free(h);
}
