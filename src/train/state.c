/* SPDX-License-Identifier: Apache-2.0
 *
 * A model in training as a checkpoint, and back: weights, optimizer state, step and samples. Every
 * rank holds everything; rank 0 writes the weights, the optimizer state is dealt over the ranks by
 * parameter. Whoever loads reads everything, so any number of ranks goes on from any other.
 */
#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "checkpoint/manifest.h"
#include "checkpoint/weights.h"
#include "train/run_private.h"

/* Pieces and the names of optimizer state, which checkpoints keep as "adamw.m/NAME". */
typedef struct piece_list {
    cadre_piece *at;
    char (*names)[320];
    int count, named;
} piece_list;

static cadre_status list_open(piece_list *l, const cadre_model *model) {
    int64_t params = cadre_model_param_count(model);
    memset(l, 0, sizeof *l);
    CADRE_TRY(cadre_alloc_array(&l->at, CADRE_MEM_OTHER, params * (1 + CADRE_OPTIM_STATES),
                                sizeof *l->at));
    return cadre_alloc_array(&l->names, CADRE_MEM_OTHER, params * CADRE_OPTIM_STATES,
                             sizeof *l->names);
}

static void list_close(piece_list *l) {
    cadre_free(&l->at);
    cadre_free(&l->names);
}

static void add_piece(piece_list *l, const cadre_parameter *param, cadre_dtype dtype,
                      const char *name, void *data, bool weights) {
    l->at[l->count++] = (cadre_piece){.name = name,
                                      .dtype = dtype,
                                      .dims = param->dims,
                                      .first = 0,
                                      .count = cadre_dims_count(&param->dims),
                                      .data = data,
                                      .weights = weights};
}

static void add_states(piece_list *l, cadre_parallel *p, const cadre_parameter *param) {
    const cadre_optimizer *optimizer = cadre_parallel_optimizer(p);
    for (int k = 0; k < optimizer->states; k++) {
        void *state = cadre_parallel_state(p, param->id, k);
        if (!state) continue;
        char *name = l->names[l->named++];
        snprintf(name, sizeof l->names[0], "%s/%s", optimizer->state_name[k], param->name);
        add_piece(l, param, cadre_parallel_value_dtype(p, param->id), name, state, false);
    }
}

static void add_weights(piece_list *l, cadre_parallel *p, const cadre_parameter *param) {
    add_piece(l, param, cadre_parallel_value_dtype(p, param->id), param->name,
              cadre_parallel_value(p, param->id), true);
}

static cadre_status side_files(const cadre_model *model, const cadre_tokenizer *tokenizer,
                               cadre_text texts[2], cadre_side_file files[2], int *ret_count) {
    int n = 0;
    if (cadre_model_config(model)) {
        CADRE_TRY(cadre_model_config_json(model, &texts[0]));
        files[n++] = (cadre_side_file){"config.json", texts[0].at, texts[0].length};
    }
    if (tokenizer) {
        CADRE_TRY(cadre_tokenizer_to_json(tokenizer, &texts[1]));
        files[n++] = (cadre_side_file){"tokenizer.json", texts[1].at, texts[1].length};
    }
    CADRE_TRY(texts[0].status);
    CADRE_TRY(texts[1].status);
    *ret_count = n;
    return CADRE_OK;
}

static cadre_status save_with(cadre_comm *world, cadre_parallel *p, const cadre_model *model,
                              const char *folder, const cadre_state_head *head, piece_list *l,
                              cadre_text texts[3], char ret_path[CADRE_PATH]) {
    int rank = cadre_comm_rank(world), size = cadre_comm_size(world), file_count = 0;
    char layout[64];
    cadre_side_file files[2];
    CADRE_TRY(list_open(l, model));
    for (int i = 0; i < cadre_model_param_count(model); i++) {
        const cadre_parameter *param = cadre_model_param(model, i);
        if (rank == 0) add_weights(l, p, param);
        if (i % size == rank) add_states(l, p, param);
    }
    if (rank == 0) CADRE_TRY(side_files(model, head->tokenizer, texts, files, &file_count));
    cadre_settings_write(head->set, &texts[2]);
    CADRE_TRY(texts[2].status);
    snprintf(layout, sizeof layout, "dp=%d", cadre_parallel_mesh(p)->degree[CADRE_AXIS_DP]);
    cadre_checkpoint_head h = {
        .step = head->step,
        .samples = head->samples,
        .data_hash = head->data_hash,
        .parameter_hash = cadre_parallel_hash(p),
        .valid_loss = head->valid_loss,
        .settings = texts[2].at,
        .layout = layout,
    };
    return cadre_checkpoint_save(world, folder, &h, l->at, l->count, files, file_count, ret_path);
}

