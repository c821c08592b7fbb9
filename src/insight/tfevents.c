/* SPDX-License-Identifier: Apache-2.0
 *
 * A TensorBoard event file, without a library.
 *
 *   record  = u64 length | u32 masked CRC-32C of the length's 8 bytes | data | u32 masked CRC of
 * data data    = protobuf Event: 1 double wall_time, 2 int64 step, 3 string file_version (the first
 *             record: "brain.Event:2"), 5 Summary, 7 SessionLog
 *   Summary = repeated 1 Value; Value = 1 string tag, 2 float simple_value
 *
 * All little endian; the mask is ((crc >> 15) | (crc << 17)) + 0xa282ead8. Tags: loss/train
 * loss/valid bits_per_byte/valid lr grad_norm tokens_per_s time/step_ms time/data_ms time/comm_ms
 * time/exposed_ms. A run that goes on opens a new file with a SessionLog START: TensorBoard then
 * forgets what older files say from that step on.
 */
#include "insight/insight.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

struct cadre_tfevents {
    char path[CADRE_PATH];
    int fd;
    cadre_text summary, event, record;
    uint32_t table[256];
};

/* ---- CRC-32C (Castagnoli), reflected polynomial 0x82f63b78 ---- */

static void fill_table(uint32_t table[256]) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        table[i] = c;
    }
}

static uint32_t masked_crc(const uint32_t table[256], const void *data, size_t bytes) {
    const uint8_t *at = data;
    uint32_t c = ~0u;
    for (size_t i = 0; i < bytes; i++) c = table[(c ^ at[i]) & 255] ^ c >> 8;
    c = ~c;
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

/* ---- protobuf ---- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_little(cadre_text *to, uint64_t value, int bytes) {
    uint8_t out[8];
    for (int i = 0; i < bytes; i++) out[i] = (uint8_t)(value >> 8 * i);
    cadre_text_add_bytes(to, out, (size_t)bytes);
}

static void put_varint(cadre_text *to, uint64_t value) {
    uint8_t out[10];
    size_t n = 0;
    for (; value >= 128; value >>= 7) out[n++] = (uint8_t)(value | 128);
    out[n++] = (uint8_t)value;
    cadre_text_add_bytes(to, out, n);
}

static void put_key(cadre_text *to, int field, int wire) {
    put_varint(to, (uint64_t)(field << 3 | wire));
}

static void put_bytes(cadre_text *to, int field, const void *data, size_t bytes) {
    put_key(to, field, BYTES);
    put_varint(to, bytes);
    cadre_text_add_bytes(to, data, bytes);
}

static void put_value(cadre_text *summary, const char *tag, double number) {
    float narrow = (float)number;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    put_key(summary, 1, BYTES);
    put_varint(summary, 2 + strlen(tag) + 5); /* tags are shorter than 128 bytes */
    put_bytes(summary, 1, tag, strlen(tag));
    put_key(summary, 2, FIXED32);
    put_little(summary, bits, 4);
}

static void begin_event(cadre_tfevents *t, double wall_time, int64_t step) {
    uint64_t bits;
    memcpy(&bits, &wall_time, sizeof bits);
    cadre_text_clear(&t->event);
    cadre_text_clear(&t->summary);
    put_key(&t->event, 1, FIXED64);
    put_little(&t->event, bits, 8);
    put_key(&t->event, 2, VARINT);
    put_varint(&t->event, (uint64_t)step);
}

static cadre_status write_event(cadre_tfevents *t) {
    cadre_text *r = &t->record;
    CADRE_TRY(t->event.status);
    CADRE_TRY(t->summary.status);
    cadre_text_clear(r);
    put_little(r, t->event.length, 8);
    if (!r->status) put_little(r, masked_crc(t->table, r->at, 8), 4);
    cadre_text_add_bytes(r, t->event.at, t->event.length);
    put_little(r, masked_crc(t->table, t->event.at, t->event.length), 4);
    CADRE_TRY(r->status);
    return cadre_write_all(t->fd, r->at, r->length, t->path);
}

