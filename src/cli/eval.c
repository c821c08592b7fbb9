/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre eval: the exact loss of a checkpoint over a whole validation set: the one given, or the one
 * of the run that the checkpoint is from.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/cpus.h"
#include "base/status.h"
#include "cli/cli.h"
#include "nn/model.h"

typedef struct evaluation {
    cli_model model;
    cadre_settings *set; /* of the run, then of the call */
    cadre_corpus *corpus;
    int64_t context;
    double loss, count, bits_per_byte;
} evaluation;

/* What is not looked at is refused: the model and how it was trained are the checkpoint's. */
static cadre_status check_settings(const cli_call *call) {
    static const char *const taken[] = {"data.", "run.", "comm.", "train.context="};
    for (int i = 0; i < call->setting_count; i++) {
        bool known = false;
        for (int k = 0; k < CADRE_COUNT(taken); k++)
            known |= strncmp(call->settings[i], taken[k], strlen(taken[k])) == 0;
        CADRE_CHECK(known, CADRE_EUSAGE,
                    "cadre eval does not look at %s; it takes data.*, run.*, comm.* and "
                    "train.context",
                    call->settings[i]);
    }
    return CADRE_OK;
}

/* The run's own settings, out of the checkpoint; the command line beats them. */
static cadre_status open_settings(const cli_call *call, evaluation *e) {
    const cadre_checkpoint *checkpoint = e->model.checkpoint;
    const char *yaml = checkpoint ? cadre_checkpoint_head_of(checkpoint)->settings : NULL;
    bool other_data = false;
    CADRE_TRY(check_settings(call));
    for (int i = 0; i < call->setting_count; i++)
        if (strncmp(call->settings[i], "data.valid", 10) == 0) other_data = true;
    CADRE_TRY(cli_open_settings(call, NULL, &e->set));
    if (!yaml) return CADRE_OK;
    CADRE_TRY(cadre_settings_read(e->set, yaml, strlen(yaml), e->model.path, CADRE_FROM_FILE));
    if (other_data && !cadre_settings_given(e->set, "data.valid_fraction")) return CADRE_OK;
    const char *valid = cadre_settings_get(e->set, "data.valid");
    if (other_data && valid && *valid) /* the run's fraction is not asked for */
        return cadre_settings_set(e->set, "data.valid_fraction", "0");
    return CADRE_OK;
}

static cadre_status open_data(evaluation *e) {
    cadre_data_cfg data;
    CADRE_TRY(cadre_settings_fill(e->set, &cadre_data_settings, &data));
    CADRE_CHECK(data.train.count || data.valid.count, CADRE_EUSAGE,
                "%s does not say what it was validated on; give --data.valid=FILE", e->model.path);
    if (data.valid.count)
        CADRE_TRY(cadre_corpus_open_valid(&e->corpus, &data, e->model.tokenizer));
    else
        CADRE_TRY(cadre_corpus_open(&e->corpus, &data));
    const cadre_run_of_tokens *valid = cadre_corpus_valid(e->corpus);
    const cadre_model_cfg *cfg = cadre_model_config(e->model.model);
    CADRE_CHECK(valid->count >= 2, CADRE_EUSAGE,
                "the run had no validation data; give --data.valid=FILE");
    CADRE_CHECK(valid->largest < cfg->vocab, CADRE_EDATA,
                "the validation data have token %" PRId32 ", out of range of the model's %" PRId64,
                valid->largest, cfg->vocab);
    return CADRE_OK;
}

static cadre_status find_context(evaluation *e) {
    const char *text = cadre_settings_get(e->set, "train.context");
    int64_t most = cadre_model_context(e->model.model);
    e->context = most;
    if (text) (void)cadre_parse_i64(text, &e->context);
    CADRE_CHECK(e->context >= 1 && e->context <= most, CADRE_EUSAGE,
                "train.context=%" PRId64 " is longer than the model's %" PRId64, e->context, most);
    return CADRE_OK;
}

/* As many rows a pass as keep the logits within 64 MiB. */
static int64_t rows_of(const evaluation *e) {
    const cadre_model_cfg *cfg = cadre_model_config(e->model.model);
    int64_t rows = (64 << 20) / (e->context * cfg->vocab * 4);
    return rows < 1 ? 1 : rows > 32 ? 32 : rows;
}

