/* SPDX-License-Identifier: Apache-2.0
 *
 * A model out of a checkpoint: config.json says what it is, the weights and the tokenizer lie
 * beside it.
 */
#include <string.h>

#include "base/status.h"
#include "cli/cli.h"
#include "tape/plain_store.h"

static cadre_status find(const cli_call *call, const char *path, cli_model *m) {
    cadre_text skipped = {0};
    cadre_status st = cadre_checkpoint_find(path, m->path, &skipped);
    if (skipped.length) cli_remark(call, "%s", skipped.at);
    cadre_text_free(&skipped);
    CADRE_TRY(st);
    if (strcmp(path, m->path) != 0) cli_remark(call, "checkpoint %s", m->path);
    return cadre_checkpoint_open(&m->checkpoint, m->path, true);
}

static cadre_status read_config(cli_model *m) {
    char *json = NULL;
    size_t bytes = 0;
    const cadre_facts facts = {.world = 1, .local_size = 1};
    CADRE_TRY(cadre_checkpoint_side(m->checkpoint, "config.json", &json, &bytes));
    cadre_status st = cadre_settings_open(&m->set, NULL);
    if (!st) st = cadre_model_config_read(m->set, json, bytes, m->path);
    if (!st) st = cadre_settings_resolve(m->set, &facts);
    if (!st) st = cadre_model_open(&m->model, m->set);
    cadre_free(&json);
    return st;
}

static cadre_status read_tokenizer(cli_model *m) {
    char *json = NULL, path[CADRE_PATH];
    size_t bytes = 0;
    cadre_join(path, sizeof path, m->path, "tokenizer.json");
    if (!cadre_path_is_file(path)) return CADRE_OK; /* trained on token files without one */
    CADRE_TRY(cadre_checkpoint_side(m->checkpoint, "tokenizer.json", &json, &bytes));
    cadre_status st = cadre_tokenizer_from_json(&m->tokenizer, json, bytes, path);
    cadre_free(&json);
    return st;
}

static cadre_status read_weights(cli_model *m) {
    int count = cadre_model_param_count(m->model);
    const cadre_parameter **params = NULL;
    cadre_piece *pieces = NULL;
    CADRE_TRY(cadre_alloc_array(&params, CADRE_MEM_OTHER, count, sizeof *params));
    cadre_status st = cadre_alloc_array(&pieces, CADRE_MEM_OTHER, count, sizeof *pieces);
    for (int i = 0; i < count; i++) params[i] = cadre_model_param(m->model, i);
    if (!st) st = cadre_plain_store_open(&m->store, params, count, false);
    for (int i = 0; !st && i < count; i++)
        pieces[i] = (cadre_piece){.name = params[i]->name,
                                  .dtype = params[i]->dtype,
                                  .dims = params[i]->dims,
                                  .count = cadre_dims_count(&params[i]->dims),
                                  .data = cadre_plain_store_value(m->store, i),
                                  .weights = true};
    if (!st) st = cadre_checkpoint_read(m->checkpoint, pieces, count);
    cadre_free(&pieces);
    cadre_free(&params);
    return st;
}

static cadre_status open_all(const cli_call *call, const char *path, int threads, cli_model *m) {
    CADRE_TRY(find(call, path, m));
    CADRE_TRY(read_config(m));
    CADRE_TRY(read_tokenizer(m));
    CADRE_TRY(read_weights(m));
    CADRE_TRY(cadre_pool_open(&m->pool, threads, NULL, cadre_kernel_thread_start));
    CADRE_TRY(cadre_queue_open(&m->queue, "cpu", m->pool));
    return cadre_tape_open(&m->tape, m->queue, cadre_plain_store_view(m->store), CADRE_F32);
}

cadre_status cli_model_open(const cli_call *call, const char *path, int threads, cli_model *ret) {
    memset(ret, 0, sizeof *ret);
    cadre_status st = open_all(call, path, threads, ret);
    if (st) cli_model_close(ret);
    return st;
}

void cli_model_close(cli_model *m) {
    cadre_tape_close(&m->tape);
    cadre_queue_close(&m->queue);
    cadre_pool_close(&m->pool);
    cadre_plain_store_close(&m->store);
    cadre_tokenizer_close(&m->tokenizer);
    cadre_model_close(&m->model);
    cadre_settings_close(&m->set);
    cadre_checkpoint_close(&m->checkpoint);
}
