#!/usr/bin/env bash
# Builds the backend against a Python's PyTorch, in a separate folder, and runs the tests in this file's folder.
#   run.sh PYTHON FOLDER_OF_LIBTUTTI BUILD_FOLDER [UNITTEST-ARGS]
# Exit status 77: this Python has no PyTorch to build against; the reason is printed.
set -euo pipefail
python=$1
library=$(cd "$2" && pwd)
mkdir -p "$3"
build=$(cd "$3" && pwd)
room=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
shift 3

skip() {
  echo "skipped: $*"
  exit 77
}

command -v "$python" >/dev/null || skip "there is no $python"
"$python" -c 'import torch, torch.distributed as d, sys; sys.exit(not d.is_available())' 2>/dev/null ||
  skip "$python has no PyTorch with torch.distributed (Debian: python3-torch)"
"$python" -c 'import setuptools, torch.utils.cpp_extension' 2>/dev/null || skip "$python has no setuptools"
"$python" - <<'EOF' || skip "the headers of PyTorch, pybind11 or Python are missing (Debian: libtorch-dev pybind11-dev python3-dev)"
import os, sys, sysconfig
from torch.utils.cpp_extension import include_paths
def there(name):
    return any(os.path.exists(os.path.join(path, name)) for path in include_paths() + ["/usr/include", sysconfig.get_paths()["include"]])
sys.exit(not all(map(there, ["torch/csrc/distributed/c10d/Store.hpp", "pybind11/pybind11.h", "Python.h"])))
EOF

cd "$room"
# Succeeds if the built module is newer than all its sources.
up_to_date() {
  local module
  module=$(find "$build/lib" -name '_C*.so' -print -quit 2>/dev/null)
  [ -n "$module" ] &&
    [ -z "$(find . ../../include "$library"/libtutti.so.*.*.* "$("$python" -c 'import torch; print(torch.__file__)')" \
      -type f ! -path './tests/*' ! -path './suites/*' -newer "$module" -print -quit)" ]
}
# A second run of the tests reuses the first build, even as a user without write permission there.
if ! up_to_date; then
  if [ ! -w "$build" ]; then
    build=$(mktemp -d)
    trap 'rm -rf "$build"' EXIT
  fi
  # An installation would put egg-info into the source tree, so the module is only built and runs from its build folder.
  if ! TUTTI_HOME=$library "$python" setup.py -q build --build-base "$build" --build-temp "$build/temp" \
      --build-lib "$build/lib" >"$build/log" 2>&1; then
    cat "$build/log"
    exit 1
  fi
fi
cd tests
# Tests the module built here, not an installed one, which might be loaded first.
export TORCH_DEVICE_BACKEND_AUTOLOAD=0 PYTHONPATH="$build/lib${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 TUTTI_TIMEOUT_MS=60000
# In a build tree, the folder of libtutti.so also has the fake CUDA driver over host memory.
export TUTTI_FAKE_GPU="${TUTTI_FAKE_GPU-$library/testing/fake_gpu}" TUTTI_TEST_BUILD="$build"
unset TORCH_SHOW_CPP_STACKTRACES
"$python" -W ignore -m unittest discover -p '*_test.py' "$@"