cadre_status cadre_state_save(cadre_comm *world, cadre_parallel *p, const cadre_model *model,
                              const char *folder, const cadre_state_head *head,
                              char ret_path[CADRE_PATH]) {
    piece_list l = {0};
    cadre_text texts[3] = {{0}};
    cadre_status st = save_with(world, p, model, folder, head, &l, texts, ret_path);
    list_close(&l);
    for (int i = 0; i < CADRE_COUNT(texts); i++) cadre_text_free(&texts[i]);
    return st;
}

/* Frozen weights of a bf16 run are bf16: read at another precision they are other bytes, and their
 * hash is another. */
static bool reads_other_types(const cadre_checkpoint *c, const cadre_parallel *p,
                              const cadre_model *model) {
    const cadre_manifest *m = cadre_checkpoint_manifest(c);
    for (int i = 0; i < m->piece_count; i++) {
        const cadre_parameter *param = cadre_model_find(model, m->pieces[i].name);
        if (param && m->pieces[i].dtype != cadre_parallel_value_dtype(p, param->id)) return true;
    }
    return false;
}

static cadre_status load_from(cadre_checkpoint *c, cadre_parallel *p, const cadre_model *model,
                              uint64_t data_hash, piece_list *l) {
    const cadre_checkpoint_head *head = cadre_checkpoint_head_of(c);
    CADRE_CHECK(data_hash == 0 || head->data_hash == 0 || head->data_hash == data_hash,
                CADRE_EUSAGE,
                "%s was trained on other data (hash %016" PRIx64 ", now %016" PRIx64
                "); give the same data.train or a new --run.name",
                cadre_checkpoint_path(c), head->data_hash, data_hash);
    CADRE_TRY(list_open(l, model));
    for (int i = 0; i < cadre_model_param_count(model); i++) {
        const cadre_parameter *param = cadre_model_param(model, i);
        add_weights(l, p, param);
        add_states(l, p, param);
    }
    CADRE_TRY(cadre_checkpoint_read(c, l->at, l->count));
    cadre_parallel_settle(p);
    uint64_t hash = cadre_parallel_hash(p);
    CADRE_CHECK(head->parameter_hash == 0 || head->parameter_hash == hash ||
                    reads_other_types(c, p, model),
                CADRE_EDATA, "%s: the weights hash to %016" PRIx64 ", but %016" PRIx64 " was saved",
                cadre_checkpoint_path(c), hash, head->parameter_hash);
    return CADRE_OK;
}

cadre_status cadre_state_load(cadre_comm *world, cadre_parallel *p, const cadre_model *model,
                              const char *path, uint64_t data_hash, int64_t *ret_step,
                              int64_t *ret_samples, double *ret_valid_loss) {
    cadre_checkpoint *c = NULL;
    piece_list l = {0};
    /* One rank looks at every sum; all read the same files. */
    CADRE_TRY(cadre_checkpoint_open(&c, path, cadre_comm_rank(world) == 0));
    cadre_status st = load_from(c, p, model, data_hash, &l);
    if (!st) {
        const cadre_checkpoint_head *head = cadre_checkpoint_head_of(c);
        *ret_step = head->step;
        *ret_samples = head->samples;
        if (ret_valid_loss) *ret_valid_loss = head->valid_loss;
    }
    list_close(&l);
    cadre_checkpoint_close(&c);
    return st;
}

/* ---- weights alone, from elsewhere ---- */

static cadre_status start_from(const cadre_weights *w, cadre_parallel *p, const cadre_model *model,
                               piece_list *l) {
    CADRE_TRY(list_open(l, model));
    for (int i = 0; i < cadre_model_param_count(model); i++)
        add_weights(l, p, cadre_model_param(model, i));
    CADRE_TRY(cadre_weights_read(w, l->at, l->count));
    cadre_parallel_settle(p);
    return CADRE_OK;
}

cadre_status cadre_state_start(cadre_comm *world, cadre_parallel *p, const cadre_model *model,
                               const char *path, char ret_folder[CADRE_PATH]) {
    cadre_weights *w = NULL;
    piece_list l = {0};
    /* One rank looks at every sum and says which folder it is; all read the same files. */
    if (cadre_comm_rank(world) == 0)
        CADRE_TRY(cadre_weights_find(path, true, ret_folder, NULL, NULL));
    CADRE_TRY(cadre_broadcast(world, ret_folder, CADRE_PATH, CADRE_U8, 0, "weights", NULL));
    CADRE_TRY(cadre_weights_open(&w, ret_folder));
    cadre_status st = start_from(w, p, model, &l);
    list_close(&l);
    cadre_weights_close(&w);
    return st;
}
