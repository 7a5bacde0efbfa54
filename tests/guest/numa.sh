#!/usr/bin/env bash
# Runs the tests that need two NUMA nodes; fails if one is skipped, or if a filter matches none.
#   numa.sh UNIT_TESTS SUITE       for the guest of run-in-guest.sh
set -euo pipefail
output=$({ "$1" --gtest_filter='MemoryNodes.*' && "$2" --gtest_filter='Domains.*'; } 2>&1) || { echo "$output" && exit 1; }
echo "$output"
! grep -qE "SKIPPED|Running 0 tests" <<<"$output"
