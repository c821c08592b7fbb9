/* SPDX-License-Identifier: Apache-2.0
 *
 * The flight recorder: a ring of the last operations of a communicator.
 */
#include "comm/engine.h"

void cadre_record_start(cadre_work *w) {
    cadre_comm *c = w->comm;
    cadre_record *r = &c->records[c->recorded % CADRE_RECORDS];
    *r = (cadre_record){.number = ++c->recorded,
                        .call = w->call,
                        .sequence = w->sequence,
                        .peer = w->peer,
                        .posted_ns = cadre_now_ns(),
                        .status = CADRE_PENDING};
    w->record = r;
    w->record_number = r->number;
}

void cadre_record_end(cadre_work *w, cadre_status status) {
    if (w->record->number != w->record_number) return; /* written over by a later operation */
    w->record->status = status;
    w->record->done_ns = cadre_now_ns();
}

void cadre_comm_recorder(const cadre_comm *comm, int most, cadre_text *to) {
    uint64_t held = comm->recorded < CADRE_RECORDS ? comm->recorded : CADRE_RECORDS;
    if ((uint64_t)most < held) held = (uint64_t)most;
    int64_t now = cadre_now_ns();
    for (uint64_t n = comm->recorded - held; n < comm->recorded; n++) {
        const cadre_record *r = &comm->records[n % CADRE_RECORDS];
        char text[160], peer[32] = "";
        if (r->peer >= 0) snprintf(peer, sizeof peer, " with rank %d", r->peer);
        cadre_text_add(to, "%llu: %s%s, operation %llu, posted %.3f s ago, ",
                       (unsigned long long)r->number, cadre_call_text(text, sizeof text, &r->call),
                       peer, (unsigned long long)r->sequence + 1,
                       (double)(now - r->posted_ns) * 1e-9);
        if (r->status == CADRE_PENDING)
            cadre_text_add(to, "in flight\n");
        else
            cadre_text_add(to, "took %.1f us\n", (double)(r->done_ns - r->posted_ns) * 1e-3);
    }
}