static cadre_status evaluate(const cli_call *call, cadre_comm *world, evaluation *e) {
    int threads = cadre_cpus_count() / cadre_comm_local_size(world);
    CADRE_TRY(cli_model_open(call, call->words[0], threads > 0 ? threads : 1, &e->model));
    CADRE_TRY(open_settings(call, e));
    CADRE_TRY(open_data(e));
    CADRE_TRY(find_context(e));
    const cadre_eval_job job = {.world = world,
                                .tape = e->model.tape,
                                .model = e->model.model,
                                .tokens = cadre_corpus_valid(e->corpus),
                                .context = e->context,
                                .micro_batch = rows_of(e)};
    CADRE_TRY(cadre_evaluate(&job, &e->loss, &e->count, NULL));
    e->bits_per_byte = cadre_bits_per_byte(e->corpus, e->loss);
    return CADRE_OK;
}

static void add_quoted(cadre_text *to, const char *text) {
    cadre_text_add(to, "\"");
    for (; *text; text++)
        if ((unsigned char)*text < 0x20)
            cadre_text_add(to, "\\u%04x", *text);
        else
            cadre_text_add(to, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    cadre_text_add(to, "\"");
}

static int show(const cli_call *call, const evaluation *e) {
    cadre_text to = {0};
    const cadre_checkpoint *checkpoint = e->model.checkpoint;
    char step[32] = "null";
    if (checkpoint)
        snprintf(step, sizeof step, "%" PRId64, cadre_checkpoint_head_of(checkpoint)->step);
    if (call->json) {
        cadre_text_add(&to, "{\"schema\": 1, \"checkpoint\": ");
        add_quoted(&to, e->model.path);
        cadre_text_add(
            &to, ", \"step\": %s, \"tokens\": %.0f, \"context\": %" PRId64 ", \"valid_loss\": %.9g",
            step, e->count, e->context, e->loss);
        if (isnan(e->bits_per_byte))
            cadre_text_add(&to, ", \"valid_bits_per_byte\": null}\n");
        else
            cadre_text_add(&to, ", \"valid_bits_per_byte\": %.9g}\n", e->bits_per_byte);
    } else {
        if (checkpoint) cadre_text_add(&to, "step %s | ", step);
        cadre_text_add(&to, "valid %.4f", e->loss);
        if (!isnan(e->bits_per_byte)) cadre_text_add(&to, " | %.4f bits a byte", e->bits_per_byte);
        cadre_text_add(&to, " | %.0f tokens | context %" PRId64 "\n", e->count, e->context);
    }
    return cli_print(call, &to);
}

/* One rank, or a process that evaluates alone. */
static int eval_rank(const cli_call *call, const cadre_launch *launch) {
    evaluation e;
    cadre_comm *world = NULL;
    memset(&e, 0, sizeof e);
    cli_take_signals();
    cli_watch_supervisor(launch);
    cli_call quiet = *call;
    quiet.quiet = call->quiet || launch->rank > 0;
    cadre_status st = cli_open_world(call, &world);
    if (!st) {
        st = evaluate(&quiet, world, &e);
        cadre_error error;
        char said[CADRE_ERROR_TEXT];
        if (st) {
            cadre_error_save(&error);
            if (cadre_comm_first_failure(world, said, sizeof said) < 0)
                cadre_comm_abort(world, &error);
            cadre_error_restore(&error);
        }
    }
    int code = !st && launch->rank == 0 ? show(call, &e) : 0;
    code = cli_rank_end(call, launch, world, st, code);
    cadre_corpus_close(&e.corpus);
    cadre_settings_close(&e.set);
    cli_model_close(&e.model);
    cadre_comm_close(&world);
    return code;
}

int cli_eval(const cli_call *call) {
    cadre_launch launch;
    bool am_rank = false;
    int ranks = 1;
    cadre_status st = cli_am_rank(&launch, &am_rank);
    if (!st && call->word_count != 1)
        st = CADRE_FAIL(CADRE_EUSAGE,
                        "eval takes a checkpoint or a run folder: cadre eval runs/NAME");
    if (!st) st = cli_ranks(call, 1, &ranks);
    if (st) return cli_fail(call, st);
    if (am_rank || ranks == 1) return eval_rank(call, &launch);
    return cli_supervise(call, ranks, NULL, NULL);
}
