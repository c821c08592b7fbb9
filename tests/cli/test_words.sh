#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Verbs, options and what is said about wrong ones; no training.
. "$(dirname "$0")/lib.sh"

expect "no word at all" 2 'cadre train --data.train' "$CADRE"
is "three examples" "$("$CADRE" 2>&1 | grep -c '^  cadre ')" 3
expect "version" 0 '^cadre 0\.1\.0$' "$CADRE" --version
expect "help" 0 '^verbs:' "$CADRE" help
for verb in train eval generate plan bench run checkpoint data settings help; do
    "$CADRE" "$verb" --help >help.txt 2>&1
    is "$verb --help: exit code" $? 0
    is "$verb --help: opens with two examples" "$(sed -n '1p;2,3s/^  cadre '"$verb"'.*/example/p' help.txt | tr '\n' ' ')" "examples: example example "
    is "help $verb: the same" "$("$CADRE" help "$verb")" "$(cat help.txt)"
done
refused "unknown verb" 2 'did you mean train' "$CADRE" trian
refused "unknown verb, nothing near" 2 'unknown verb' "$CADRE" zzzzzzzzzzz
refused "help of an unknown verb" 2 'did you mean plan' "$CADRE" help pla
for verb in verify runs report doctor; do refused "$verb is reserved" 2 'not built yet' "$CADRE" "$verb"; done

refused "nothing to train on" 2 'cadre train --data.train=FILE' "$CADRE" train
refused "a text in place of a run file" 2 'data.train=text.txt' "$CADRE" train text.txt
refused "a run file that is not there" 2 'none.yaml' "$CADRE" train none.yaml
refused "unknown setting" 2 'optim.warmup_steps' "$CADRE" train --optim.warmup=3
refused "unknown option" 2 'did you mean --ranks' "$CADRE" train --rank=2
refused "a setting without a value" 2 'takes a value' "$CADRE" train --optim.lr
refused "a value of the wrong kind" 2 'optim.lr=fast' "$CADRE" train --data.train=text.txt --optim.lr=fast
refused "no number of ranks" 2 'ranks' "$CADRE" train --data.train=text.txt --ranks 0
refused "two words" 2 'does not know' "$CADRE" train a.yaml b.yaml
refused "a setting that is not built" 2 'parallel.zero=1' "$CADRE" train --data.train=text.txt --parallel.zero=1
printf 'train:\n  steps: 5\n  stepz: 6\n' >bad.yaml
refused "unknown key of a run file, with its line" 2 'bad.yaml.*3.*train.steps' "$CADRE" train bad.yaml
printf 'train:\n  steps: 5\noptim:\n  lr: 1e-3\ndata:\n  train: text.txt\n' >good.yaml

refused "generate without a checkpoint" 2 'generate takes' "$CADRE" generate
refused "generate from nowhere" 3 'nowhere' "$CADRE" generate nowhere
refused "generate with a bad number" 2 'temperature' "$CADRE" generate x --temperature warm
refused "eval without a checkpoint" 2 'eval takes' "$CADRE" eval
refused "eval of nowhere" 3 'nowhere' "$CADRE" eval nowhere
refused "checkpoint without an action" 2 'show, check or export' "$CADRE" checkpoint
refused "checkpoint of nowhere" 3 'nowhere' "$CADRE" checkpoint show nowhere
refused "checkpoint check of nowhere" 3 'nowhere' "$CADRE" checkpoint check nowhere
refused "export without a target" 2 'takes --to' "$CADRE" checkpoint export nowhere
refused "data without an action" 2 'pack or show' "$CADRE" data
refused "data pack without a tokenizer" 2 'takes --tokenizer' "$CADRE" data pack text.txt --out x.bin
refused "data pack without a target" 2 'takes --out' "$CADRE" data pack text.txt --tokenizer byte
refused "data pack of nothing" 2 'takes texts' "$CADRE" data pack --tokenizer byte --out x.bin
refused "data show of nothing" 2 'one token file' "$CADRE" data show
refused "data show with a target" 2 'belong to data pack' "$CADRE" data show text.txt --out x.bin
refused "data show of numbers of no kind" 2 'uint16 or uint32' "$CADRE" data show x.bin --dtype int8
refused "unknown bench" 2 'allreduce' "$CADRE" bench allreduc
refused "unknown bench, nothing near" 2 'there are allreduce, memory' "$CADRE" bench zzzzzzzzzzz
refused "run without a program" 2 'program after --' "$CADRE" run --ranks 2
refused "run of no program" 2 'no-such-program' "$CADRE" run -- ./no-such-program

expect "settings" 0 '^optim.lr' "$CADRE" settings optim
refused "settings of nothing" 2 'optin' "$CADRE" settings optin
expect "settings as JSON" 0 '"schema": *1' "$CADRE" settings --json
expect "man page" 0 '^\.TH' "$CADRE" man
expect "completion" 0 'complete ' "$CADRE" completion

expect "plan without data" 0 'vocabulary of 256' "$CADRE" plan --ranks 2
expect "plan of a run file" 0 'batch' "$CADRE" plan good.yaml
expect "plan as JSON" 0 '"bytes_per_rank"' "$CADRE" plan --json --model.preset=gpt2-124m --model.vocab=50257
# 13 billion parameters are 48 GiB: a plan has to do without them, in less than a second.
parameters() { tr -d ' \n' <"$1" | grep -o '"parameters":[0-9]*' | head -n 1 | cut -d: -f2; }
for row in gpt2-1.5b:1557611200 gpt2-xl:1557611200 gpt2-13b:12853386240; do
    preset=${row%:*}
    (ulimit -v 1000000; exec timeout 1 "$CADRE" plan --json --model.preset="$preset") >plan.json 2>&1
    is "plan of $preset in a second and 1 GB" $? 0
    is "plan of $preset counts its parameters" "$(parameters plan.json)" "${row#*:}"
    for key in gradients optimizer activations buckets loader workspace other total flops_per_step traffic; do
        grep -q "\"$key\": *[1-9{0]" plan.json || failure "plan of $preset: no $key"
    done
done
is "plan counts GPT-2's parameters" "$("$CADRE" plan --json --model.preset=gpt2-124m --model.vocab=50257 | tr -d ' \n' | grep -o '"parameters":[0-9]*' | head -n 1 | cut -d: -f2)" 124439808
refused "plan of a layout that cannot be" 2 'nearest' "$CADRE" plan --ranks 5
refused "plan --timeline" 2 'not built yet' "$CADRE" plan --timeline
if command -v python3 >/dev/null; then
    for words in "settings --json" "plan --json --ranks 2" "settings comm --json"; do
        "$CADRE" $words 2>/dev/null | python3 -m json.tool >/dev/null 2>&1
        is "$words: one JSON document" $? 0
    done
else
    skipped "JSON documents" "no python3"
fi
finish
