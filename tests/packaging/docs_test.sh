#!/usr/bin/env bash
# The documents say what the sources say: the settings table, the example, and links that lead somewhere.
#   docs_test.sh SOURCE_DIR
set -euo pipefail
cd "$1"
failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# base/settings.cc has one line a variable: {"NAME", ..., "meaning"},
while IFS=$'\t' read -r name meaning; do
  grep -F "| \`$name\` |" README.md | grep -qF "| $meaning |" ||
    fail "README.md's settings table lacks $name with the meaning \"$meaning\""
done < <(sed -nE 's/^ *\{"(TUTTI_[A-Z0-9_]+)".*"(.*)"\},$/\1\t\2/p' base/settings.cc)
listed=$(grep -cE '^ *\{"TUTTI_' base/settings.cc)
shown=$(grep -cE '^\| `TUTTI_[A-Z0-9_]+` \|' README.md)
[ "$listed" -gt 0 ] && [ "$listed" -eq "$shown" ] ||
  fail "base/settings.cc has $listed settings, README.md's table $shown"

# The README's program is the one that is built and run.
diff <(sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d') <(sed -n '/^#include/,$p' examples/all_reduce.c) ||
  fail "README.md's example is not examples/all_reduce.c"

for page in *.md docs/*.md; do
  while read -r link; do
    [ -e "$(dirname "$page")/${link%%#*}" ] || fail "$page links to $link, which is not there"
  done < <(grep -oE '\]\([^)]+\)' "$page" | sed -E 's/^\]\(|\)$//g' | grep -vE '^(https?:|#)' || true)
done

[ "$failures" -eq 0 ] && echo "$listed settings, the example and all links are as documented"
