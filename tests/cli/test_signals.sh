#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Signals: a run stops by agreement and can go on; whoever dies takes nobody's processes with him and leaves none.
. "$(dirname "$0")/lib.sh"

shm_before=$(ls /dev/shm 2>/dev/null | wc -l)
start() { # NAME: a run that would last for minutes, with its first steps done
    "$CADRE" train --data.train=text.txt $small --train.steps=100000000 --train.eval_every=0 --ranks 2 --run.name="$1" >"$1.out" 2>"$1.err" &
    pid=$!
    tries=0
    lines=$(cat "runs/$1/metrics.jsonl" 2>/dev/null | wc -l)
    until [ "$(cat "runs/$1/metrics.jsonl" 2>/dev/null | wc -l)" -gt "$lines" ] || [ $tries -gt 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    begin=$(date +%s)
    ranks=$(pgrep -P $pid | tr '\n' ' ')
}
ended() { # NAME CODE: of the supervisor, and within five seconds
    wait $pid
    is "$1: exit code" $? "$2"
    took=$(($(date +%s) - begin))
    [ $took -le 5 ] && pass "$1: within 5 s" || failure "$1: took $took s"
}
gone() { # NAME: no rank is left
    tries=0
    while kill -0 $ranks 2>/dev/null && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
    left=""
    for r in $ranks; do kill -0 "$r" 2>/dev/null && left="$left $r"; done
    is "$1: no process is left" "$left" ""
}
saved() { ls runs/"$1"/checkpoints/step-*/MANIFEST.json >/dev/null 2>&1 && pass "$1: saved" || failure "$1: nothing saved"; }
reason() { grep -q "\"reason\": *\"$2\"" runs/"$1"/metrics.jsonl && pass "$1: reason $2" || failure "$1: no reason $2"; }

for signal in TERM USR1; do
    name=$(echo sig$signal | tr 'A-Z' 'a-z')
    start $name
    is "$name: two ranks" "$(echo $ranks | wc -w | tr -d ' ')" 2
    kill -$signal $pid
    ended $name 75
    gone $name
    saved $name
    reason $name $name
done
start other
kill -TERM $pid
wait $pid
"$CADRE" train --data.train=text.txt $small --train.steps=100000000 --train.eval_every=0 --ranks 3 --train.micro_batch=4 --train.batch=12 --run.name=other >/dev/null 2>other.err
is "another batch is refused" $? 2
grep -q 'train.batch' other.err && pass "by name" || failure "not by name"

start busy
kill -USR1 $pid
wait $pid
start busy
refused "a folder in use" 2 'another run' "$CADRE" train --data.train=text.txt $small --train.steps=100000001 --train.eval_every=0 --ranks 2 --run.name=busy
kill -TERM $pid
wait $pid

start number
kill -TERM "${ranks%% *}"
ended "SIGTERM to one rank alone" 75
gone number
saved number

start ctrlc
kill -INT $pid
ended ctrlc 130
gone ctrlc
saved ctrlc
reason ctrlc sigint
step=$(ls runs/ctrlc/checkpoints | sed -n 's/step-0*//p' | tail -n 1)
expect "it goes on from there" 0 "continuing from step $step" "$CADRE" train --data.train=text.txt $small --train.steps=$((step + 3)) --train.eval_every=0 --ranks 2 --run.name=ctrlc

start twice
kill -STOP $ranks
kill -INT $pid
sleep 0.3
kill -INT $pid
ended "a second Ctrl-C" 130
gone twice

start killed
set -- $ranks
kill -9 "$2"
ended "kill -9 of a rank" 4
gone killed
is "one report" "$(grep -c '^cadre: ' killed.err)" 1
grep -q 'rank 1 of 2 was ended by SIGKILL' killed.err && pass "naming rank and signal" || failure "the report: $(cat killed.err)"

start orphan
kill -9 $pid
wait $pid 2>/dev/null
is "kill -9 of the supervisor: its status" $? 137
gone orphan
took=$(($(date +%s) - begin))
[ $took -le 5 ] && pass "orphan: within 5 s" || failure "orphan: took $took s"
for rank in 000 001; do
    grep -q 'supervisor is gone' runs/orphan/logs/rank-$rank.log && pass "orphan: rank $rank says why" || failure "orphan: rank $rank does not say why"
done

"$CADRE" train --data.train=text.txt $small --train.steps=100000000 --ranks 2 --run.name=zero --run.exit_on_signal=0 >/dev/null 2>&1 &
pid=$!
until [ -s runs/zero/metrics.jsonl ]; do sleep 0.1; done
kill -TERM $pid
wait $pid
is "run.exit_on_signal=0" $? 0
is "nothing is left in /dev/shm" "$(ls /dev/shm 2>/dev/null | wc -l)" "$shm_before"
finish
