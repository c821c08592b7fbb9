/* SPDX-License-Identifier: Apache-2.0
 *
 * dropout: y = x kept / (1 - rate). Whether element e of sample s is kept at step n and site z is a
 * pure function of (seed, z, n, s, e): word e mod 4 of Philox with key (seed, "dropout/" z) and
 * counter (s, n x 2^32 + e / 4), so that every layout drops the same elements and the backward pass
 * draws the mask again instead of storing it. Without a backward pass to come y = x.
 */
#include "tensor/ops/dropout.h"

#include "base/rng.h"
#include "tensor/ops/ref.h"

bool cadre_dropout_off(const cadre_call *c) {
    return !c->a.training || c->a.rate == 0;
}

cadre_status cadre_dropout_infer(const cadre_call *c, cadre_inferred *ret) {
    CADRE_CHECK_REAL(c);
    CADRE_CHECK(c->a.rate >= 0 && c->a.rate < 1, CADRE_EUSAGE,
                "dropout rate %g; it takes 0 to below 1", c->a.rate);
    CADRE_CHECK(cadre_dropout_off(c) || c->a.site, CADRE_EUSAGE,
                "dropout takes the name of its place");
    /* A dry run has no samples. */
    CADRE_CHECK(cadre_dropout_off(c) || !c->a.key.samples ||
                    (c->in[0]->dims.n >= 1 && c->a.key.sample_count == c->in[0]->dims.at[0]),
                CADRE_EUSAGE, "dropout: %lld sample numbers for %lld rows",
                (long long)c->a.key.sample_count,
                (long long)(c->in[0]->dims.n ? c->in[0]->dims.at[0] : 1));
    *ret = cadre_nothing_made();
    ret->out = (cadre_made){c->in[0]->dtype, c->in[0]->dims};
    return CADRE_OK;
}

void cadre_dropout_cost(const cadre_call *c, cadre_phase phase, cadre_cost *ret) {
    double n = (double)cadre_count(c->in[0]);
    if (phase == CADRE_BACKWARD_PARAMS) return;
    *ret = (cadre_cost){.flops = 2 * n, .bytes = 2 * n * (double)cadre_dtype_size(c->in[0]->dtype)};
}

cadre_dropout_mask cadre_dropout_mask_of(const cadre_call *c) {
    char purpose[128];
    snprintf(purpose, sizeof purpose, "dropout/%s", c->a.site);
    double drop = c->a.rate * 4294967296.0;
    return (cadre_dropout_mask){
        .key = cadre_rng_key(c->a.key.seed, purpose),
        .step = (uint64_t)c->a.key.step << 32,
        .below = (uint32_t)drop,
        .scale = 1 / (1 - c->a.rate),
    };
}

static void apply(const cadre_call *c, const cadre_tensor *from, cadre_tensor *to, bool add) {
    if (cadre_dropout_off(c)) {
        for (int64_t i = 0; i < cadre_count(from); i++) put_or_add(to, i, at(from, i), add);
        return;
    }
    cadre_dropout_mask m = cadre_dropout_mask_of(c);
    int64_t samples = from->dims.at[0], each = samples ? cadre_count(from) / samples : 0;
    for (int64_t s = 0; s < samples; s++)
        for (int64_t e = 0; e < each; e++) {
            cadre_philox block =
                cadre_philox_draw(m.key, (uint64_t)c->a.key.samples[s], m.step + (uint64_t)e / 4);
            bool kept = block.v[e % 4] >= m.below;
            put_or_add(to, s * each + e, kept ? at(from, s * each + e) * m.scale : 0, add);
        }
}

cadre_status cadre_ref_dropout(cadre_queue *q, cadre_call *c) {
    (void)q;
    apply(c, c->in[0], c->out, false);
    return CADRE_OK;
}

cadre_status cadre_ref_dropout_inputs(cadre_queue *q, cadre_call *c) {
    (void)q;
    apply(c, c->dout, c->din[0], c->din_add[0]);
    return CADRE_OK;
}
