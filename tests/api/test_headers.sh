#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The public headers compile alone as C99, C17 and C++11; the shared library exports what they mark and nothing else.
set -u
cd "$(dirname "$0")/../.."
n=0
bad=0
say() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; bad=1; fi; }

for header in include/cadre/*.h; do
    name=cadre/$(basename "$header")
    echo "#include <$name>" | cc -std=c99 -pedantic -Wall -Wextra -Werror -Iinclude -x c -fsyntax-only -
    say $? "$name as C99"
    echo "#include <$name>" | cc -std=c17 -pedantic -Wall -Wextra -Werror -Iinclude -x c -fsyntax-only -
    say $? "$name as C17"
    echo "#include <$name>" | c++ -std=c++11 -pedantic -Wall -Wextra -Werror -Iinclude -x c++ -fsyntax-only -
    say $? "$name as C++11"
done

lib=$BUILD/src/libcadre.so
marked=$(mktemp) exported=$(mktemp)
cat include/cadre/*.h | tr '\n' ' ' | grep -oE 'CADRE_API[^;(]*\b(cadre_[a-z0-9_]+) *\(' | grep -oE 'cadre_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u >"$marked"
nm -D --defined-only "$lib" | awk '$2 ~ /[TDBRVW]/ { print $3 }' | sort -u >"$exported"
diff "$marked" "$exported" | sed 's/^/# /'
cmp -s "$marked" "$exported"
say $? "exported symbols are the marked ones ($(wc -l <"$marked"))"
readelf -d "$lib" | grep -q 'SONAME.*libcadre.so.0'
say $? "soname libcadre.so.0"
rm -f "$marked" "$exported"
echo "1..$n"
exit $bad
