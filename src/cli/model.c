/* SPDX-License-Identifier: Apache-2.0
 *
 * A model out of a checkpoint or a folder of Hugging Face's: config.json says what it is, the
 * weights and the tokenizer lie beside it.
 */
#include <string.h>

#include "base/status.h"
#include "checkpoint/weights.h"
#include "cli/cli.h"
#include "tape/plain_store.h"

static cadre_status find(const cli_call *call, const char *path, cli_model *m) {
    cadre_text skipped = {0};
    bool checkpoint = false;
    cadre_status st = cadre_weights_find(path, true, m->path, &checkpoint, &skipped);
    if (skipped.length) cli_remark(call, "%s", skipped.at);
    cadre_text_free(&skipped);
    CADRE_TRY(st);
    if (strcmp(path, m->path) != 0) cli_remark(call, "checkpoint %s", m->path);
    return checkpoint ? cadre_checkpoint_open(&m->checkpoint, m->path, false) : CADRE_OK;
}

static cadre_status read_config(cli_model *m) {
    char path[CADRE_PATH];
    cadre_map map;
    const cadre_facts facts = {.world = 1, .local_size = 1};
    CADRE_TRY(cadre_map_open(&map, cadre_join(path, sizeof path, m->path, "config.json")));
    cadre_status st = cadre_settings_open(&m->set, NULL);
    if (!st) st = cadre_model_config_read(m->set, (const char *)map.data, map.bytes, path);
    if (!st) st = cadre_settings_resolve(m->set, &facts);
    if (!st) st = cadre_model_open(&m->model, m->set);
    cadre_map_close(&map);
    return st;
}

/* None: trained on token files without one. */
static cadre_status read_tokenizer(cli_model *m) {
    if (!cadre_tokenizer_is_in(m->path)) return CADRE_OK;
    return cadre_tokenizer_open(&m->tokenizer, m->path, NULL, 0, "");
}

static cadre_status read_weights(cli_model *m) {
    int count = cadre_model_param_count(m->model);
    const cadre_parameter **params = NULL;
    cadre_piece *pieces = NULL;
    cadre_weights *weights = NULL;
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
    if (!st) st = cadre_weights_open(&weights, m->path);
    if (!st) st = cadre_weights_read(weights, pieces, count);
    cadre_weights_close(&weights);
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
