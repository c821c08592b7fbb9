/* SPDX-License-Identifier: Apache-2.0
 *
 * Tier 2: an own model out of formulas, in an own loop. The model looks at one word and predicts
 * the next; the words walk in a circle with a step that the model has to find out. Every rank makes
 * its own share of each step's batch, the trainer keeps all ranks in step.
 *
 *   cc 02_own_loop.c -o own_loop $(pkg-config --cflags --libs cadre)
 *   ./own_loop                            one rank
 *   cadre run --ranks 3 -- ./own_loop     three ranks: the same losses to rounding
 */
#include <cadre/cadre.h>

enum { WORDS = 29, WIDTH = 32, SAMPLES = 24, LENGTH = 8, STEPS = 200, STRIDE = 5 };

struct dims {
    int64_t words, width;
};

/* ---- the model: two blocks, a stem and a head ---- */

static cadre_status stem_params(cadre_block *b, const void *arg) {
    const struct dims *d = arg;
    cadre_param(b, "embed.weight", cadre_dims2(d->words, d->width), cadre_normal(0.02f));
    return cadre_param(b, "fc.weight", cadre_dims2(d->width, d->width),
                       cadre_normal(0.1f)); /* first failure sticks to b */
}

static cadre_tensor *stem(cadre_tape *t, const cadre_block *b,
                          cadre_tensor *words) { /* (B, T) -> (B, T, C) */
    cadre_tensor *h = cadre_embedding(t, words, cadre_p(b, "embed.weight"));
    return cadre_gelu(t, cadre_linear(t, h, cadre_p(b, "fc.weight"), NULL));
}

static cadre_status head_params(cadre_block *b, const void *arg) {
    const struct dims *d = arg;
    cadre_param(b, "out.weight", cadre_dims2(d->words, d->width), cadre_normal(0.02f));
    return cadre_param(b, "out.bias", cadre_dims1(d->words), cadre_zeros());
}

static cadre_tensor *head(cadre_tape *t, const cadre_block *b,
                          cadre_tensor *h) { /* (B, T, C) -> loss */
    cadre_tensor *logits = cadre_linear(t, h, cadre_p(b, "out.weight"), cadre_p(b, "out.bias"));
    return cadre_cross_entropy(t, logits, cadre_input(t, "labels"));
}

/* ---- the data: this rank's part of the 24 samples of step `i` ---- */

static int32_t inputs[SAMPLES][LENGTH], labels[SAMPLES][LENGTH];

static void my_batch(int64_t i, int rank, int size, cadre_batch *ret_batch) {
    int64_t first = SAMPLES * rank / size, end = SAMPLES * (rank + 1) / size;
    for (int64_t s = first; s < end; s++)
        for (int64_t k = 0; k < LENGTH; k++) {
            int64_t start = (i * SAMPLES + s) * 7;
            inputs[s - first][k] = (int32_t)((start + STRIDE * k) % WORDS);
            labels[s - first][k] = (int32_t)((start + STRIDE * (k + 1)) % WORDS);
        }
    *ret_batch = CADRE_BATCH;
    ret_batch->samples = end - first;
    ret_batch->inputs = inputs;
    ret_batch->inputs_dtype = CADRE_I32;
    ret_batch->inputs_dims = cadre_dims2(end - first, LENGTH);
    ret_batch->labels = labels;
    ret_batch->labels_dtype = CADRE_I32;
    ret_batch->labels_dims = ret_batch->inputs_dims;
}

int main(void) {
    const struct dims d = {WORDS, WIDTH};
    const cadre_block_kind chain[] = {CADRE_BLOCK("stem", stem_params, stem, &d),
                                      CADRE_BLOCK("head", head_params, head, &d)};
    cadre_comm *world = NULL;
    cadre_settings *set = NULL;
    cadre_model *m = NULL;
    cadre_trainer *t = NULL;
    cadre_report report = CADRE_REPORT;

    cadre_status st =
        cadre_comm_open(&world, NULL);             /* who am I; one rank when nobody launched us */
    if (!st) st = cadre_settings_open(&set, NULL); /* defaults, or a run file */
    if (!st) st = cadre_settings_set(set, "optim.lr", "1e-2");
    if (!st)
        st = cadre_settings_set(set, "train.steps",
                                "200"); /* the learning rate's schedule ends there */
    if (!st) st = cadre_model_chain(&m, chain, 2, set);
    if (!st)
        st = cadre_trainer_open(&t, world, m, set); /* world, m, set are borrowed until close */
    for (int64_t i = 0; !st && i < STEPS; i++) {
        cadre_batch batch;
        my_batch(i, cadre_comm_rank(world), cadre_comm_size(world), &batch);
        st = cadre_trainer_step(t, &batch, &report);
        if (!st && cadre_comm_rank(world) == 0 && (report.step == 1 || report.step % 50 == 0))
            printf("step %3lld | loss %.4f | norm %.3f\n", (long long)report.step, report.loss,
                   report.grad_norm);
    }
    if (st) cadre_error_print(stderr);
    cadre_trainer_close(&t);
    cadre_model_close(&m);
    cadre_settings_close(&set);
    cadre_comm_close(&world);
    return cadre_exit_code(st);
}
