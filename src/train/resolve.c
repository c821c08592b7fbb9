/* SPDX-License-Identifier: Apache-2.0
 *
 * Unset values worked out in a fixed order, each recorded as derived, and the combinations that
 * cannot be, refused with the settings that would allow them.
 */
#include "train/resolve.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/cpus.h"
#include "base/file.h"
#include "base/status.h"
#include "checkpoint/weights.h"
#include "data/sampler.h"
#include "data/tokenizer.h"
#include "nn/model.h"
#include "optim/optim.h"
#include "train/memory.h"

static cadre_status check_device(const cadre_config *c) {
    bool ref = strcmp(c->run.device, "ref") == 0;
    CADRE_CHECK(ref || strcmp(c->run.device, "cpu") == 0, CADRE_EUSAGE,
                "run.device=%s: it takes one of cpu, ref", c->run.device);
    CADRE_CHECK(c->precision.compute != 1 || !ref, CADRE_EUSAGE,
                "precision.compute=bf16 needs the fast kernels; leave out run.device=ref");
    CADRE_CHECK(c->precision.compute != 3 || c->precision.reduce == 0, CADRE_EUSAGE,
                "precision.reduce=bf16 narrows gradients of f32; a run in f64 takes f32 here");
    CADRE_CHECK(c->precision.compute != 3 || ref, CADRE_EUSAGE,
                "precision.compute=f64 needs the reference kernels; give run.device=ref too");
    return CADRE_OK;
}

static cadre_status given_ranks(const cadre_settings *set, const cadre_config *c, int *ret_ranks) {
    static const char *const names[] = {"parallel.dp", "parallel.tp", "parallel.pp", "parallel.cp"};
    const int64_t each[] = {c->parallel.dp, c->parallel.tp, c->parallel.pp, c->parallel.cp};
    int64_t degrees = 1;
    for (int i = 0; i < CADRE_COUNT(each); i++)
        if (cadre_settings_given(set, names[i]) && each[i] > 0) degrees *= each[i];
    int64_t ranks = cadre_settings_given(set, "run.ranks") ? c->run.ranks : degrees;
    CADRE_CHECK(ranks <= 4096, CADRE_EUSAGE,
                "the degrees of parallel make %" PRId64 " ranks; at most 4096 can be started",
                ranks);
    *ret_ranks = (int)ranks;
    return CADRE_OK;
}

cadre_status cadre_settings_ranks(const cadre_settings *set, int *ret_ranks) {
    cadre_config c;
    CADRE_TRY(cadre_config_fill(set, &c));
    return given_ranks(set, &c, ret_ranks);
}

/* Ranks and dp: the world is what was launched, or what the settings ask for. */
static cadre_status resolve_ranks(cadre_settings *set, const cadre_config *c,
                                  const cadre_facts *facts, int *ret_world, int *ret_dp) {
    int world = facts->world;
    if (world == 0) CADRE_TRY(given_ranks(set, c, &world));
    CADRE_CHECK(!cadre_settings_given(set, "run.ranks") || c->run.ranks == world, CADRE_EUSAGE,
                "run.ranks=%" PRId64 ", but %d ranks were started; leave run.ranks out or start as "
                "many",
                c->run.ranks, world);
    int64_t others = c->parallel.tp * c->parallel.pp * c->parallel.cp;
    CADRE_CHECK(others >= 1 && world % others == 0, CADRE_EUSAGE,
                "%d ranks cannot be cut into parallel.tp x pp x cp = %" PRId64, world, others);
    int64_t dp = world / others;
    CADRE_CHECK(!cadre_settings_given(set, "parallel.dp") || c->parallel.dp == dp, CADRE_EUSAGE,
                "parallel.dp=%" PRId64 " does not make %d ranks; with run.ranks=%d it can be "
                "%" PRId64 ", or left out",
                c->parallel.dp, world, world, dp);
    *ret_world = world;
    *ret_dp = (int)dp;
    CADRE_TRY(cadre_settings_derive(set, "parallel.dp", "%" PRId64, dp));
    return cadre_settings_derive(set, "run.ranks", "%d", world);
}

