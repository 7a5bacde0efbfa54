#!/usr/bin/env bash
# Runs tests of several programs; fails if one is skipped, or if a filter matches none. For the guest of
# run-in-guest.sh, which takes longer to start than the tests to run.
#   tests_in_guest.sh PROGRAM FILTER [PROGRAM FILTER]...
# A program may have arguments, without blanks in them.
set -euo pipefail
while [ $# -gt 0 ]; do
  read -ra program <<<"$1"
  output=$("${program[@]}" --gtest_filter="$2" 2>&1) || { echo "$output" && exit 1; }
  echo "$output"
  if grep -qE "SKIPPED|Running 0 tests" <<<"$output"; then exit 1; fi
  shift 2
done
