#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs in bf16: the same bits each time and over a resume, near the run in f32, checkpoints in f32, what follows from them.
. "$(dirname "$0")/lib.sh"

train="$CADRE train --data.train=text.txt $small --train.steps=40 --optim.decay_steps=40 --optim.warmup_steps=4"
bf16="$train --precision.compute=bf16 --precision.reduce=bf16"
weights() { echo "runs/$1/checkpoints/step-000000$2/model.safetensors"; }
valid() { sed -n 's/.*"valid_loss": *\([0-9.e+-]*\).*/\1/p' "runs/$1/metrics.jsonl" | tail -n 1; }

expect "plan" 0 '^precision   bf16; weights and their gradients are kept in f32; gradients travel in bf16' $CADRE plan --precision.compute=bf16 --precision.reduce=bf16
expect "auto says what it found" 0 '^precision   \(bf16 (auto: this processor has instructions\|f32 (auto: this processor has no instructions\)' $CADRE plan --precision.compute=auto
refused "not with the reference" 2 'precision.compute=bf16 needs the fast kernels' $bf16 --run.device=ref
expect "two ranks" 0 '^step 40/40' $bf16 --ranks 2 --run.name=one
expect "again" 0 '^step 40/40' $bf16 --ranks 2 --run.name=two
cmp -s "$(weights one 40)" "$(weights two 40)" && pass "the same bits" || failure "two runs differ"
expect "half" 0 '^step 20/20' $bf16 --ranks 2 --train.steps=20 --run.name=half
expect "and the rest" 0 'continuing from step 20' $bf16 --ranks 2 --run.name=half
cmp -s "$(weights one 40)" "$(weights half 40)" && pass "a resumed run has the same bits" || failure "a resumed run has other bits"
grep -q '"F32"' "$(weights one 40)" && ! grep -q '"BF16"' "$(weights one 40)" && pass "the checkpoint is in f32" || failure "the checkpoint is not in f32"
expect "f32" 0 '^step 40/40' $train --ranks 2 --run.name=wide
cmp -s "$(weights one 40)" "$(weights wide 40)" && failure "bf16 computes as f32 does" || pass "f32 has other bits"
echo "$(valid one) $(valid wide)" | awk '{ d = $1 - $2; if (d < 0) d = -d; exit !(NF == 2 && d < 0.02) }' &&
    pass "the validation losses are near" || failure "the validation losses differ: $(valid one) $(valid wide)"
refused "another precision is another run" 2 'precision.compute' $train --ranks 2 --train.steps=60 --run.name=one
expect "eval" 0 "$(valid one | cut -c1-5)" $CADRE eval runs/one
expect "generate" 0 '.' $CADRE generate runs/one --prompt a --tokens 5
finish
