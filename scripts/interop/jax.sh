#!/usr/bin/env bash
# Runs plain JAX programs over Tutti, with a JAX from PyPI, and on request JAX's own tests of several processes
# (docs/jax.md).
#   scripts/interop/jax.sh FOLDER [VERSION [JAX_SOURCE]]      e.g. /tmp/jax 0.10.2 /tmp/jax-source
# Creates a virtual environment in FOLDER, installs JAX (default: the newest) and this tree's wheel there, and runs
# interop/jax/tests. JAX_SOURCE is a checkout of JAX of that version: its tests/multiprocess run on 4 processes over Tutti and
# over Gloo, too, and FOLDER/results has what each printed.
# PYTHON is the Python to use, and BUILD the build; default: python3, build/release. Exit status 77: something cannot be had
# from PyPI; the last line says so.
set -euo pipefail
# shellcheck source=scripts/interop/shared.sh
. "$(dirname "$0")/shared.sh"
take_folder "$@"
version=${2:+==$2}

quiet=(--quiet --disable-pip-version-check)
"$tree/scripts/release/wheels.sh" "$folder/wheel"
[ -x "$python" ] || "${PYTHON:-python3}" -m venv "$folder/python"
packages=("jax$version" pytest ${3:+absl-py portpicker})
"$python" -m pip install "${quiet[@]}" "${packages[@]}" || {
  echo "${packages[*]} cannot be installed from PyPI"
  exit 77
}
"$python" -m pip install "${quiet[@]}" --no-index --no-deps --force-reinstall --find-links "$folder/wheel/wheels" tutti

cd "$tree/interop/jax/tests"
PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider jax_test.py

[ -n "${3:-}" ] || exit 0
# suite STACK TEST...: the environment of the stack is set.
suite() {
  local stack=$1 tests=("${@:2}") test
  for test in "${tests[@]}"; do
    local results
    results=$folder/results/$stack/$(basename "$test" .py)
    mkdir -p "$results"
    JAX_PLATFORMS=cpu TEST_UNDECLARED_OUTPUTS_DIR=$results timeout 600 "$python" "$test" --num_processes=4 \
      --initialization_timeout=60 --heartbeat_timeout=60 --shutdown_timeout=60 >"$results/log" 2>&1 || true
    printf '%s %s: %s\n' "$stack" "$(basename "$test")" \
      "$(sed -n 's/^Process [0-9]*, ret.*; //p' "$results/log" | sort | uniq -c | xargs)"
  done
}
cd "$folder"  # JAX's source must not be imported
suite gloo "$3"/tests/multiprocess/*_test.py
MPITRAMPOLINE_LIB=$("$python" -m tutti.jax)
export MPITRAMPOLINE_LIB
suite tutti "$3"/tests/multiprocess/*_test.py
