#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Bad input: each with one sentence and the exit code of its class, and nothing left behind.
golden=$(cd "$(dirname "$0")/../golden" && pwd)
. "$(dirname "$0")/lib.sh"

train() { file=$1; shift; "$CADRE" train --data.train="$file" $small --train.steps=2 --ranks 2 "$@"; }
: >empty.txt
printf 'short' >short.txt
printf 'a text that is good for a while, longer than its context, and then \377\376 is not\n' >invalid.txt
refused "missing file" 3 'missing.txt' train missing.txt
refused "empty file" 3 'empty.txt' train empty.txt
refused "text shorter than the context" 3 'context' train short.txt --data.valid_fraction=0
refused "validation part too small" 3 'valid' train short.txt --model.context=2 --train.context=2
refused "invalid UTF-8 with char" 3 'invalid.txt.*67' train invalid.txt
expect "which byte takes" 0 '^done' train invalid.txt --data.tokenizer=byte --run.name=bytes
refused "heads not dividing width" 2 'heads' train text.txt --model.heads=3
refused "batch not dividing" 2 'nearest' train text.txt --train.batch=5
refused "micro-batch not dividing" 2 'micro_batch' train text.txt --train.batch=6 --train.micro_batch=2
refused "context beyond the model" 2 'model.context' train text.txt --train.context=17
refused "valid twice" 2 'give one of them' train text.txt --data.valid=text.txt --data.valid_fraction=0.1
printf '\001\000\002\000\377\000' >tokens.bin
i=0; while [ $i -lt 8 ]; do cat tokens.bin tokens.bin >more.bin; mv more.bin tokens.bin; i=$((i + 1)); done
refused "token out of range" 3 'out of range' train tokens.bin --model.vocab=100
refused "no tokenizer there" 3 'none.json' train text.txt --data.tokenizer=none.json
refused "packing what is not there" 3 'missing.txt' "$CADRE" data pack --tokenizer byte --out x.bin missing.txt
refused "packing with no tokenizer there" 3 'none.json' "$CADRE" data pack --tokenizer none.json --out x.bin text.txt
refused "packing tokens" 3 'token file already' "$CADRE" data pack --tokenizer byte --out x.bin tokens.bin
refused "packing onto the text" 2 'one of the texts' "$CADRE" data pack --tokenizer byte --out text.txt text.txt
refused "packing invalid UTF-8 with char" 3 'invalid.txt.*67' "$CADRE" data pack --tokenizer char --out x.bin invalid.txt
refused "packing into a folder that is not there" 6 'no/x.bin' "$CADRE" data pack --tokenizer byte --out no/x.bin text.txt
[ ! -e x.bin ] && [ ! -e x.tokenizer.json ] && pass "no tokens are left of a packing that failed" || failure "files are left: $(ls)"
refused "showing text as tokens" 3 'is no token file' "$CADRE" data show text.txt
refused "weights that are not there" 3 'none' train text.txt --model.from=none --data.tokenizer=byte
refused "weights in a folder of something else" 3 'holds no checkpoint' "$CADRE" plan --model.from=.
refused "weights of other characters" 2 'characters, the weights of model.from' "$CADRE" train --data.train=text.txt --model.from="$golden/hf_gpt2"
refused "tokens that the weights do not know" 3 'out of range of model.vocab=13' "$CADRE" train --data.train=tokens.bin --model.from="$golden/hf_gpt2"
refused "weights of another width" 2 'model.width=64 is given, but .* have 8' "$CADRE" plan --model.from="$golden/hf_gpt2" --model.width=64
refused "weights of another preset" 2 'model.layers=12' "$CADRE" plan --model.from="$golden/hf_gpt2" --model.preset=gpt2
cp -r "$golden/hf_gpt2" bent && sed 's/"n_embd": 8/"n_embd": 16/' "$golden/hf_gpt2/config.json" >bent/config.json
refused "weights of another shape than their config" 3 "bent/model.safetensors: tensor 'transformer.wte.weight' has shape" "$CADRE" eval bent --data.valid="$golden/hf_gpt2.bin"
sed 's/"n_layer": 2/"n_layer": 3/' "$golden/hf_gpt2/config.json" >bent/config.json
refused "weights with a layer missing" 3 "bent has no tensor 'transformer.h.2" "$CADRE" generate bent
sed 's/"n_layer": 2/"n_layer": 1/' "$golden/hf_gpt2/config.json" >bent/config.json
refused "weights with a layer too many" 3 "'transformer.h.1[^']*' belongs to no part" "$CADRE" eval bent --data.valid="$golden/hf_gpt2.bin"
head -c 5000 "$golden/hf_gpt2/model.safetensors" >bent/model.safetensors
refused "weights cut short" 3 'bent/model.safetensors.*truncated' "$CADRE" generate bent
rm bent/model.safetensors
refused "no weights" 3 'neither model.safetensors nor' "$CADRE" generate bent
refused "learning rate to be given" 2 'optim.lr' train text.txt --optim.kind=sgd
refused "a model that is not built" 2 'llama' train text.txt --model.kind=llama
[ ! -d runs/missing ] && [ ! -d runs/empty ] && [ ! -d runs/invalid ] && pass "no folder is left of a run that never began" ||
    failure "folders are left: $(ls runs)"
if [ "$(id -u)" != 0 ]; then
    mkdir locked; chmod 555 locked
    refused "unwritable folder" 6 'locked' train text.txt --run.dir=locked/runs
else
    refused "unwritable folder" 6 'Not a directory\|proc' train text.txt --run.dir=/proc/runs
fi
refused "numbers that run away" 5 'step [0-9]*: .* not finite on rank' train text.txt --train.steps=50 --optim.lr=1e6 --optim.warmup_steps=0 --optim.clip=0 --run.name=away -q
expect "steps left out" 0 'not finite: no update' train text.txt --train.steps=50 --optim.lr=1e6 --optim.warmup_steps=0 --optim.clip=0 --run.name=skip --optim.nonfinite=skip
printf 'x' >file
refused "a folder that is a file" 6 'file' train text.txt --run.dir=file
refused "a program behind -- of train" 2 'takes no program' "$CADRE" train --data.train=text.txt -- echo x
refused "a kind of model that is not built" 2 'not built yet' "$CADRE" train --data.train=text.txt --model.kind=cnn
mkfifo pipe
refused "a pipe for a file" 3 'no regular file' timeout 20 "$CADRE" train --data.train=pipe
refused "steps of a trace that are none" 2 'run.trace' "$CADRE" train --data.train=text.txt --run.trace=x --run.name=untraced
[ -e runs/untraced ] && failure "a refused run leaves a folder" || pass "a refused run leaves no folder"
refused "more memory than the machine has" 6 'the plan needs' "$CADRE" train --data.train=text.txt --train.batch=100000000 --run.name=large
finish
