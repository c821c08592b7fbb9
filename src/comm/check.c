/* SPDX-License-Identifier: Apache-2.0
 *
 * Did all ranks call the same? Every rank compares all descriptors with the first member's, so all
 * of them find the same difference and say the same sentence.
 */
#include <stddef.h>
#include <string.h>

#include "comm/engine.h"

static const char *const kinds[CADRE_CALLS] = {
    "all_reduce", "reduce_scatter", "all_gather", "broadcast",
    "all_to_all", "barrier",        "send",       "recv"};
static const char *const reductions[] = {"sum", "max", "min"};

const char *cadre_call_name(int kind) {
    return kind >= 0 && kind < CADRE_CALLS ? kinds[kind] : "unknown";
}

char *cadre_call_text(char *ret_text, size_t room, const cadre_descriptor *d) {
    int n = snprintf(ret_text, room, "%s '%s'", cadre_call_name(d->kind), d->name);
    if (d->kind != CADRE_CALL_BARRIER)
        n += snprintf(ret_text + n, room - (size_t)n, " of %lld %s", (long long)d->count,
                      cadre_dtype_name((cadre_dtype)d->dtype));
    if (d->op >= 0 && d->op < CADRE_COUNT(reductions))
        n += snprintf(ret_text + n, room - (size_t)n, " (%s)", reductions[d->op]);
    if (d->root >= 0) snprintf(ret_text + n, room - (size_t)n, " from rank %d", d->root);
    return ret_text;
}

static bool same(const cadre_descriptor *a, const cadre_descriptor *b) {
    return memcmp(a, b, offsetof(cadre_descriptor, in)) == 0;
}

cadre_status cadre_comm_compare(cadre_comm *c, const cadre_work *w) {
    const cadre_descriptor *first =
        &cadre_control_member(c->control, 0)->ring[w->sequence % CADRE_RING];
    for (int i = 1; i < c->size; i++) {
        const cadre_descriptor *other =
            &cadre_control_member(c->control, i)->ring[w->sequence % CADRE_RING];
        if (same(first, other)) continue;
        char a[160], b[160];
        return CADRE_FAIL(
            CADRE_EPEER,
            "the ranks do not call the same: operation %llu is %s on rank 0 and %s on rank %d",
            (unsigned long long)w->sequence + 1, cadre_call_text(a, sizeof a, first),
            cadre_call_text(b, sizeof b, other), i);
    }
    return CADRE_OK;
}

/* The receiver compares, before it copies. */
cadre_status cadre_comm_compare_pair(cadre_comm *c, const cadre_work *w) {
    cadre_channel *channel = cadre_control_channel(c->control, w->peer, c->rank);
    cadre_descriptor sent = channel->ring[w->sequence % CADRE_PAIR_RING], wanted = w->call;
    wanted.kind = sent.kind;
    if (same(&sent, &wanted)) return CADRE_OK;
    char a[160], b[160];
    return CADRE_FAIL(
        CADRE_EPEER,
        "the ranks do not call the same: message %llu is %s on rank %d and %s on rank %d",
        (unsigned long long)w->sequence + 1, cadre_call_text(a, sizeof a, &sent), w->peer,
        cadre_call_text(b, sizeof b, &w->call), c->rank);
}
