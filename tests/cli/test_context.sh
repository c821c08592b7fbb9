#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Long contexts: attention keeps nothing of the size T x T, so that memory is linear in T; what is planned is what is counted.
. "$(dirname "$0")/lib.sh"

i=0
while [ $i -lt 1500 ]; do echo "line $i of a long text"; i=$((i + 1)); done >long.txt
model="--model.layers=2 --model.width=64 --model.heads=4 --model.vocab=65 --train.batch=1"
# Activations and workspace of a rank.
bytes() { $CADRE plan --json --model.context="$1" $model | tr -d '\n ' | sed 's/.*"bytes_per_rank":{\([^}]*\)}.*/\1/' | tr ',' '\n' |
    awk -F: '/activations|workspace/ { sum += $2 } END { print sum }'; }
a=$(bytes 1024) b=$(bytes 2048) c=$(bytes 4096)
echo "$a $b $c" | awk '{ exit !($1 > 0 && $2 / $1 < 2.05 && $3 / $2 < 2.05 && $3 / $2 > 1.9) }' &&
    pass "activations at T = 1024, 2048, 4096: $a $b $c bytes" || failure "activations are not linear in T: $a $b $c"
expect "a run at T = 4096" 0 '^step 2/2' $CADRE train --data.train=long.txt --model.context=4096 --model.layers=1 --model.width=32 \
    --model.heads=2 --train.batch=1 --train.steps=2 --run.name=long
# A matrix of 4096 x 4096 floats alone would take 64 MiB.
end=$(grep '"end": *true' runs/long/metrics.jsonl)
measured=$(echo "$end" | sed 's/.*"peak_measured_bytes": *\([0-9]*\).*/\1/')
[ "$measured" -gt 0 ] && [ "$measured" -lt 60000000 ] && pass "it took $measured bytes" || failure "it took $measured bytes"
finish
