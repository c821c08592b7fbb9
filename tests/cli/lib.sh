# SPDX-License-Identifier: Apache-2.0
# What the tests of the command share: TAP, a folder of their own, a small text, a small model.
#   CADRE is the command's path; each test file sources this one and ends with `finish`.
: "${CADRE:?CADRE is the path of the command}"
case $CADRE in /*) ;; *) CADRE=$(pwd)/$CADRE ;; esac
tests=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

pass() { tests=$((tests + 1)); echo "ok $tests - $1"; }
failure() { tests=$((tests + 1)); echo "not ok $tests - $1"; failed=1; }
skipped() { tests=$((tests + 1)); echo "ok $tests - $1 # SKIP $2"; }
finish() { echo "1..$tests"; exit ${failed:-0}; }

# expect NAME CODE PATTERN COMMAND...   exit code, and a line of its output (both streams) that matches
expect() {
    name=$1 code=$2 pattern=$3
    shift 3
    "$@" >"$work/out" 2>&1 </dev/null
    rc=$?
    if [ "$rc" != "$code" ]; then
        failure "$name: exit code $rc, not $code"
        sed 's/^/# /' "$work/out" | tail -n 12
    elif ! grep -q -e "$pattern" "$work/out"; then
        failure "$name: no line matches '$pattern'"
        sed 's/^/# /' "$work/out" | tail -n 12
    else
        pass "$name"
    fi
}
# refused NAME CODE PATTERN COMMAND...   as expect, and it says exactly one line
refused() {
    expect "$@"
    if [ "$(wc -l <"$work/out")" -eq 1 ] && grep -q '^cadre: ' "$work/out"; then
        pass "$1: one sentence"
    else
        failure "$1: not one sentence"
        sed 's/^/# /' "$work/out" | tail -n 12
    fi
}
# is NAME A B
is() {
    if [ "$2" = "$3" ]; then pass "$1"; else failure "$1: '$2' is not '$3'"; fi
}

# 12,000 characters of text with some order in it.
make_text() {
    awk 'BEGIN { s = 7
        for (i = 0; i < 2000; i++) { s = (s * 1103515245 + 12345) % 2147483648
            printf "%s", substr("the cat sat on a mat, and it was so; she said no more.\n", int(s / 65536) % 50 + 1, 6) } }' >"$1"
}
make_text text.txt
printf "\303\274ber das Meer\n" >umlaut.txt
make_text lib.txt
# A model that trains hundreds of steps a second.
small="--model.layers=1 --model.heads=2 --model.width=16 --model.context=16 --train.batch=4 --checkpoint.keep=3"
