#!/usr/bin/env bash
# Runs PyTorch's own distributed_test.py on Tutti and Gloo, with the newest PyTorch from PyPI (docs/pytorch.md).
#   scripts/pytorch.sh FOLDER [VERSION]      e.g. scripts/pytorch.sh /tmp/pytorch 2.15.0
# Creates a virtual environment in FOLDER (6 GB), installs PyTorch and this tree's backend there, and runs the suite on
# 2 and 4 ranks. The output goes to FOLDER/results. The tests are part of PyTorch's package.
set -euo pipefail
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit 2
fi
tree=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)

python=$folder/python/bin/python
# setuptools and ninja, because the backend is built outside pip's isolated environment, which would hide PyTorch.
"$tree/scripts/torch.sh" "$folder/python" "${2:-}" numpy expecttest setuptools ninja
[ -e "$tree/build/release/libtutti.so" ] || (cd "$tree" && scripts/build.sh release tutti)
TUTTI_HOME="$tree/build/release" "$python" -m pip install -q --no-build-isolation --no-deps --force-reinstall \
  "$tree/interop/torch"
exec "$tree/interop/torch/distributed_test.sh" "$python" "$folder/results"
