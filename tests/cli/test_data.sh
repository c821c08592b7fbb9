#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# data pack and show: from text to a token file, from there to a run whose checkpoint has the tokenizer.
. "$(dirname "$0")/lib.sh"

cat text.txt lib.txt umlaut.txt >joined.txt
bytes=$(wc -c <joined.txt | tr -d ' ')
expect "pack three texts" 0 "packed .* into $bytes tokens" "$CADRE" data pack --tokenizer byte --out both.bin text.txt lib.txt umlaut.txt
is "both files are there" "$(ls both.*)" "both.bin
both.tokenizer.json"
expect "pack them joined" 0 'packed' "$CADRE" data pack --tokenizer byte --out joined.bin joined.txt
cmp -s both.bin joined.bin && pass "the same bits" || failure "joined texts are other tokens"
is "size" "$(wc -c <both.bin | tr -d ' ')" $((1024 + 2 * bytes))
tail -c +1025 both.bin >ids
expect "show" 0 "sha256  *$(sha256sum ids | cut -d' ' -f1)" "$CADRE" data show both.bin
expect "show as JSON" 0 "\"tokens\": $bytes" "$CADRE" data show both.bin --json
"$CADRE" data pack --json --tokenizer byte --out joined.bin joined.txt >pack.json 2>/dev/null
is "pack as JSON: the document of show" "$(cat pack.json)" "$("$CADRE" data show --json joined.bin)"
is "quiet" "$("$CADRE" data pack -q --tokenizer char --out quiet.bin text.txt 2>&1)" ""

train() { "$CADRE" train -q --data.train="$1" $small --train.steps=4 --checkpoint.every=4 --data.valid_fraction=0 --data.tokenizer="$2" --run.name="$3"; }
expect "pack by characters" 0 'packed' "$CADRE" data pack --tokenizer char --out chars.bin text.txt
train chars.bin char packed >out 2>&1
is "train on the tokens" $? 0
train text.txt char plain >out 2>&1
is "train on the text" $? 0
for file in model.safetensors tokenizer.json config.json; do
    cmp -s runs/packed/checkpoints/step-00000004/$file runs/plain/checkpoints/step-00000004/$file &&
        pass "the same $file" || failure "$file differs between tokens and text"
done
expect "and it speaks" 0 'she' "$CADRE" generate runs/packed --prompt "she" --tokens 4
mkfifo pipe
refused "nothing but a file is replaced" 2 'no regular file' $CADRE data pack --tokenizer byte --out pipe text.txt
[ -p pipe ] && pass "the pipe is still one" || failure "the pipe was replaced"
finish
