#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nanoGPT's recipe for CPUs on Tiny Shakespeare (examples/shakespeare.yaml): validation loss over the whole split.
. "$(dirname "$0")/lib.sh"

tree=$(dirname "$0")/../..
case $tree in /*) ;; *) tree=$OLDPWD/$tree ;; esac
text=$tree/../shared/data/text/tinyshakespeare.txt
if [ ! -r "$text" ]; then
    skipped "the recipe" "no $text"
    finish
fi
for seed in 1 2 3; do
    expect "2 ranks, seed $seed" 0 '^done' "$CADRE" train "$tree/examples/shakespeare.yaml" --data.train="$text" --ranks 2 --train.seed=$seed --run.name=r$seed
    sed -n 's/.*"valid_loss": *\([0-9.]*\).*/\1/p' runs/r$seed/metrics.jsonl | tail -n 1 >>losses
done
mean=$(awk '{ s += $1 } END { printf "%.4f", s / NR }' losses)
awk -v m="$mean" 'BEGIN { exit !(m > 1 && m <= 1.90) }' && pass "mean validation loss $mean <= 1.90" || failure "mean validation loss $mean"
expect "bf16, seed 1" 0 '^done' "$CADRE" train "$tree/examples/shakespeare.yaml" --data.train="$text" --ranks 2 --train.seed=1 --run.name=bf16 --precision.compute=bf16
narrow=$(sed -n 's/.*"valid_loss": *\([0-9.]*\).*/\1/p' runs/bf16/metrics.jsonl | tail -n 1)
awk -v a="$narrow" -v b="$(head -n 1 losses)" 'BEGIN { d = a - b; exit !(a > 1 && d < 0.02 && d > -0.02) }' &&
    pass "bf16 reaches $narrow, f32 $(head -n 1 losses)" || failure "bf16 reaches $narrow, f32 $(head -n 1 losses)"
finish
