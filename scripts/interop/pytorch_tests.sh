#!/usr/bin/env bash
# Runs PyTorch's own tests of distributed backends on Tutti and Gloo, with a PyTorch from PyPI (docs/pytorch.md).
#   scripts/interop/pytorch_tests.sh FOLDER [VERSION [TESTS]]      e.g. /tmp/pytorch 2.15.0
# Creates a virtual environment in FOLDER (6 GB), installs PyTorch (default: the newest) and this tree's backend there,
# and runs interop/torch/suites.sh; TESTS is its folder of PyTorch's tests. The output goes to FOLDER/results.
set -euo pipefail
# shellcheck source=scripts/interop/shared.sh
. "$(dirname "$0")/shared.sh"
take_folder "$@"
# setuptools and ninja, because the backend is built outside pip's isolated environment, which would hide PyTorch.
"$tree/scripts/interop/install_pytorch.sh" "$folder/python" "${2:-}" numpy expecttest setuptools ninja
[ -e "$tree/build/release/libtutti.so" ] || (cd "$tree" && scripts/build.sh release tutti)
TUTTI_HOME="$tree/build/release" "$python" -m pip install -q --no-build-isolation --no-deps --force-reinstall \
  "$tree/interop/torch"
exec "$tree/interop/torch/suites.sh" "$python" "$folder/results" "${3:-}"
