#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `cadre run`: other programs on ranks; their output, their ends.
. "$(dirname "$0")/lib.sh"

cat >say.sh <<'E'
echo "rank $CADRE_RANK of $CADRE_WORLD_SIZE"
printf 'no end of line' >&2
E
expect "rank 0 speaks plainly" 0 '^rank 0 of 3$' "$CADRE" run --ranks 3 -- sh say.sh
is "the others have their number in front" "$(grep '^\[2\] rank' out)" "[2] rank 2 of 3"
is "an unfinished line is finished" "$(grep -c '^\[1\] no end of line$' out)" 1
is "a line of each rank and stream" "$(wc -l <out | tr -d ' ')" 6

printf 'i=0; while [ $i -lt 200 ]; do echo "line $i of a rank that says much"; i=$((i + 1)); done\n' >much.sh
"$CADRE" run --ranks 4 -- sh much.sh >much.txt 2>&1
is "lines never interleave" "$(grep -cv '^\(\[[123]\] \)\{0,1\}line [0-9]* of a rank that says much$' much.txt)" 0
is "no line is lost" "$(wc -l <much.txt | tr -d ' ')" 800

printf '[ "$CADRE_RANK" = 1 ] && exit 7; sleep 30\n' >fail.sh
start=$(date +%s)
expect "a rank that fails ends the others" 7 'rank 1 of 3 ended with exit code 7' "$CADRE" run --ranks 3 -- sh fail.sh
[ $(($(date +%s) - start)) -le 6 ] && pass "within seconds" || failure "it took too long"

printf '[ "$CADRE_RANK" = 1 ] && kill -9 $$; sleep 30\n' >die.sh
expect "a rank that is killed" 4 'rank 1 of 2 was ended by SIGKILL' "$CADRE" run --ranks 2 -- sh die.sh
printf 'exec sleep 30\n' >wait.sh
"$CADRE" run --ranks 2 -- sh wait.sh &
pid=$!
sleep 0.5
kill -TERM $pid
start=$(date +%s)
wait $pid
is "SIGTERM reaches the program" $? 143
[ $(($(date +%s) - start)) -le 6 ] && pass "at once" || failure "it took too long"
expect "one rank" 0 '^rank 0 of 1$' "$CADRE" run -- sh say.sh
expect "words that look like options belong to the program" 0 '^--ranks 5$' "$CADRE" run -- echo --ranks 5
finish
