#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into an empty prefix, compiles the examples against it alone (pkg-config and CMake package), runs them on 1 and 3 ranks.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0
bad=0
say() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; bad=1; fi; }

prefix=$work/prefix
cmake --install "$BUILD" --prefix "$prefix" >"$work/log" 2>&1
say $? "install"
lib=$(dirname "$(find "$prefix" -name libcadre.so.0)")
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib
cadre=$prefix/bin/cadre
[ "$("$cadre" --version)" = "cadre $(pkg-config --modversion cadre)" ]
say $? "the installed command runs and says the version"
[ -s "$prefix/share/man/man1/cadre.1" ] && [ -s "$prefix/share/bash-completion/completions/cadre" ]
say $? "man page and completion"

cd "$work"
for example in 01_one_call 02_own_loop 03_own_gradients; do
    cc -std=c17 -Wall -Wextra -Werror "$top/examples/$example.c" -o $example $(pkg-config --cflags --libs cadre) -lm
    say $? "$example compiles as C17 against the package"
done

cat >words.txt <<'TEXT'
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
twenty twenty-one twenty-two twenty-three twenty-four twenty-five twenty-six twenty-seven twenty-eight twenty-nine thirty
TEXT
cat >run.yaml <<'YAML'
model: { layers: 1, heads: 2, width: 16, context: 8 }
data: { train: words.txt }
train: { steps: 5, batch: 6 }
YAML
for ranks in 1 3; do
    "$cadre" run --ranks $ranks -- ./01_one_call run.yaml >out 2>&1
    say $? "01_one_call on $ranks ranks"
    [ "$(ls -d runs/run*/checkpoints/step-00000005 2>/dev/null | wc -l)" -ge 1 ]
    say $? "01_one_call on $ranks ranks leaves a checkpoint"
    rm -rf runs
    "$cadre" run --ranks $ranks -- ./02_own_loop >loop.$ranks 2>&1 && grep -q 'step 200' loop.$ranks
    say $? "02_own_loop on $ranks ranks"
    "$cadre" run --ranks $ranks -- ./03_own_gradients >line.$ranks 2>&1 && grep -q 'y = 3.000000 x + -2.000000' line.$ranks
    say $? "03_own_gradients on $ranks ranks"
done
loss() { sed -n 's/.*step 200 | loss \([0-9.]*\).*/\1/p' "$1"; }
awk "BEGIN { d = $(loss loop.1) - $(loss loop.3); exit !(d < 2e-3 && d > -2e-3 && $(loss loop.1) < 0.5) }"
say $? "02_own_loop learns, and alike on 1 and 3 ranks ($(loss loop.1), $(loss loop.3))"

mkdir project && cd project && cat >CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(user C)
find_package(cadre REQUIRED)
add_executable(own_gradients $top/examples/03_own_gradients.c)
target_link_libraries(own_gradients cadre::cadre m)
CMAKE
cmake -S . -B build -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >log 2>&1 && cmake --build build >>log 2>&1 && ./build/own_gradients | grep -q 'y = 3'
say $? "the CMake package links a program"
echo "1..$n"
exit $bad
