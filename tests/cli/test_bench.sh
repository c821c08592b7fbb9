#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cadre bench: the table of benches, what each takes, rows that fit together.
. "$(dirname "$0")/lib.sh"

expect "no bench named" 2 '^  allreduce ' "$CADRE" bench
expect "help lists the benches" 0 '^  memory ' "$CADRE" bench --help
refused "two documents" 2 'name one bench' "$CADRE" bench memory allreduce --json
refused "an option that the bench does not take" 2 'bench allreduce takes no --model' "$CADRE" bench allreduce --model gpt2
refused "no size" 2 'is no size' "$CADRE" bench memory --bytes 3
refused "no number" 2 'repeat' "$CADRE" bench memory --repeat 0
refused "no ranks" 2 'ranks' "$CADRE" bench memory --ranks 0

expect "two benches, one after the other" 0 '^memory: ' "$CADRE" bench allreduce memory --bytes 64KiB --seconds 0.01
is "the first one too" "$(grep -c '^allreduce: ' out)" 1
expect "as JSON" 0 '"bench": "memory"' "$CADRE" bench memory --bytes 64KiB --repeat 3 --ranks 2 --json
cp out memory.json
is "it is one document" "$(awk '/^{/ { n++ } END { print n }' memory.json)" 1
is "with four rows" "$(grep -c '"op":' memory.json)" 4

model="--model gpt2-char --model.layers=1 --model.width=32 --model.heads=2 --model.vocab=40 --micro-batch 2 --context 16"
expect "gemm" 0 '^  weights ' "$CADRE" bench gemm $model --repeat 3
expect "step" 0 '^  matmul ' "$CADRE" bench step $model --repeat 3
expect "step on two ranks, beside worlds of one" 0 '"of_independent"' "$CADRE" bench step $model --repeat 5 --ranks 2 --independent --json
is "the parts are the step" "$(awk '
    /"parts_ms"/ { inside = 1; next } inside && /}/ { inside = 0 } inside { gsub(/[",:]/, ""); sum += $2 }
    /"step_ms"/ { want = 1 } want && /"median"/ && !step { gsub(/,/, ""); step = $2 }
    END { print (sum > 0.99 * step && sum < 1.01 * step) ? "yes" : sum " of " step }' out)" yes
expect "checkpoint" 0 '"op": "load"' "$CADRE" bench checkpoint $model --repeat 2 --ranks 2 --json
is "two of its four rows are ours" "$(grep -c '"of_limit"' out)" 2
mkdir -p elsewhere && (cd elsewhere && "$CADRE" bench checkpoint $model --repeat 2 >/dev/null)
is "it leaves nothing behind" "$(ls elsewhere | wc -l)" 0
for signal in INT=2 TERM=15 HUP=1; do # while it measures, with files in its folder
    mkdir -p killed && (cd killed && exec "$CADRE" bench checkpoint $model --seconds 60 --ranks 2 >/dev/null 2>&1) &
    pid=$!
    tries=0
    until ls killed/cadre-bench-*/plain-* >/dev/null 2>&1 || [ $tries -gt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
    is "$signal: it has its folder" "$(ls killed | grep -c '^cadre-bench-')" 1
    kill -${signal%=*} $pid
    wait $pid
    is "$signal: and ends with the signal's code" $? $((128 + ${signal#*=}))
    is "$signal: and leaves no folder" "$(ls killed | wc -l)" 0
done
refused "a kind that benches do not measure" 2 'measure models of kind gpt2' "$CADRE" bench step --model.kind=mlp
refused "more than the memory allowed" 6 'train.memory_limit' "$CADRE" bench gemm $model --train.memory_limit=1MiB
refused "an unknown model" 2 'gpt2-124m' "$CADRE" bench step --model gpt2-125m
refused "the reference kernels" 2 'run.device' "$CADRE" bench gemm $model --run.device=ref
refused "a context that the model has not" 2 'context' "$CADRE" bench step $model --model.context=8
finish