static cadre_status write_summary(cadre_tfevents *t) {
    if (t->summary.length) put_bytes(&t->event, 5, t->summary.at, t->summary.length);
    return write_event(t);
}

/* ---- the observer ---- */

static cadre_status open_file(cadre_tfevents *t, const char *folder) {
    char host[128] = "", name[256];
    if (gethostname(host, sizeof host - 1) != 0 || !host[0]) snprintf(host, sizeof host, "host");
    snprintf(name, sizeof name, "events.out.tfevents.%010" PRId64 ".%s.%d.0",
             (int64_t)cadre_unix_time(), host, (int)getpid());
    cadre_join(t->path, sizeof t->path, folder, name);
    t->fd = open(t->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    CADRE_CHECK(t->fd >= 0, CADRE_ERESOURCE, "cannot write %s: %s", t->path, strerror(errno));
    begin_event(t, cadre_unix_time(), 0);
    put_bytes(&t->event, 3, "brain.Event:2", 13);
    return write_event(t);
}

static cadre_status start(void *self, const cadre_run *run, const cadre_plan *plan) {
    (void)plan;
    if (!cadre_run_config(run)->run.tensorboard) return CADRE_OK;
    return open_file(self, cadre_run_folder_of(run));
}

static cadre_status resumed(void *self, const cadre_run *run, int64_t after) {
    cadre_tfevents *t = self;
    static const uint8_t status_start[] = {1 << 3 | VARINT, 1};
    (void)run;
    if (t->fd < 0) return CADRE_OK;
    begin_event(t, cadre_unix_time(), after + 1);
    put_bytes(&t->event, 7, status_start, sizeof status_start);
    return write_event(t);
}

static cadre_status step(void *self, const cadre_step_report *r) {
    cadre_tfevents *t = self;
    if (t->fd < 0) return CADRE_OK;
    begin_event(t, r->unix_time, r->step);
    put_value(&t->summary, "loss/train", r->loss);
    put_value(&t->summary, "lr", r->lr);
    put_value(&t->summary, "grad_norm", r->grad_norm);
    put_value(&t->summary, "tokens_per_s", r->tokens_per_s);
    put_value(&t->summary, "time/step_ms", r->step_ms);
    put_value(&t->summary, "time/data_ms", r->data_ms);
    put_value(&t->summary, "time/comm_ms", r->comm_ms);
    put_value(&t->summary, "time/exposed_ms", r->exposed_ms);
    return write_summary(t);
}

static cadre_status eval(void *self, const cadre_eval_report *r) {
    cadre_tfevents *t = self;
    if (t->fd < 0) return CADRE_OK;
    begin_event(t, r->unix_time, r->step);
    put_value(&t->summary, "loss/valid", r->valid_loss);
    if (!isnan(r->bits_per_byte)) put_value(&t->summary, "bits_per_byte/valid", r->bits_per_byte);
    return write_summary(t);
}

cadre_status cadre_tfevents_open(cadre_tfevents **ret_events, cadre_observer *ret_observer) {
    cadre_tfevents *t = NULL;
    CADRE_TRY(cadre_alloc(&t, CADRE_MEM_OTHER, sizeof *t));
    t->fd = -1;
    fill_table(t->table);
    *ret_observer =
        (cadre_observer){.self = t, .start = start, .resumed = resumed, .step = step, .eval = eval};
    *ret_events = t;
    return CADRE_OK;
}

void cadre_tfevents_close(cadre_tfevents **events) {
    cadre_tfevents *t = *events;
    if (!t) return;
    if (t->fd >= 0) close(t->fd);
    cadre_text_free(&t->summary);
    cadre_text_free(&t->event);
    cadre_text_free(&t->record);
    cadre_free(events);
}
