#!/usr/bin/env bash
# Configures and builds one preset in build/<preset>, with as many parallel compilers as cores and memory allow.
#   scripts/build.sh PRESET [-DVARIABLE=VALUE...] [TARGETS]      default: the preset's targets
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
configure=()
while [[ ${1:-} == -D* ]]; do
  configure+=("$1")
  shift
done

# Memory that a compiler of the vector kernels takes.
kib_per_job=$((1500 * 1024))
jobs=$(nproc)
available=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
most=$((available / kib_per_job))
[ "$jobs" -le "$most" ] || jobs=$((most > 0 ? most : 1))

echo "[build] cmake --preset $preset ${configure[*]}"
cmake --preset "$preset" "${configure[@]}" </dev/null
echo "[build] cmake --build build/$preset, $jobs at a time"
if [ $# -gt 0 ]; then
  cmake --build "build/$preset" --parallel "$jobs" --target "$@" </dev/null
else
  cmake --build --preset "$preset" --parallel "$jobs" </dev/null
fi
