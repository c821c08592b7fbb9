#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The plan against the measured peak, for GPT-2 124M in five configurations: within 3 % in total, and every category that
# base/alloc counts within 1 % of the plan's total. About two minutes and 5 GiB of memory.
. "$(dirname "$0")/lib.sh"

seq 1 200000 | head -c 600000 >tokens # any bytes are tokens below the vocabulary when read two by two

# held NAME SETTINGS...: trains two steps and an evaluation, and compares.
held() {
    name=$1
    shift
    rm -rf runs
    "$CADRE" train --data.train=tokens --data.valid=tokens --data.format=tokens --model.preset=gpt2-124m \
        --model.vocab=50257 --train.steps=2 --train.eval_samples=4 --run.name=m "$@" >out 2>err ||
        { failure "$name: $(cat err)"; return; }
    grep '^memory.*planned' out | sed "s/^/# $name: /"
    tail -n 1 runs/m/metrics.jsonl | tr -d '{}' | tr ',:' '\n\n' | tr -d ' "' >words
    awk -v name="$name" '
        function off(a, b) { return a > b ? a - b : b - a }
        at == "peak_measured_bytes" { measured = $1 }
        at == "peak_predicted_bytes" { planned = $1 }
        $1 == "measured_bytes" { side = 1 }
        $1 == "predicted_bytes" { side = 2 }
        side && $1 ~ /^[0-9]+$/ { bytes[side, at] = $1; names[at] = 1 }
        { at = $1 }
        END {
            if (!(measured > 0 && off(measured, planned) <= 0.03 * planned))
                bad = bad sprintf("; planned %d, measured %d", planned, measured)
            for (n in names)
                if (n != "other" && off(bytes[1, n], bytes[2, n]) > 0.01 * planned)
                    bad = bad sprintf("; %s planned %d, measured %d", n, bytes[2, n], bytes[1, n])
            print substr(bad, 3)
        }' words >verdict
    if [ -s verdict ] && grep -q . verdict; then failure "$name: $(cat verdict)"; else pass "$name: the plan holds"; fi
}

held "f32, 4 x 256" --train.batch=4 --train.context=256
held "f32, 1 x 1024" --train.batch=1 --train.context=1024
held "f32, 4 x 256, blocks computed again, 2 ranks" --train.batch=8 --train.context=256 --train.recompute=block --ranks 2
held "bf16, 4 x 256" --train.batch=4 --train.context=256 --precision.compute=bf16
held "bf16, 2 x 1024, blocks computed again" --train.batch=2 --train.context=1024 --precision.compute=bf16 --train.recompute=block
rm -rf runs
finish
