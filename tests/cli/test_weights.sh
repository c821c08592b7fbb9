#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Weights in and out: a model that transformers wrote has the loss that PyTorch gave it, runs start from it, and
# what a run or an export leaves can be started from again. The golden folders are made by tests/golden/hf_gpt2.py.
golden=$(cd "$(dirname "$0")/../golden" && pwd)
. "$(dirname "$0")/lib.sh"

loss() { tr ',' '\n' | sed -n 's/.*"valid_loss": *//p'; }
# near NAME A B: to 1e-5 relative
near() {
    if awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a != "" && b > 0 && d <= 1e-5 * b) }'; then
        pass "$1"
    else
        failure "$1: '$2' is not '$3'"
    fi
}
while read -r name want; do
    near "$name: the loss that PyTorch gives" "$("$CADRE" eval "$golden/$name" --data.valid="$golden/hf_gpt2.bin" --json | loss)" "$want"
done <"$golden/hf_gpt2.txt"
want=$(sed -n 's/^hf_gpt2 //p' "$golden/hf_gpt2.txt")
is "generate from a folder of Hugging Face's" "$("$CADRE" generate "$golden/hf_gpt2" --tokens 6 | wc -w | tr -d ' ')" 6

# A run that hardly moves validates as what it started from, on any number of ranks.
cp -r "$golden/hf_gpt2" start
begin() {
    ranks=$1 name=$2
    shift 2
    "$CADRE" train -q --data.train="$golden/hf_gpt2.bin" --data.valid="$golden/hf_gpt2.bin" --model.from=start --train.batch=2 --ranks "$ranks" --optim.lr=1e-12 \
        --train.steps=2 --optim.warmup_steps=0 --run.name="$name" "$@"
}
for ranks in 1 2; do
    begin $ranks from$ranks >out 2>&1 || failure "starting on $ranks ranks: $(tail -n 1 out)"
    near "$ranks ranks: the loss of the start" "$(sed -n 's/.*"valid_loss": *\([0-9.]*\).*/\1/p' runs/from$ranks/metrics.jsonl | tail -n 1)" "$want"
done
begin 2 half --precision.compute=bf16 >out 2>&1 || failure "starting in bf16: $(tail -n 1 out)"
if awk -v a="$(sed -n 's/.*"valid_loss": *\([0-9.]*\).*/\1/p' runs/half/metrics.jsonl | tail -n 1)" -v b="$want" 'BEGIN { exit !(a > 0.99 * b && a < 1.01 * b) }'; then
    pass "in bf16 nearly"
else
    failure "in bf16: $(tail -n 2 runs/half/metrics.jsonl)"
fi
grep -q '^ *# *layers: 2' runs/from1/settings.yaml && pass "sizes are derived values" || failure "$(grep layers runs/from1/settings.yaml)"
begin 1 short --train.context=4 >out 2>&1
is "a context below the model's" $? 0
grep -q '"n_positions": 8' runs/short/checkpoints/step-00000002/config.json && pass "the model keeps its own" || failure "n_positions"

# Once begun, a run needs its start no more.
mv start gone
begin 2 from2 --train.steps=4 >out 2>&1
is "a resume does not read the start" $? 0
begin 1 never >out 2>&1
is "a new run does" $? 3
mv gone start

# Out of a run of our own: model, tokenizer, weights; as a run folder, as a checkpoint, as an export.
"$CADRE" train -q --data.train=text.txt $small --train.steps=30 --optim.lr=1e-2 --run.name=own >out 2>&1 || failure "$(tail -n 1 out)"
want=$("$CADRE" eval -q runs/own --json | loss)
"$CADRE" checkpoint export -q runs/own --to exported
near "an export evaluates as the run" "$("$CADRE" eval exported --data.valid=text.txt --json | loss)" "$("$CADRE" eval -q runs/own --data.valid=text.txt --json | loss)"
is "an export speaks as the run" "$("$CADRE" generate exported --prompt cat --tokens 9)" "$("$CADRE" generate -q runs/own --prompt cat --tokens 9)"
for from in runs/own runs/own/checkpoints/step-00000030 exported; do
    rm -rf runs/next
    "$CADRE" train -q --data.train=text.txt --model.from=$from --train.batch=4 --optim.lr=1e-12 --train.steps=1 --optim.warmup_steps=0 --run.name=next >out 2>&1 || failure "$from: $(tail -n 1 out)"
    near "start from $from" "$(sed -n 's/.*"valid_loss": *\([0-9.]*\).*/\1/p' runs/next/metrics.jsonl | tail -n 1)" "$want"
    is "step 1 is the first" "$(sed -n 's/.*"step": *\([0-9]*\).*/\1/p' runs/next/metrics.jsonl | head -n 1)" 1
done
# Sizes that no model has are the file's fault, wherever they are read.
cp -r start damaged
for damage in 's/"n_head": 2/"n_head": 5/' 's/"vocab_size": [0-9]*/"vocab_size": 1000000000000000/'; do
    rm damaged/config.json
    sed "$damage" start/config.json >damaged/config.json
    refused "$damage" 3 '^cadre: damaged/config.json: model\.' "$CADRE" plan --model.from=damaged
    expect "$damage: eval" 3 'damaged/config.json: model\.' "$CADRE" eval damaged --data.valid="$golden/hf_gpt2.bin"
done
refused "a preset against the weights" 2 'model.preset=gpt2-124m is given' "$CADRE" plan --model.from=start --model.preset=gpt2-124m

# A feed-forward part of another width than 4 x the model's.
"$CADRE" train -q --data.train=text.txt $small --model.ffn_width=48 --train.steps=2 --run.name=narrow >out 2>&1 || failure "$(tail -n 1 out)"
expect "start from a width of its own" 0 '^step 1' "$CADRE" train --data.train=text.txt --model.from=runs/narrow --train.batch=4 --train.steps=1 --run.name=narrower
grep -q '"n_inner": 48' runs/narrower/checkpoints/step-00000001/config.json && pass "it is kept" || failure "n_inner"
# The tokenizer comes along: a text of fewer characters has the numbers of the old one.
printf 'the cat sat on a mat, and the cat sat on the mat; and the cat sat' >few.txt
"$CADRE" train -q --data.train=few.txt --data.valid_fraction=0 --model.from=runs/own --train.batch=4 --train.steps=1 --run.name=few >out 2>&1 || failure "$(tail -n 1 out)"
cmp -s runs/few/checkpoints/step-00000001/tokenizer.json exported/tokenizer.json && pass "the tokenizer beside the weights is taken" || failure "another tokenizer"
dropout='model.dropout=0.1 is that of the weights'
expect "dropout of the weights is said" 0 "$dropout" "$CADRE" train --data.train="$golden/hf_gpt2.bin" --model.from=start --train.steps=1 --run.name=drops
grep -q 'starting from the weights of start, with their model.dropout=0.1' runs/drops/logs/rank-000.log && pass "in the log too" || failure "$(cat runs/drops/logs/rank-000.log)"
"$CADRE" plan --model.from=start --model.dropout=0 | grep -q "$dropout" && failure "dropout said though given" || pass "not where it is given"
"$CADRE" plan --model.from=runs/own | grep -q 'model.dropout' && failure "dropout said though there is none" || pass "not where there is none"
expect "plan of given weights" 0 '1,928 parameters' "$CADRE" plan --model.from=start
finish
