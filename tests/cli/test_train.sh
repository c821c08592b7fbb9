#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `cadre train`, and what is done with its results: first and second runs, eval, generate, checkpoint.
. "$(dirname "$0")/lib.sh"

train="$CADRE train --data.train=text.txt $small --train.steps=20 --optim.decay_steps=40 --optim.warmup_steps=4 --train.eval_every=10"
folder=runs/text
losses() { sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$1"; }

expect "first run" 0 '^step 20/20 | loss [0-9.]* | valid [0-9.]* | lr' $train --ranks 2
grep -q "^run folder.*$folder" out && pass "it says where" || failure "it does not say where"
grep -q 'generate' out && pass "and how to go on" || failure "it does not say how to go on"
for file in settings.yaml metrics.jsonl logs/rank-000.log logs/rank-001.log checkpoints/step-00000020/MANIFEST.json \
    checkpoints/step-00000020/model.safetensors checkpoints/step-00000020/config.json checkpoints/step-00000020/tokenizer.json; do
    [ -s $folder/$file ] && pass "$file" || failure "$file is missing or empty"
done
ls $folder/events.out.tfevents.* >/dev/null 2>&1 && pass "event file" || failure "no event file"
is "an object a step" "$(grep -c '"loss"' $folder/metrics.jsonl)" 20
is "two evaluations" "$(grep -c '"valid_loss"' $folder/metrics.jsonl)" 2
is "one end" "$(grep -c '"end": *true' $folder/metrics.jsonl)" 1
for key in step time epoch samples tokens loss lr grad_norm step_ms data_ms comm_ms exposed_ms tokens_per_s; do
    sed -n 1p $folder/metrics.jsonl | grep -q "\"$key\":" && pass "metrics: $key" || failure "metrics lack $key"
done
grep -q 'step 20/20' $folder/logs/rank-000.log && pass "rank 0's lines are in its log" || failure "rank 0's log lacks its lines"
grep -q 'rank 1 of 2' $folder/logs/rank-001.log && pass "rank 1 logs its start" || failure "rank 1's log is poor"

cp $folder/metrics.jsonl before.jsonl
expect "again: finished" 0 'finished.*--train.steps=N.*--run.name=NEW' $train --ranks 2
cmp -s before.jsonl $folder/metrics.jsonl && pass "nothing was touched" || failure "the finished run was touched"
expect "more steps go on" 0 'continuing from step 20' $train --ranks 2 --train.steps=40
is "steps 1 to 40, each once" "$(grep '"loss"' $folder/metrics.jsonl | sed 's/.*"step": *\([0-9]*\).*/\1/' | sort -n | uniq | wc -l | tr -d ' ')" 40
is "and no more" "$(grep -c '"loss"' $folder/metrics.jsonl)" 40

expect "the same in one go" 0 '^step 40/40' $train --ranks 2 --train.steps=40 --run.name=whole
cmp -s $folder/checkpoints/step-00000040/model.safetensors runs/whole/checkpoints/step-00000040/model.safetensors &&
    pass "a resumed run has the same bits" || failure "a resumed run has other bits"
losses $folder/metrics.jsonl >a; losses runs/whole/metrics.jsonl >b
cmp -s a b && pass "and the same losses" || failure "the losses differ after a resume"
expect "one rank, half the way" 0 '^step 20/20' $train --ranks 1 --run.name=one
expect "two ranks, the rest" 0 'continuing from step 20' $train --ranks 2 --train.steps=40 --run.name=one
losses runs/one/metrics.jsonl >c
paste b c | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > m) m = d } END { exit !(NR == 40 && m < 1e-4) }' &&
    pass "the losses of 1 and 2 ranks are equal to rounding" || failure "the losses of 1 and 2 ranks differ"
is "4 ranks of 1 sample: first loss" "$($train --ranks 4 --train.steps=1 --run.name=four >/dev/null 2>&1; losses runs/four/metrics.jsonl | cut -c1-6)" "$(head -n 1 b | cut -c1-6)"

refused "other settings are refused" 2 'optim.lr.*6e-4\|optim.lr.*0.0006' $train --train.steps=60 --optim.lr=1e-2
refused "other data are refused" 2 'data.train' $train --train.steps=60 --run.name=text --data.train=lib.txt
expect "never takes the next name" 0 'text-2' $train --checkpoint.resume=never --train.steps=2
[ -d runs/text-2 ] && pass "which is there" || failure "runs/text-2 is missing"
expect "from a path" 0 'text-3' $train --checkpoint.resume=$folder/checkpoints/step-00000020 --train.steps=22
mkdir runs/half
expect "a folder without a checkpoint is left alone" 0 'half-2' $train --run.name=half --train.steps=2
expect "epochs" 0 '^done' $train --train.steps= --train.epochs=0.1 --run.name=epochs
refused "steps and epochs" 2 'give one of them' $train --train.epochs=1 --run.name=both
cp -r $folder runs/cut
truncate -s 500 runs/cut/checkpoints/step-00000040/model.safetensors
expect "a damaged checkpoint is passed over" 0 'step-00000040' $train --run.name=cut --train.steps=41
grep -q 'continuing from step 20' out && pass "for the one before" || failure "not from the one before"

