#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# train.recompute and train.memory_limit at the command: the same bits, the plan's lines, refusals.
. "$(dirname "$0")/lib.sh"

train="$CADRE train --data.train=text.txt $small --model.layers=3 --model.dropout=0.1 --train.steps=4"
weights=checkpoints/step-00000004/model.safetensors
expect "without" 0 '^step 4/4' $train --run.name=none
expect "every block" 0 '^recompute *block: 3 of 5 blocks, .* GFLOP a step more' $train --train.recompute=block --run.name=block
cmp -s runs/none/$weights runs/block/$weights && pass "the same bits" || failure "other bits"
expect "two ranks, as few as needed" 0 '^recompute *auto: 0 of 5 blocks' $train --ranks 2 --train.recompute=auto --run.name=auto
expect "a run may go on with another choice" 0 'continuing from step 4' $train --train.recompute=block --train.steps=5 --run.name=none
refused "auto: too little" 6 'even with every block computed again.*memory_limit=1.0 MiB' \
    $train --train.recompute=auto --train.memory_limit=1MiB --run.name=little
refused "none: too little" 6 'train.recompute=block would still need' $train --train.memory_limit=1MiB --run.name=little
refused "a machine too small, before memory is taken" 6 'the plan needs .* for 1 rank of this machine' \
    $CADRE train --data.train=text.txt --model.preset=gpt2-13b --train.batch=1 --ranks 1 --run.name=huge
refused "more than is there" 2 'none, block, auto\|none|block|auto' $train --train.recompute=some

plan="$CADRE plan --model.preset=gpt2-124m --train.batch=16 --ranks 1 --run.threads=1"
expect "the plan without" 0 '^memory' $plan
grep -q '^recompute' out && failure "a line about nothing" || pass "says nothing about it"
expect "the plan with a limit" 0 '^memory .* a rank, of 8.4 GiB allowed' $plan --train.recompute=auto --train.memory_limit=9e9
refused "the plan above a limit" 6 'give train.recompute=auto' $plan --train.memory_limit=9e9
# Without a limit the plan may be of a larger machine: it is printed, a run is refused.
huge="--model.preset=gpt2-13b --train.batch=100000 --train.recompute=auto"
expect "the plan above this machine" 0 '^memory .* TiB a rank, above the .* a rank that this machine has$' $CADRE plan $huge --run.threads=1
grep -q '^recompute   auto: 40 of 42 blocks' out && pass "with every block computed again" || failure "$(grep '^recompute' out)"
refused "the same with a limit given" 6 'even with every block computed again' $CADRE plan $huge --train.memory_limit=9e9
total() { $plan --json "$@" | sed -n 's/.*"total": *\([0-9]*\).*/\1/p'; }
least=$(total --train.recompute=block) most=$(total)
limit=$((least / 2 + most / 2))
got=$(total --train.recompute=auto --train.memory_limit=$limit)
[ "$got" -le "$limit" ] && [ "$got" -gt "$least" ] && pass "auto stays below and takes no more blocks than needed" ||
    failure "auto: $got bytes, limit $limit, least $least"
finish
