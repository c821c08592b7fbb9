#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench/peers/side_by_side.py: with stand-ins for both sides, with Cadre alone, with PyTorch.
peers=$(cd "$(dirname "$0")/../../bench/peers" && pwd)
. "$(dirname "$0")/lib.sh"
if ! command -v python3 >/dev/null; then
    skipped "side by side" "no python3"
    finish
fi
side() { python3 "$peers/side_by_side.py" --cadre "$CADRE" "$@"; }

refused_by_side() {
    expect "$1" 2 "$2" side --configs smoke $3
}
refused_by_side "an unknown configuration" 'large is not one of 124m, small' "--configs large"
refused_by_side "a layout that is none" '2by1 is not RANKSxTHREADS' "--layouts 2by1"
refused_by_side "ranks that do not divide the batch" '3 ranks do not divide the batch of 4' "--layouts 3x1"
refused_by_side "no round" 'rounds is at least 1' "--rounds 0"

# A python without torch: said with the way to get it, and Cadre is measured alone.
printf '#!/bin/sh\nexit 1\n' >no-torch
chmod +x no-torch
once="--configs smoke --dtypes f32 --rounds 1"
expect "without torch" 0 'not installed.*pip install torch' side $once --layouts 1x1,2x1 --python ./no-torch
is "Cadre alone: its rows" "$(grep -c '[12] x 1  cadre  ' out)" 2
is "Cadre alone: no ratio" "$(grep -c 'cadre = ' out)" 0
expect "nobody here" 1 'there is no ./nothing' side --configs smoke --rounds 1 --python ./no-torch --cadre ./nothing

# Stand-ins: Cadre's step takes 2 ms (4 in the warm-up), PyTorch's 5 and then 6 ms; 64 tokens a step.
cat >fake-cadre <<'END'
#!/bin/sh
for word in "$@"; do
    case $word in --run.dir=*) dir=${word#*=} ;; --train.steps=*) steps=${word#*=} ;; esac
done
mkdir -p "$dir/bench"
i=0
while [ $i -lt "$steps" ]; do
    [ $i = 0 ] && ms=4 || ms=2
    echo "{\"step_ms\": $ms}"
    i=$((i + 1))
done >"$dir/bench/metrics.jsonl"
END
cat >fake-python <<'END'
#!/bin/sh
if [ "$1" = -c ]; then echo "9.9 /nowhere"; exit 0; fi
case $2 in *'"dtype": "bf16"'*) echo "no bf16 here" >&2; exit 3 ;; esac
echo x >>count
[ "$(wc -l <count)" -le 2 ] && ms=5 || ms=6
echo "{\"step_ms\": [$ms, 1000, 0.1]}"
END
chmod +x fake-cadre fake-python
side --cadre ./fake-cadre --python ./fake-python --configs smoke --layouts 1x1 --rounds 2 --json >both.json 2>err
is "stand-ins: exit code" $? 0
expect "stand-ins: one JSON document" 0 'schema' python3 -m json.tool both.json
cat >check.py <<'END'
import json
d = json.load(open("both.json"))
row = {(r["who"], r["dtype"]): r for r in d["rows"]}
print("cadre", row["cadre", "f32"]["tokens_per_s"]["median"], row["cadre", "f32"]["step_ms"]["max"])
t = row["torch-eager", "f32"]["step_ms"]
print("torch", t["min"], t["median"], t["max"])
for q in d["ratios"]:
    x = q["tokens_per_s_ratio"]
    print(q["dtype"], q["layout"], q["peer"], *("%.2f" % x[k] for k in ("median", "min", "max")))
print("rows", len(d["rows"]))
END
python3 check.py >answers
# Medians of 5 and 6 ms: tokens/s 12,800 and 10,667, their median 11,733; Cadre's 32,000.
is "stand-ins: the numbers" "$(tr '\n' ';' <answers)" \
    "cadre 32000.0 2;torch 5 5.5 6;f32 1x1 torch-eager 2.73 2.50 3.00;f32 best torch-eager 2.73 2.50 3.00;rows 3;"
is "a contender that fails is named once" "$(grep -c 'torch-eager smoke bf16 1x1: left out: exit code 3: no bf16 here' both.json)" 1
is "what torch.compile needs is said" "$(grep -c 'torch-compiled: torch.compile needs .*apt-get install' both.json)" 1

if python3 -c 'import torch' 2>/dev/null; then
    expect "with PyTorch" 0 'best layout of each: cadre = ' side $once --layouts 1x2,2x1 --who cadre,torch-eager
    is "with PyTorch: both in both layouts" "$(grep -c 'x [12]  [ct]' out)" 4
else
    skipped "with PyTorch" "python3 here has no torch"
fi
finish
