/* SPDX-License-Identifier: Apache-2.0
 *
 * A model out of a chain of blocks: declaring its parameters, finding them, recording it on a tape.
 */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "nn/model_private.h"

/* ---- opening and closing ---- */

cadre_status cadre_model_set_up(cadre_model *m, const cadre_settings *set) {
    const char *text = set ? cadre_settings_get(set, "train.seed") : NULL;
    const char *compute = set ? cadre_settings_get(set, "precision.compute") : NULL;
    int64_t seed = 1;
    CADRE_CHECK(!text || cadre_parse_i64(text, &seed), CADRE_EUSAGE,
                "train.seed=%s: it takes a whole number", text);
    m->weight_key = cadre_rng_key((uint64_t)seed, "weight");
    return cadre_compute_dtype(compute ? compute : "f32", &m->dtype);
}

static cadre_status add_block(cadre_model *m, const cadre_block_kind *kind) {
    cadre_block *b = &m->blocks[m->block_count];
    char *name = NULL;
    CADRE_CHECK(kind->name && kind->forward, CADRE_EUSAGE,
                "block %d has no %s; a block takes a name and a forward function", m->block_count,
                kind->name ? "forward function" : "name");
    CADRE_TRY(cadre_strdup(&name, kind->name));
    *b = (cadre_block){.name = name,
                       .index = m->block_count++,
                       .kind = *kind,
                       .model = m,
                       .first_param = m->param_count};
    b->kind.name = name;
    if (kind->params) CADRE_TRY(kind->params(b, kind->arg));
    return b->status; /* a failure that the params function did not pass on */
}

cadre_status cadre_model_build(cadre_model *m, const cadre_block_kind *chain, int blocks) {
    CADRE_CHECK(chain && blocks > 0, CADRE_EUSAGE, "a model takes at least one block, not %d",
                blocks);
    CADRE_TRY(cadre_alloc_array(&m->blocks, CADRE_MEM_OTHER, blocks, sizeof *m->blocks));
    for (int i = 0; i < blocks; i++) CADRE_TRY(add_block(m, &chain[i]));
    return CADRE_OK;
}

cadre_status cadre_model_chain(cadre_model **ret_model, const cadre_block_kind *chain, int blocks,
                               const cadre_settings *set) {
    cadre_model *m = NULL;
    CADRE_TRY(cadre_alloc(&m, CADRE_MEM_OTHER, sizeof *m));
    cadre_status st = cadre_model_set_up(m, set);
    if (!st) st = cadre_model_build(m, chain, blocks);
    if (st) {
        cadre_model_close(&m);
        return st;
    }
    *ret_model = m;
    return CADRE_OK;
}

void cadre_model_close(cadre_model **model) {
    cadre_model *m = *model;
    if (!m) return;
    for (int i = 0; i < m->param_count; i++) cadre_free(&m->params[i].p.name);
    for (int i = 0; i < m->block_count; i++) cadre_free(&m->blocks[i].name);
    cadre_free(&m->params);
    cadre_free(&m->blocks);
    cadre_free(&m->ties);
    cadre_settings_close(&m->settings);
    cadre_free(model);
}

/* ---- declaring parameters ---- */

static int find(const cadre_model *m, const char *name) {
    uint64_t hash = cadre_hash_text(name);
    for (int i = 0; i < m->param_count; i++)
        if (m->params[i].name_hash == hash && strcmp(m->params[i].p.name, name) == 0) return i;
    return -1;
}

static cadre_status check_dims(const char *name, const cadre_dims *dims) {
    char text[96];
    int64_t count = 1;
    bool fits = dims->n >= 1 && dims->n <= CADRE_DIMS_MAX;
    for (int i = 0; fits && i < dims->n; i++) {
        fits = dims->at[i] >= 1 && count <= INT64_MAX / 64 / dims->at[i];
        if (fits) count *= dims->at[i];
    }
    CADRE_CHECK(fits, CADRE_EUSAGE, "parameter %s cannot have the shape %s", name,
                dims->n >= 0 && dims->n <= CADRE_DIMS_MAX ? cadre_dims_text(text, sizeof text, dims)
                                                          : "given");
    return CADRE_OK;
}

static cadre_status grow(cadre_model *m) {
    if (m->param_count < m->param_room) return CADRE_OK;
    int room = m->param_room ? 2 * m->param_room : 32;
    CADRE_TRY(cadre_realloc(&m->params, CADRE_MEM_OTHER, (size_t)room * sizeof *m->params));
    m->param_room = room;
    return CADRE_OK;
}

static cadre_status add_param(cadre_block *b, const char *name, const cadre_dims *dims,
                              cadre_init init) {
    cadre_model *m = b->model;
    char *copy = NULL;
    CADRE_CHECK(name && *name, CADRE_EUSAGE, "block %s declares a parameter without a name",
                b->name);
    int other = find(m, name);
    CADRE_CHECK(other < 0, CADRE_EUSAGE,
                "blocks %s and %s both declare a parameter %s; names are unique in a model",
                m->blocks[other < 0 ? 0 : m->params[other].p.block].name, b->name, name);
    CADRE_CHECK(init.kind >= 0 && init.kind <= 3, CADRE_EUSAGE,
                "parameter %s: unknown start %d; it takes cadre_zeros, _ones, _normal, _uniform",
                name, init.kind);
    CADRE_TRY(check_dims(name, dims));
    CADRE_TRY(grow(m));
    CADRE_TRY(cadre_strdup(&copy, name));
    model_param *p = &m->params[m->param_count];
    p->init = init;
    p->name_hash = cadre_hash_text(name);
    p->p = (cadre_parameter){.id = m->param_count++,
                             .block = b->index,
                             .name = copy,
                             .dtype = m->dtype,
                             .dims = *dims,
                             .decay = dims->n >= 2};
    b->param_count++;
    return CADRE_OK;
}

