/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of train.*, precision.* and run.* (interface.md, section 3).
 */
#include "train/settings.h"

#define TRAIN(field) "train." #field, .offset = offsetof(cadre_train_cfg, field)
#define PRECISION(field) "precision." #field, .offset = offsetof(cadre_precision_cfg, field)
#define RUN(field) "run." #field, .offset = offsetof(cadre_run_cfg, field)

static const cadre_setting train_rows[] = {
    {TRAIN(steps), .type = CADRE_SET_INT, .fallback = "2000", .low = 1, .high = 1e15,
     .derived = "epochs x samples an epoch / batch, when train.epochs is given",
     .help = "optimizer steps of the run"},
    {TRAIN(epochs), .type = CADRE_SET_REAL, .low = 0, .high = 1e9,
     .derived = "none: train.steps counts",
     .help = "passes over the data, in place of train.steps"},
    {TRAIN(batch), .type = CADRE_SET_INT, .fallback = "12", .low = 1, .high = 1e9,
     .derived = "micro_batch x dp, when train.micro_batch alone is given",
     .help = "samples of one optimizer step over all ranks"},
    {TRAIN(micro_batch), .type = CADRE_SET_INT, .low = 1, .high = 1e9, .derived = "batch / dp",
     .help = "samples of one forward pass on one rank"},
    {TRAIN(context), .type = CADRE_SET_INT, .low = 1, .high = 1e9, .derived = "model.context",
     .help = "tokens of one sample"},
    {TRAIN(seed), .type = CADRE_SET_INT, .fallback = "1", .low = 0, .high = 9e18,
     .help = "keys every random draw: weights, order of the data, dropout"},
    {TRAIN(eval_every), .type = CADRE_SET_INT, .low = 0, .high = 1e15,
     .derived = "max(1, steps / 10)",
     .help = "steps between evaluations, one more at the end; 0: only at the end"},
    {TRAIN(eval_samples), .type = CADRE_SET_INT, .fallback = "0", .low = 0, .high = 1e15,
     .help = "windows of the validation data in an evaluation; 0: all of them"},
    {TRAIN(recompute), .type = CADRE_SET_CHOICE, .fallback = "none", .choices = "none|block|auto",
     .help = "blocks that the backward pass computes again to save memory: none, every block, or "
             "as few as train.memory_limit allows"},
    {TRAIN(memory_limit), .type = CADRE_SET_BYTES, .low = 1, .high = 9e18,
     .derived = "none; with train.recompute=auto this machine's memory / its ranks",
     .help = "most memory of one rank; a plan that needs more is refused"},
    {TRAIN(canonical), .type = CADRE_SET_BOOL, .fallback = "false",
     .help = "the same bits on any layout (needs train.micro_batch, the slot)",
     .later = "canonical mode is not built yet; only false"},
};

static const cadre_setting precision_rows[] = {
    {PRECISION(compute), .type = CADRE_SET_CHOICE, .fallback = "f32",
     .choices = "f32|bf16|auto|f64",
     .help = "numbers of activations and products; auto: bf16 where the processor has "
             "instructions for it (f64 needs run.device=ref)"},
    {PRECISION(reduce), .type = CADRE_SET_CHOICE, .fallback = "f32", .choices = "f32|bf16",
     .help = "numbers in which gradients travel; they are added up in f32"},
};

static const cadre_setting run_rows[] = {
    {RUN(ranks), .type = CADRE_SET_INT, .low = 1, .high = 4096,
     .derived = "product of the given degrees of parallel, else 1",
     .help = "ranks (processes) of the run; --ranks N for short"},
    {RUN(threads), .type = CADRE_SET_INT, .low = 1, .high = 4096,
     .derived = "cores / ranks of this machine", .help = "threads of one rank"},
    {RUN(pin), .type = CADRE_SET_BOOL, .fallback = "true",
     .help = "keep each rank on cores of its own, when there are enough"},
    {RUN(dir), .type = CADRE_SET_TEXT, .fallback = "runs", .help = "folder of the run folders"},
    {RUN(name), .type = CADRE_SET_TEXT, .derived = "the run file's or the data file's stem",
     .help = "name of the run folder"},
    {RUN(console), .type = CADRE_SET_CHOICE, .fallback = "auto", .choices = "auto|bar|lines|quiet",
     .help = "what the terminal shows; auto: a bar on a terminal, lines elsewhere"},
    {RUN(log_every), .type = CADRE_SET_INT, .low = 0, .high = 1e15, .derived = "max(1, steps / 20)",
     .help = "steps between step lines"},
    {RUN(tensorboard), .type = CADRE_SET_BOOL, .fallback = "true",
     .help = "write an event file for TensorBoard"},
    {RUN(trace), .type = CADRE_SET_TEXT, .derived = "none",
     .help = "steps to record as a Chrome trace, as 5, 10-12 or 3,10-12"},
    {RUN(exit_on_signal), .type = CADRE_SET_INT, .fallback = "75", .low = 0, .high = 255,
     .help = "exit code after SIGTERM or SIGUSR1 when a checkpoint is written"},
    {RUN(device), .type = CADRE_SET_TEXT, .fallback = "cpu",
     .help = "kernels: cpu, or ref (plain reference code, slow)"},
};

const cadre_setting_table cadre_train_settings = {"train", train_rows,
                                                  sizeof train_rows / sizeof train_rows[0]};
const cadre_setting_table cadre_precision_settings = {
    "precision", precision_rows, sizeof precision_rows / sizeof precision_rows[0]};
const cadre_setting_table cadre_run_settings = {"run", run_rows,
                                                sizeof run_rows / sizeof run_rows[0]};
