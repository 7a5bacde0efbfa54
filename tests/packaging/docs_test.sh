#!/usr/bin/env bash
# Checks the documents against the sources: README.md shows the example that is built, links resolve, and pictures and
# tables that need no program are those that the scripts make.
#   docs_test.sh SOURCE_DIR
set -euo pipefail
cd "$1"
failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# The first C block of the README and of the tutorial is the program that is built and run.
for page in README.md docs/tutorial_c.md; do
  diff <(sed -n '/^```c$/,/^```$/p' "$page" | sed '/^```$/q' | sed '1d;$d') <(sed -n '/^#include/,$p' examples/all_reduce.c) ||
    fail "$page's example is not examples/all_reduce.c"
done

for page in *.md docs/*.md docs/notebook/*/*.md; do
  while read -r link; do
    [ -e "$(dirname "$page")/${link%%#*}" ] || fail "$page links to $link, which is not there"
  done < <(grep -oE '\]\([^)]+\)' "$page" | sed -E 's/^\]\(|\)$//g' | grep -vE '^(https?:|#)' || true)
done

pictures=$(mktemp -d)
trap 'rm -rf "$pictures"' EXIT
python3 -B scripts/docs/draw_performance.py "$pictures"
python3 -B scripts/docs/draw_parallel.py "$pictures"
python3 -B scripts/docs/draw_faults.py "$pictures"
python3 -B scripts/docs/draw_gpu.py "$pictures"
for picture in "$pictures"/*; do
  cmp -s "$picture" "docs/pictures/${picture##*/}" || fail "docs/pictures/${picture##*/} is out of date: run scripts/docs.sh"
done

# Tables of GPUs are made from what the kit brought back.
for gpu in docs/data/gpu/*/; do
  for table in bandwidth latency; do
    python3 -B scripts/docs/gpu_tables.py --$table "$gpu"gpu_*.json | cmp -s - "$gpu$table.csv" || fail "$gpu$table.csv is out of date: run scripts/docs.sh"
  done
done
for table in tests results predictions; do
  for gpu in docs/data/gpu/*/; do python3 -B scripts/docs/gpu_tables.py --$table "$gpu"gpu_*.json; done |
    cmp -s - <(sed -n '/^<!-- made: gpu -->$/,/^<!-- end: gpu -->$/{/^<!-- /!p}' "docs/notebook/gpu/$table.md") ||
    fail "the tables of docs/notebook/gpu/$table.md are out of date: run scripts/docs.sh"
done

[ "$failures" -eq 0 ] && echo "the example and all links are as documented"