# What is done with it.
expect "eval" 0 'valid [0-9.]* | [0-9.]* bits a byte' "$CADRE" eval $folder
one=$("$CADRE" eval $folder --json 2>/dev/null | sed 's/.*"valid_loss": \([0-9.]*\).*/\1/' | cut -c1-8)
two=$("$CADRE" eval $folder --json --ranks 2 2>/dev/null | sed 's/.*"valid_loss": \([0-9.]*\).*/\1/' | cut -c1-8)
is "eval of 1 and 2 ranks" "$one" "$two"
is "eval agrees with the run" "$(echo "$one" | cut -c1-6)" "$(sed -n 's/.*"valid_loss": *\([0-9.]*\).*/\1/p' $folder/metrics.jsonl | tail -n 1 | cut -c1-6)"
expect "eval of other data" 0 '11999 tokens' "$CADRE" eval $folder --data.valid=text.txt
refused "eval of a character it does not know" 3 'ü\|character' "$CADRE" eval $folder/checkpoints/step-00000040 --data.valid=umlaut.txt
"$CADRE" generate $folder --tokens 50 --seed 3 >a 2>/dev/null
is "generate: exit code" $? 0
"$CADRE" generate $folder --tokens 50 --seed 3 >b 2>/dev/null
cmp -s a b && pass "the same seed says the same" || failure "the same seed says something else"
"$CADRE" generate $folder --tokens 50 --seed 4 >b 2>/dev/null
cmp -s a b && failure "another seed says the same" || pass "another seed says something else"
is "it says 50 characters and a newline" "$(wc -c <a | tr -d ' ')" 51
expect "it goes on from a prompt" 0 '^the cat' "$CADRE" generate $folder --prompt "the cat" --tokens 20 --temperature 0
expect "top-k" 0 '.' "$CADRE" generate $folder --tokens 20 --top-k 2
refused "a character it does not know" 3 'prompt' "$CADRE" generate $folder/checkpoints/step-00000040 --prompt 'ü'
expect "checkpoint show" 0 'step' "$CADRE" checkpoint show $folder
expect "checkpoint show as JSON" 0 '"schema": *1' "$CADRE" checkpoint show $folder --json
expect "checkpoint check" 0 '.' "$CADRE" checkpoint check $folder
expect "checkpoint check says no" 1 'step-00000040' "$CADRE" checkpoint check runs/cut/checkpoints/step-00000040
expect "export" 0 'wrote' "$CADRE" checkpoint export $folder --to weights.safetensors
cmp -s weights.safetensors $folder/checkpoints/step-00000040/model.safetensors && pass "the exported weights are the checkpoint's" || failure "the exported weights differ"
expect "export of a folder" 0 'wrote' "$CADRE" checkpoint export $folder --to model
[ -s model/config.json ] && [ -s model/tokenizer.json ] && pass "a whole model" || failure "not a whole model"
printf 'x' >>runs/text-2/checkpoints/step-00000002/model.safetensors
refused "generate from a damaged one" 3 'model.safetensors' "$CADRE" generate runs/text-2/checkpoints/step-00000002
if command -v python3 >/dev/null; then
    python3 -c 'import json,sys
for line in open(sys.argv[1]): json.loads(line)' $folder/metrics.jsonl && pass "metrics are JSON" || failure "metrics are no JSON"
    for words in "eval $folder --json" "checkpoint show $folder --json" "checkpoint check $folder --json"; do
        "$CADRE" $words 2>/dev/null | python3 -m json.tool >/dev/null 2>&1
        is "$words: one JSON document" $? 0
    done
else
    skipped "JSON documents" "no python3"
fi
expect "eval of another model" 2 'does not look at model.heads' "$CADRE" eval $folder --model.heads=4
"$CADRE" train --data.train=text.txt $small --run.name=judged --train.steps=4 --train.eval_every=2 --checkpoint.every=1 -q
"$CADRE" checkpoint show runs/judged/checkpoints/step-00000003 | grep -q '^validation' && failure "a loss of other weights in a checkpoint" || pass "a checkpoint that was not evaluated carries no loss"
"$CADRE" checkpoint show runs/judged/checkpoints/step-00000002 | grep -q '^validation' && pass "an evaluated one does" || failure "an evaluated checkpoint carries no loss"
[ -e runs/judged/checkpoints/step-00000001 ] && failure "more than checkpoint.keep are kept" || pass "checkpoint.keep counts in a run"
expect "the time of a checkpoint comes" 0 'saved runs/timed/checkpoints/step-0000000' "$CADRE" train --data.train=text.txt $small --run.name=timed --train.steps=400 --train.eval_every=400 --checkpoint.every=1ms
say() { "$CADRE" generate $folder --tokens 60 "$@" 2>/dev/null; }
is "temperature 0 does not look at the seed" "$(say --temperature 0 --seed 3)" "$(say --temperature 0 --seed 4)"
is "the best one alone is what temperature 0 takes" "$(say --top-k 1 --seed 5)" "$(say --temperature 0)"
cp text.txt changing.txt
expect "a run on a text" 0 '^done' "$CADRE" train --data.train=changing.txt $small --run.name=changing --train.steps=2
printf 'more words\n' >>changing.txt
expect "is not continued on another text of that name" 2 'was trained on other data' "$CADRE" train --data.train=changing.txt $small --run.name=changing --train.steps=4
rate() { sed -n '1s/.*"lr": *\([0-9.e-]*\).*/\1/p' runs/$1/metrics.jsonl; }
"$CADRE" train --data.train=text.txt $small --run.name=plain --train.steps=1 --optim.lr=1e-3 --optim.schedule=constant --optim.warmup_steps=0 -q
"$CADRE" train --data.train=text.txt $small --run.name=scaled --train.steps=1 --optim.lr=1e-3 --optim.schedule=constant --optim.warmup_steps=0 --optim.scale_lr=linear --optim.base_batch=2 -q
is "the learning rate is scaled with the batch" "$(rate scaled)" "$(awk "BEGIN { printf \"%.17g\", 2 * $(rate plain) }")"
finish
