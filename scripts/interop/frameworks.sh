#!/usr/bin/env bash
# Starts programs of others on our libnccl on a machine without a GPU, with the fake GPU's driver and runtime
# (testing/fake_gpu): the newest PyTorch with CUDA, vLLM's NCCL wrapper, CuPy's NCCL binding and nccl-tests. Prints a
# line for each and exits with 1 unless all passed (docs/nccl_frameworks.md).
#   scripts/interop/frameworks.sh [--installed] [--record] FOLDER [BUILD_DIR]
# Installs into FOLDER what is not there yet (6 GB, from PyPI and GitHub), and leaves nothing elsewhere. BUILD_DIR
# (default build/release) holds a build of Tutti. If it lacks the fake GPU, because it was made without CUDA's headers,
# the script makes a build in FOLDER, with the compiler and headers that PyPI has.
#   --installed   installs nothing; exits with 77 if FOLDER lacks something. An empty FOLDER is $TUTTI_FRAMEWORKS_DIR
#   --record      also writes docs/notebook/frameworks/nccl_frameworks.tsv (see libnccl.md there)
#   PYTHON        the Python for the virtual environment, default python3
#   NCCL_TESTS, NCCL_TESTS_RANKS   as in scripts/interop/nccl_tests.sh; default all tests, with "2 4" ranks
set -euo pipefail

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
say() { echo "[frameworks] $*"; }
# Ends the script with a sentence.
give_up() { say "$*" && exit 1; }

installed=
record=
while [[ ${1:-} == --* ]]; do
  case $1 in
    --installed) installed=yes ;;
    --record) record=yes ;;
    *) usage && exit 2 ;;
  esac
  shift
done
if [[ -n $installed && -z ${1:-} ]]; then
  set -- "${TUTTI_FRAMEWORKS_DIR:-}" "${@:2}"
fi
if [[ -n $installed && -z $1 ]]; then
  say "no folder is named: scripts/interop/frameworks.sh FOLDER installs 6 GB of packages there, and this test uses" \
    "them where TUTTI_FRAMEWORKS_DIR=FOLDER"
  exit 77