static cadre_status resolve_batch(cadre_settings *set, const cadre_config *c, int dp,
                                  int64_t *ret_batch) {
    int64_t batch = c->train.batch, micro = c->train.micro_batch;
    bool batch_given = cadre_settings_given(set, "train.batch");
    if (!batch_given && cadre_settings_given(set, "train.micro_batch")) {
        batch = micro * dp;
        CADRE_TRY(cadre_settings_derive(set, "train.batch", "%" PRId64, batch));
    } else if (!batch_given) {
        batch = 12;
    }
    if (!cadre_settings_given(set, "train.micro_batch")) {
        int64_t below = batch / dp * dp, above = below + dp;
        if (batch % dp && below)
            return CADRE_FAIL(CADRE_EUSAGE,
                              "train.batch=%" PRId64 " does not divide over dp=%d ranks; nearest: "
                              "%" PRId64 " or %" PRId64,
                              batch, dp, below, above);
        if (batch % dp)
            return CADRE_FAIL(CADRE_EUSAGE,
                              "train.batch=%" PRId64 " does not divide over dp=%d ranks; nearest: "
                              "%" PRId64,
                              batch, dp, above);
        micro = batch / dp;
        CADRE_TRY(cadre_settings_derive(set, "train.micro_batch", "%" PRId64, micro));
    }
    cadre_batching b;
    CADRE_TRY(cadre_batching_plan(&b, batch, micro, dp, 0));
    *ret_batch = batch;
    return CADRE_OK;
}

/* ceil(epochs x N / batch), without the error of a product that should have been whole. */
static int64_t steps_of_epochs(double epochs, int64_t per_epoch, int64_t batch) {
    int64_t samples = (int64_t)ceil(epochs * (double)per_epoch - 1e-6);
    if (samples < 1) samples = 1;
    return (samples + batch - 1) / batch;
}

static cadre_status resolve_steps(cadre_settings *set, const cadre_config *c, int64_t per_epoch,
                                  int64_t batch) {
    int64_t steps = c->train.steps;
    if (!isnan(c->train.epochs)) {
        CADRE_CHECK(!cadre_settings_given(set, "train.steps"), CADRE_EUSAGE,
                    "train.steps=%" PRId64 " and train.epochs=%g are both given; give one of them",
                    c->train.steps, c->train.epochs);
        CADRE_CHECK(c->train.epochs > 0, CADRE_EUSAGE, "train.epochs=%g: it takes a number above 0",
                    c->train.epochs);
        if (per_epoch > 0) {
            steps = steps_of_epochs(c->train.epochs, per_epoch, batch);
            CADRE_TRY(cadre_settings_derive(set, "train.steps", "%" PRId64, steps));
        }
    }
    int64_t every = steps / 10 > 1 ? steps / 10 : 1, lines = steps / 20 > 1 ? steps / 20 : 1;
    CADRE_TRY(cadre_settings_derive(set, "train.eval_every", "%" PRId64, every));
    CADRE_TRY(cadre_settings_derive(set, "run.log_every", "%" PRId64, lines));
    return cadre_optim_resolve(set, steps, batch);
}

static cadre_status resolve_context(cadre_settings *set, const cadre_config *c) {
    int64_t most = c->model.context;
    if (most == CADRE_UNSET) return CADRE_OK; /* the model has none */
    CADRE_CHECK(c->train.context == CADRE_UNSET || c->train.context <= most, CADRE_EUSAGE,
                "train.context=%" PRId64 " is longer than model.context=%" PRId64
                "; give at most that, or a model with a longer context",
                c->train.context, most);
    return cadre_settings_derive(set, "train.context", "%" PRId64, most);
}

static cadre_status resolve_threads(cadre_settings *set, int local) {
    int threads = cadre_cpus_count() / (local > 0 ? local : 1);
    return cadre_settings_derive(set, "run.threads", "%d", threads > 0 ? threads : 1);
}

static cadre_status resolve_data(cadre_settings *set, const cadre_config *c) {
    CADRE_CHECK(
        c->data.valid.count == 0 || isnan(c->data.valid_fraction) || c->data.valid_fraction == 0,
        CADRE_EUSAGE, "data.valid and data.valid_fraction=%g are both given; give one of them",
        c->data.valid_fraction);
    const char *name = cadre_settings_get(set, "run.name");
    if (name) {
        CADRE_CHECK(!strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0,
                    CADRE_EUSAGE,
                    "run.name=%s: it takes a name without slashes; run.dir is the folder", name);
        return CADRE_OK;
    }
    char stem[CADRE_PATH] = "run";
    if (c->data.train.count) cadre_path_stem(c->data.train.at[0], stem, sizeof stem);
    return cadre_settings_derive(set, "run.name", "%s", stem);
}

/* ---- weights to start from ---- */

/* Where config.json and tokenizer lie: with the weights, or, once these are gone, in the run's own
 * newest checkpoint, which is all that a run that goes on needs. */
static cadre_status find_start(const cadre_settings *set, const char *from,
                               char ret_folder[CADRE_PATH]) {
    char home[CADRE_PATH];
    const char *resume = cadre_settings_get(set, "checkpoint.resume");
    cadre_status st = cadre_weights_find(from, false, ret_folder, NULL, NULL);
    if (!st || cadre_path_is_folder(from) || strcmp(resume, "never") == 0) return st;
    cadre_error missing;
    cadre_error_save(&missing);
    cadre_join(home, sizeof home, cadre_settings_get(set, "run.dir"),
               cadre_settings_get(set, "run.name"));
    if (strcmp(resume, "auto") != 0) snprintf(home, sizeof home, "%s", resume);
    st = cadre_weights_find(home, false, ret_folder, NULL, NULL);
    return st ? cadre_error_restore(&missing) : CADRE_OK;
}

