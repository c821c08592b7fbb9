/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_PARALLEL_SETTINGS_H
#define CADRE_PARALLEL_SETTINGS_H

#include "base/settings.h"

typedef struct cadre_parallel_cfg {
    int64_t dp; /* CADRE_UNSET: fills the rest */
    int64_t tp, pp, cp;
    bool sequence;
    int64_t zero, replicas, prefetch;
    int offload;
    int schedule;
    int64_t chunks;
    int64_t bucket_bytes, first_bucket_bytes; /* first: unset = min(1 MiB, bucket_bytes) */
    bool overlap;
    int64_t check_every; /* steps between checks that parameters are equal; after step 1 always; 0:
                            only then */
    bool narrow_wire;    /* gradients of f32 travel in bf16: precision.reduce, not a row here */
} cadre_parallel_cfg;

extern const cadre_setting_table cadre_parallel_settings;

#endif