fi
[[ $# -ge 1 && $# -le 2 ]] || { usage && exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
tests=$root/interop/nccl/tests/frameworks
[[ -n $installed ]] || mkdir -p "$1"
[[ -d $1 ]] || { say "there is no folder $1" && exit 77; }
folder=$(cd "$1" && pwd)
build=${2:-$root/build/release}
python=$folder/python/bin/python
wrapper=$folder/vllm/pynccl_wrapper.py
nccl_tests=$folder/nccl-tests
logs=$folder/logs
results=$folder/results.tsv

# --- Installation.

# The one module that the wrapper is, out of a wheel of hundreds of megabytes.
install_wrapper() {
  local wheels
  wheels=$(mktemp -d -p "$folder")
  "$python" -m pip download --quiet --no-deps --no-cache-dir --only-binary :all: --dest "$wheels" vllm
  mkdir -p "$folder/vllm"
  "$python" - "$wheels"/vllm-*.whl "$folder/vllm" <<'CODE'
import pathlib, sys, zipfile
wheel, folder = map(pathlib.Path, sys.argv[1:])
module = zipfile.ZipFile(wheel).read("vllm/distributed/device_communicators/pynccl_wrapper.py")
(folder / "version").write_text(wheel.name.split("-")[1] + "\n")
(folder / "pynccl_wrapper.py").write_bytes(module)
CODE
  rm -r "$wheels"
}

# attempt WHAT FROM COMMAND...: a failure is told here, and again by the test that lacks it.
attempt() {
  say "installing $1"
  "${@:3}" || say "could not install $1: is $2 within reach? The lines above have the reason"
}

# Asks for no password where something else answers in GitHub's place, and leaves no half of a checkout.
nccl_tests_page=https://github.com/NVIDIA/nccl-tests
fetch_nccl_tests() {
  local limit=300 # seconds
  GIT_TERMINAL_PROMPT=0 timeout "$limit" git clone --quiet --depth 1 "$nccl_tests_page" "$nccl_tests.part" &&
    mv "$nccl_tests.part" "$nccl_tests" && return
  rm -rf "$nccl_tests.part"
  return 1
}

has_module() {
  [[ -x $python ]] && "$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec(sys.argv[1]) is None)' "$1"
}
if [[ -z $installed ]]; then
  { has_module torch && has_module cupy; } ||
    attempt "PyTorch and CuPy" PyPI "$root/scripts/interop/install_pytorch.sh" "$folder/python" "" numpy cupy-cuda13x
  [[ -x $python ]] || give_up "there is no $python: without it nothing can be tried"
  [[ -e $wrapper ]] || attempt "vLLM's wrapper" PyPI install_wrapper
  [[ -e $nccl_tests ]] || attempt nccl-tests GitHub fetch_nccl_tests
else
  for needed in "$python" "$wrapper" "$nccl_tests"; do
    [[ -e $needed ]] && continue
    say "$folder lacks ${needed#"$folder"/}: scripts/interop/frameworks.sh $folder installs it"
    exit 77
  done
fi

# version_of PACKAGE
version_of() {
  "$python" -c 'import importlib.metadata as m, sys; print(m.version(sys.argv[1]))' "$1" 2>/dev/null || echo none
}

# --- CUDA's compiler and headers, and the build.

NVCC=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if [[ ! -x $NVCC ]]; then
  # In PyPI's packages, which share one folder.
  toolkit=$("$python" -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null)/cu13 ||
    give_up "there is no nvcc (NVCC=$NVCC), and $folder/python has no packages of NVIDIA's to build with: is PyTorch there?"
  NVCC=$toolkit/bin/nvcc
  if [[ -z $installed && ! -x $NVCC ]]; then
    version=$(version_of nvidia-cuda-runtime)
    attempt nvcc PyPI "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir \
      "cuda-toolkit[nvcc,cudart,cccl]==${version%.*}.*"
  fi
fi
export NVCC
[[ -x $NVCC ]] || say "there is no CUDA compiler: $NVCC"

if [[ ! -e $build/testing/fake_gpu/nvml/libnvidia-ml.so.1 ]]; then
  [[ -z $installed ]] || { say "$build has no fake GPU: it was made without CUDA's headers" && exit 77; }
  [[ -x $NVCC ]] || give_up "$build has no CUDA runtime of the fake GPU, and without a CUDA compiler none can be built"
  say "$build has no CUDA runtime of the fake GPU: making a build in $folder/build"
  cuda=$(dirname "$(dirname "$NVCC")")
  build=$folder/build
  if ! { CUDA_HOME=$cuda cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DTUTTI_NVCC="$NVCC" -DTUTTI_CUDA_INCLUDE="$cuda/include" >"$folder/cmake.log" 2>&1 &&
    cmake --build "$build" --parallel "$(nproc)" >>"$folder/cmake.log" 2>&1 \
      --target tutti_nccl tutti_fake_gpu_driver tutti_fake_gpu_runtime tutti_fake_gpu_nvml; }; then
    tail -n 20 "$folder/cmake.log"
    give_up "that build failed; all of its output is in $folder/cmake.log"
  fi
fi
build=$(cd "$build" && pwd)
fake_gpu=$build/testing/fake_gpu
library=$build/interop/nccl/lib/libnccl.so.2

# --- Tests.

# PyTorch's libraries look for NVIDIA's in their own folders first, so ours are loaded before any.
environment=(env "LD_LIBRARY_PATH=$fake_gpu" "LD_PRELOAD=$fake_gpu/libcudart.so.13:$library" "FRAMEWORKS_NCCL=$library"
             "VLLM_NCCL_SO_PATH=$library" TUTTI_FAKE_GPU_DEVICES=4 "PYTHONPATH=$tests" PYTHONDONTWRITEBYTECODE=1)
failures=0

# Adds the row to the results, and says what it is about.
take() { # ROW
  local name version ranks result reached reason seconds
  printf '%s\n' "$1" >>"$results"
  # A tab is white space to `read`, which would take two for one.
  IFS=$'\x1f' read -r name version ranks result reached reason seconds <<<"${1//$'\t'/$'\x1f'}"
  say "$result: $name, version $version, ranks: $ranks, $seconds s"
  [[ $result == passed ]] && return
  say "    it got to: $reached"
  say "    and no further: $reason"
  failures=$((failures + 1))
}

# run NAME VERSION RANKS SECONDS TEST [ARGUMENTS] [-- OPTIONS OF ranks.py]
run() {
  local name=$1 version=$2 ranks=$3 limit=$4 arguments=() row
  shift 4
  while [[ $# -gt 0 && $1 != -- ]]; do arguments+=("$1") && shift; done
  [[ $# -eq 0 ]] || shift
  row=$(PYTHONDONTWRITEBYTECODE=1 python3 "$tests/ranks.py" --name "$name" --version "$version" --ranks "$ranks" \
    --limit "$limit" "$@" "$logs/${name//[^A-Za-z0-9]/_}_$ranks" \
    "${environment[@]}" "$python" "$tests/${arguments[0]}" "${arguments[@]:1}") || true
  take "$row"
}

# nccl-tests tell how many elements were wrong; ranks are 2 and 4 devices, of one thread and of as many.
run_nccl_tests() {
  local log=$logs/nccl-tests ranks=${NCCL_TESTS_RANKS:-2 4} limit=1800 # seconds
  local version reached reason='' result=passed began=$SECONDS
  if [[ ! -e $nccl_tests ]]; then
    take "$(printf '%s\t' nccl-tests unknown "${ranks// /, }" FAILED nothing \
      "there is no $nccl_tests: it could not be fetched from $nccl_tests_page; a checkout may be put there")0"
    return
  fi
  version=$(sed -n 's/.*NCCL_TESTS_VERSION *"\(.*\)".*/\1/p' "$nccl_tests"/src/common.* 2>/dev/null | head -n 1)
  NCCL_TESTS_RANKS=$ranks JOBS=$(nproc) timeout "$limit" "$root/scripts/interop/nccl_tests.sh" "$nccl_tests" "$build" \
    >"$log" 2>&1 || result=FAILED
  reached=$(awk '$2 == "devices" { printf "%s%s", separator, $1; separator = ", " }' "$log")
  [[ $result == passed ]] || reason=$(tail -n 1 "$log")
  take "$(printf '%s\t' nccl-tests "${version:-unknown}" "${ranks// /, }" "$result" "${reached:-nothing}" \
    "$reason")$((SECONDS - began))"
}

rm -rf "$logs"
mkdir -p "$logs"
{
  printf '# %s, commit %s; %s cores:%s; %s\n' "$(date -u +%F)" \
    "$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)" "$(nproc)" \
    "$(sed -n 's/^model name[^:]*://p' /proc/cpuinfo | head -n 1)" "$("$python" --version 2>&1)"
  printf 'framework\tversion\tranks\tresult\thow far it got\twhy not further\tseconds\n'
} >"$results"

torch=$(version_of torch)
cupy=$(version_of cupy-cuda13x)
vllm=$(cat "$folder/vllm/version" 2>/dev/null || echo none)
run "PyTorch: tensors" "$torch" 1 120 torch_start.py
run "PyTorch: NCCL process group" "$torch" 2 180 torch_group.py
run "PyTorch: NCCL process group" "$torch" 4 180 torch_group.py
# Memory is mapped piece by piece, for which PyTorch asks NVIDIA's management library.
plain=("${environment[@]}")
environment+=("LD_LIBRARY_PATH=$fake_gpu:$fake_gpu/nvml" PYTORCH_ALLOC_CONF=expandable_segments:True)
run "PyTorch: the same with expandable segments" "$torch" 2 180 torch_group.py
environment=("${plain[@]}")
run "PyTorch: a rank is lost, next call" "$torch" 3 180 torch_lost_rank.py -- --lost 2
run "PyTorch: a rank is lost, no further call" "$torch" 3 180 torch_lost_rank.py watchdog -- --lost 2
run "vLLM: NCCL wrapper" "$vllm" 2 120 vllm_wrapper.py "$wrapper"
run "CuPy: NCCL binding" "$cupy" 2 120 cupy_binding.py
run_nccl_tests

[[ -z $record ]] || cp "$results" "$root/docs/notebook/frameworks/nccl_frameworks.tsv"
say "results: $results; output: $logs"
if ((failures > 0)); then
  say "$failures FAILED"
  exit 1
fi
say "all passed"
