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
finish