static cadre_status apply_config(cadre_settings *set, const char *folder) {
    char path[CADRE_PATH];
    cadre_map map;
    CADRE_TRY(cadre_map_open(&map, cadre_join(path, sizeof path, folder, "config.json")));
    cadre_status st = cadre_model_apply_config(set, (const char *)map.data, map.bytes, path);
    cadre_map_close(&map);
    return st;
}

/* model.from gives the model's sizes, and the tokenizer where none is given. */
static cadre_status resolve_start(cadre_settings *set) {
    char folder[CADRE_PATH];
    const char *from = cadre_settings_get(set, "model.from");
    if (!from) return CADRE_OK;
    CADRE_TRY(find_start(set, from, folder));
    CADRE_TRY(apply_config(set, folder));
    if (!cadre_tokenizer_is_in(folder)) return CADRE_OK;
    return cadre_settings_derive(set, "data.tokenizer", "%s", folder);
}

static cadre_status resolve_buckets(cadre_settings *set, const cadre_config *c) {
    int64_t first = c->parallel.bucket_bytes < 1 << 20 ? c->parallel.bucket_bytes : 1 << 20;
    return cadre_settings_derive(set, "parallel.first_bucket_bytes", "%" PRId64, first);
}

cadre_status cadre_settings_restore(cadre_settings *set) {
    for (int i = 0; i < cadre_settings_count(set); i++) {
        cadre_setting_view v;
        cadre_settings_view(set, i, &v);
        if (!v.value && v.row->fallback)
            CADRE_TRY(cadre_settings_derive(set, v.row->name, "%s", v.row->fallback));
    }
    return CADRE_OK;
}

/* The memory of this machine, shared among its ranks. */
static cadre_status resolve_memory(cadre_settings *set, const cadre_config *c, int local) {
    if (c->train.recompute != CADRE_RECOMPUTE_AUTO) return CADRE_OK;
    return cadre_settings_derive(set, "train.memory_limit", "%.0f",
                                 cadre_memory_of_machine() / (local > 0 ? local : 1));
}

static int local_ranks(const cadre_facts *facts, int world) {
    return facts->local_size > 0 ? facts->local_size : world;
}

cadre_status cadre_settings_resolve(cadre_settings *set, const cadre_facts *facts) {
    static const cadre_facts nothing;
    const cadre_facts *f = facts ? facts : &nothing;
    cadre_config c;
    int world = 0, dp = 0;
    int64_t batch = 0;
    CADRE_TRY(cadre_settings_restore(set));
    CADRE_TRY(cadre_model_apply_preset(set));
    CADRE_TRY(cadre_settings_check_kinds(set));
    if (f->vocab > 0) CADRE_TRY(cadre_settings_derive(set, "model.vocab", "%" PRId64, f->vocab));
    CADRE_TRY(cadre_config_fill(set, &c));
    CADRE_TRY(resolve_data(set, &c));
    CADRE_TRY(resolve_start(set));
    CADRE_TRY(cadre_model_resolve(set));
    CADRE_TRY(cadre_config_fill(set, &c));
    CADRE_TRY(check_device(&c));
    CADRE_TRY(resolve_context(set, &c));
    CADRE_TRY(resolve_ranks(set, &c, f, &world, &dp));
    CADRE_TRY(resolve_batch(set, &c, dp, &batch));
    CADRE_TRY(resolve_steps(set, &c, f->samples_per_epoch, batch));
    CADRE_TRY(resolve_buckets(set, &c));
    CADRE_TRY(resolve_memory(set, &c, local_ranks(f, world)));
    return resolve_threads(set, local_ranks(f, world));
}

cadre_status cadre_settings_resolve_trainer(cadre_settings *set, const cadre_facts *facts) {
    cadre_config c;
    int world = 0, dp = 0;
    CADRE_TRY(cadre_settings_restore(set));
    CADRE_TRY(cadre_config_fill(set, &c));
    CADRE_CHECK(!c.model.from, CADRE_EUSAGE,
                "model.from=%s: a trainer starts from drawn weights; `cadre train` and "
                "cadre_train_file start from given ones",
                c.model.from);
    CADRE_TRY(check_device(&c));
    CADRE_TRY(resolve_ranks(set, &c, facts, &world, &dp));
    CADRE_TRY(cadre_optim_resolve(set, c.train.steps, c.train.batch));
    CADRE_TRY(resolve_buckets(set, &c));
    CADRE_TRY(resolve_memory(set, &c, local_ranks(facts, world)));
    return resolve_threads(set, local_ranks(facts, world));
}
