#!/usr/bin/env bash
# Each pattern by which ctest picks tests of a program matches a test of that program. A pattern that matches none names
# something that is gone, and what it should pick is not run.
#   test_patterns.sh FILE      each line: a program, a tab, a pattern
set -euo pipefail
failures=0 patterns=0
while IFS=$'\t' read -r program pattern; do
  patterns=$((patterns + 1))
  if [ -z "$("$program" --gtest_list_tests --gtest_filter="$pattern" | grep '^  ')" ]; then
    echo "FAILED: no test of ${program##*/} matches $pattern"
    failures=$((failures + 1))
  fi
done < <(sort -u "$1")
[ "$failures" -eq 0 ] && [ "$patterns" -gt 0 ] && echo "all $patterns patterns match tests"
