/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of pieces travel as records: a fixed part, then the name with its 0. Every rank's list is
 * padded to the longest one.
 */
#include "checkpoint/gather.h"

#include <string.h>

#include "base/alloc.h"

typedef struct record {
    int32_t dtype, weights, name_bytes;
    cadre_dims dims;
    int64_t first, count;
} record;

cadre_status cadre_agree(cadre_comm *comm, cadre_status mine) {
    int size = cadre_comm_size(comm), rank = cadre_comm_rank(comm), first = -1;
    if (size == 1) return mine;
    cadre_error error = {0};
    if (mine < 0) cadre_error_save(&error);
    int64_t vote = mine < 0 ? rank : size, lowest = size;
    CADRE_TRY(
        cadre_all_reduce(comm, &vote, &lowest, 1, CADRE_I64, CADRE_MIN, "checkpoint agrees", NULL));
    if (lowest == size) return CADRE_OK;
    first = (int)lowest;
    struct {
        int32_t status;
        char text[CADRE_ERROR_TEXT];
    } told = {.status = mine};
    memcpy(told.text, error.text, sizeof told.text);
    CADRE_TRY(
        cadre_broadcast(comm, &told, sizeof told, CADRE_U8, first, "checkpoint failure", NULL));
    if (mine < 0) return cadre_error_restore(&error);
    told.text[sizeof told.text - 1] = '\0';
    return CADRE_FAIL(told.status, "rank %d: %s", first, told.text);
}

static cadre_status write_records(const cadre_piece *pieces, int count, cadre_text *to) {
    for (int i = 0; i < count; i++) {
        const cadre_piece *p = &pieces[i];
        if (p->count == 0 && cadre_dims_count(&p->dims) != 0) continue;
        record r;
        memset(&r, 0, sizeof r); /* padding bytes travel too */
        r.dtype = (int32_t)p->dtype;
        r.weights = p->weights;
        r.name_bytes = (int32_t)strlen(p->name) + 1;
        r.dims.n = p->dims.n;
        for (int d = 0; d < p->dims.n; d++) r.dims.at[d] = p->dims.at[d];
        r.first = p->first;
        r.count = p->count;
        cadre_text_add_bytes(to, &r, sizeof r);
        cadre_text_add_bytes(to, p->name, (size_t)r.name_bytes);
    }
    return to->status;
}

/* Counts the records of one rank, and fills `ret` when it is not NULL. */
static int read_records(char *text, int64_t bytes, int rank, cadre_held *ret) {
    int count = 0;
    for (int64_t at = 0; at < bytes; count++) {
        record r;
        memcpy(&r, text + at, sizeof r);
        at += (int64_t)sizeof r;
        if (ret)
            ret[count] = (cadre_held){.piece = {.name = text + at,
                                                .dtype = (cadre_dtype)r.dtype,
                                                .dims = r.dims,
                                                .first = r.first,
                                                .count = r.count},
                                      .weights = r.weights,
                                      .rank = rank};
        at += r.name_bytes;
    }
    return count;
}

/* Every rank's records side by side, each in a place of `room` bytes; then the list. */
static cadre_status exchange(cadre_comm *comm, const cadre_text *mine, const int64_t *bytes,
                             int64_t room, cadre_holdings *h) {
    int size = cadre_comm_size(comm), rank = cadre_comm_rank(comm);
    CADRE_TRY(cadre_agree(
        comm, cadre_alloc_array(&h->text, CADRE_MEM_OTHER, size + 1, (size_t)room + 1)));
    char *own = h->text + rank * room;
    memcpy(own, mine->at, mine->length);
    CADRE_TRY(cadre_all_gather(comm, own, h->text, room, CADRE_U8, "checkpoint pieces", NULL));
    for (int r = 0; r < size; r++) h->count += read_records(h->text + r * room, bytes[r], r, NULL);
    CADRE_TRY(
        cadre_agree(comm, cadre_alloc_array(&h->at, CADRE_MEM_OTHER, h->count, sizeof *h->at)));
    for (int r = 0, at = 0; r < size; r++)
        at += read_records(h->text + r * room, bytes[r], r, h->at + at);
    return CADRE_OK;
}

cadre_status cadre_holdings_gather(cadre_comm *comm, const cadre_piece *pieces, int count,
                                   cadre_holdings *ret_holdings) {
    int size = cadre_comm_size(comm);
    cadre_holdings h = {0};
    cadre_text mine = {0};
    int64_t *bytes = NULL, room = 0;
    cadre_status st = write_records(pieces, count, &mine);
    if (!st) st = cadre_alloc_array(&bytes, CADRE_MEM_OTHER, size, sizeof *bytes);
    st = cadre_agree(comm, st);
    int64_t own = (int64_t)mine.length;
    if (!st) st = cadre_all_gather(comm, &own, bytes, 1, CADRE_I64, "checkpoint piece lists", NULL);
    for (int r = 0; !st && r < size; r++) room = bytes[r] > room ? bytes[r] : room;
    if (!st && room) st = exchange(comm, &mine, bytes, room, &h);
    cadre_text_free(&mine);
    cadre_free(&bytes);
    if (st)
        cadre_holdings_free(&h);
    else
        *ret_holdings = h;
    return st;
}

void cadre_holdings_free(cadre_holdings *h) {
    cadre_free(&h->at);
    cadre_free(&h->text);
    *h = (cadre_holdings){0};
}
