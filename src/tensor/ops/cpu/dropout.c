/* SPDX-License-Identifier: Apache-2.0
 *
 * dropout in f32 and bf16, cut over the pool in groups of four elements of a sample: one Philox
 * block each.
 */
#include "tensor/ops/dropout.h"

#include "tensor/ops/cpu/piece.h"
#include "tensor/ops/cpu/pooled.h"
#include "base/rng.h"
#include "tensor/ops/kernels.h"

enum { GROUP = 4, GROUP_GRAIN = 256 };

typedef struct plane {
    int64_t each, groups; /* of a sample */
} plane;

static plane plane_of(const cadre_tensor *t) {
    int64_t samples = t->dims.at[0], each = samples ? cadre_count(t) / samples : 0;
    return (plane){each, (each + GROUP - 1) / GROUP};
}

/* Groups [begin, end), counted over all samples. */
static void drop_groups(const cadre_call *c, const cadre_tensor *from, const cadre_tensor *to,
                        bool add, int64_t begin, int64_t end) {
    float room[GROUP], results[GROUP];
    plane s = plane_of(c->in[0]);
    cadre_dropout_mask m = cadre_dropout_mask_of(c);
    float scale = (float)m.scale;
    for (int64_t n = begin; n < end; n++) {
        int64_t sample = n / s.groups, group = n % s.groups, first = group * GROUP;
        int64_t last = first + GROUP < s.each ? first + GROUP : s.each;
        cadre_philox block =
            cadre_philox_draw(m.key, (uint64_t)c->a.key.samples[sample], m.step + (uint64_t)group);
        int64_t at = sample * s.each + first, count = last - first;
        const float *x = cadre_piece_read(from, at, count, room);
        float *y = cadre_piece_open(to, at, count, add, results);
        for (int64_t e = 0; e < count; e++) {
            float kept = block.v[e] >= m.below ? x[e] * scale : 0;
            y[e] = add ? y[e] + kept : kept;
        }
        cadre_piece_close(to, at, count, y);
    }
}

static cadre_status forward_groups(cadre_call *c, int64_t begin, int64_t end) {
    drop_groups(c, c->in[0], c->out, false, begin, end);
    return CADRE_OK;
}

static cadre_status backward_groups(cadre_call *c, int64_t begin, int64_t end) {
    drop_groups(c, c->dout, c->din[0], c->din_add[0], begin, end);
    return CADRE_OK;
}

static int64_t all_groups(const cadre_call *c) {
    return c->in[0]->dims.at[0] * plane_of(c->in[0]).groups;
}

cadre_status cadre_cpu_dropout(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out) || cadre_dropout_off(c)) return cadre_ref_dropout(q, c);
    return cadre_pooled(q, c, all_groups(c), GROUP_GRAIN, forward_groups);
}

cadre_status cadre_cpu_dropout_inputs(cadre_queue *q, cadre_call *c) {
    if (!cadre_is_fast(c->out) || cadre_dropout_off(c)) return cadre_ref_dropout_inputs(q, c);
    return cadre_pooled(q, c, all_groups(c), GROUP_GRAIN, backward_groups);
}
