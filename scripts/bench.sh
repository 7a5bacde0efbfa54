#!/usr/bin/env bash
# The main job, from nothing: installs what is missing, builds Release and runs the all-reduce bench on 4 ranks of this
# machine, every result checked, beside every peer that is installed. About three minutes after the build.
#   scripts/bench.sh                      as above
#   scripts/bench.sh TUTTI-BENCH-ARGS     builds, then runs tutti-bench with these instead
# Leaves nothing outside this checkout but apt packages.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
scripts/build.sh release

if [ $# -eq 0 ]; then
  # Factor 8 visits a small, a middling and a large message of every kind without taking all day.
  set -- all_reduce -b 8 -e 128M -f 8 --ranks 4 --vs all
fi
echo "[bench] build/release/bench/tutti-bench $*"
exec build/release/bench/tutti-bench "$@"