cadre_status cadre_param(cadre_block *b, const char *name, cadre_dims dims, cadre_init init) {
    if (!b->status) b->status = add_param(b, name, &dims, init);
    return b->status;
}

static cadre_status add_tie(cadre_block *b, const char *name) {
    cadre_model *m = b->model;
    int id = find(m, name);
    CADRE_CHECK(id >= 0 && m->params[id].p.block < b->index, CADRE_EUSAGE,
                "block %s ties %s, which no earlier block declares", b->name, name);
    CADRE_TRY(
        cadre_realloc(&m->ties, CADRE_MEM_OTHER, (size_t)(m->tie_count + 1) * sizeof *m->ties));
    m->ties[m->tie_count++] = (model_tie){b->index, id};
    return CADRE_OK;
}

cadre_status cadre_param_tied(cadre_block *b, const char *name) {
    if (!b->status) b->status = add_tie(b, name);
    return b->status;
}

/* ---- finding them in a forward function ---- */

/* The k-th parameter of a block, own ones first; NULL past the end. */
static const cadre_parameter *nth(const cadre_block *b, int k) {
    const cadre_model *m = b->model;
    if (k < b->param_count) return &m->params[b->first_param + k].p;
    k -= b->param_count;
    for (int i = 0; i < m->tie_count; i++)
        if (m->ties[i].block == b->index && k-- == 0) return &m->params[m->ties[i].param].p;
    return NULL;
}

const cadre_parameter *cadre_block_param(const cadre_block *b, int k) {
    return nth(b, k);
}

/* A handle whose name is the sentence that the recorder fails with. */
static const cadre_parameter *unknown(const cadre_block *b, const char *name) {
    static _Thread_local char sentence[512];
    static _Thread_local cadre_parameter handle;
    const cadre_parameter *p, *nearest = NULL;
    int least = INT32_MAX;
    for (int k = 0; (p = nth(b, k)); k++) {
        int distance = cadre_distance(name, p->name);
        if (distance < least) {
            least = distance;
            nearest = p;
        }
    }
    if (nearest)
        snprintf(sentence, sizeof sentence,
                 "block %s has no parameter %s; the nearest it declares is %s", b->name, name,
                 nearest->name);
    else
        snprintf(sentence, sizeof sentence, "block %s has no parameter %s; it declares none",
                 b->name, name);
    handle = (cadre_parameter){.id = -1, .block = b->index, .name = sentence};
    return &handle;
}

const cadre_parameter *cadre_p(const cadre_block *b, const char *name) {
    const cadre_parameter *p;
    for (int k = 0; (p = nth(b, k)); k++)
        if (strcmp(p->name, name) == 0) return p;
    return unknown(b, name);
}

const void *cadre_block_arg(const cadre_block *b) {
    return b->kind.arg;
}

/* ---- recording ---- */

static cadre_status returned_nothing(const cadre_block *b) {
    return CADRE_FAIL(CADRE_EUSAGE, "the forward of block %s returned nothing", b->name);
}

cadre_tensor *cadre_model_forward_block(const cadre_model *m, int i, cadre_tape *t,
                                        cadre_tensor *x) {
    const cadre_block *b = &m->blocks[i];
    cadre_tape_enter(t, i);
    cadre_tensor *y = b->kind.forward(t, b, x);
    if (!y) cadre_tape_fail(t, returned_nothing(b));
    cadre_tape_hand_over(t, y);
    cadre_tape_leave(t);
    return y;
}

cadre_tensor *cadre_model_forward(const cadre_model *m, cadre_tape *t) {
    cadre_tensor *x = cadre_input(t, "inputs");
    for (int i = 0; i < m->block_count; i++) x = cadre_model_forward_block(m, i, t, x);
    return x;
}

/* ---- what can be asked ---- */

int cadre_model_block_count(const cadre_model *m) {
    return m->block_count;
}

const cadre_block *cadre_model_block(const cadre_model *m, int i) {
    return &m->blocks[i];
}

int cadre_model_param_count(const cadre_model *m) {
    return m->param_count;
}

const cadre_parameter *cadre_model_param(const cadre_model *m, int id) {
    return &m->params[id].p;
}

const cadre_parameter *cadre_model_find(const cadre_model *m, const char *name) {
    int id = find(m, name);
    return id < 0 ? NULL : &m->params[id].p;
}

int64_t cadre_model_parameters(const cadre_model *m) {
    int64_t sum = 0;
    for (int i = 0; i < m->param_count; i++) sum += cadre_dims_count(&m->params[i].p.dims);
    return sum;
}

cadre_dtype cadre_model_dtype(const cadre_model *m) {
    return m->dtype;
}

const cadre_model_cfg *cadre_model_config(const cadre_model *m) {
    return m->settings ? &m->cfg : NULL;
}

int64_t cadre_model_context(const cadre_model *m) {
    return m->context;
}
