#!/usr/bin/env bash
# Starts tutti-bench by real launchers: torchrun of the newest PyTorch on PyPI, and srun of a private Slurm. Every
# result is checked; then ranks are killed, and strangers take ports. Ranks of a training with that PyTorch are killed, too
# (scripts/interop/pytorch_kills.sh). All of it is on this machine's loopback.
#   scripts/test/launchers.sh [torchrun] [slurm]       both by default; installs what is missing and builds the bench
#   scripts/test/launchers.sh --bench FILE ...         tests this tutti-bench instead
# PyTorch goes into build/launchers. Outside this checkout it leaves only apt packages.
# Exit status 77: a launcher cannot be had here, and what was tested passed; the last lines say which, and why.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
say() { echo "[launchers] $*"; }

bench=
launchers=()
while [ $# -gt 0 ]; do
  case $1 in
    --bench)
      bench=${2:?--bench takes a file}
      shift
      ;;
    torchrun | slurm) launchers+=("$1") ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      say "unknown argument $1" >&2
      usage >&2
      exit 2
      ;;
  esac
  shift
done
[ ${#launchers[@]} -gt 0 ] || launchers=(torchrun slurm)

skipped=77
reasons=()
# Each function below tests one launcher. Its status is `skipped` if this machine lacks something; `reason` says what.
reason=

test_torchrun() {
  local folder=build/launchers/python
  if ! scripts/interop/install_pytorch.sh "$folder" ""; then
    reason="PyTorch cannot be installed from PyPI, as the lines above say"
    return "$skipped"
  fi
  say "torchrun of PyTorch $("$folder/bin/python" -W ignore -c 'import torch; print(torch.__version__)')"
  reason="this machine can give the jobs no network of their own, as the lines above say"
  scripts/cluster.sh --hosts 1 --each-host -- bench/torchrun_test.sh "$bench" "$folder/bin/torchrun" || return
  local kills=3
  reason="the backend for PyTorch cannot be built here, as the lines above say"
  BUILD=$(realpath "$(dirname "$bench")/..") scripts/interop/pytorch_kills.sh build/launchers "$kills"
}

test_slurm() {
  say "srun of Debian's Slurm"
  reason="no Slurm can run here, as the lines above say"
  scripts/test/slurm.sh bench/slurm_test.sh "$bench"
}

# A launcher whose packages are missing is left out below.
scripts/setup.sh --for launchers || true
if [ -z "$bench" ]; then
  scripts/build.sh bench -DTUTTI_CUDA=OFF tutti-bench
  bench=build/bench/bench/tutti-bench
fi
result=0
for launcher in "${launchers[@]}"; do
  status=0
  case $launcher in
    torchrun) test_torchrun || status=$? ;;
    slurm) test_slurm || status=$? ;;
  esac
  case $status in
    0) say "$launcher: passed" ;;
    "$skipped") reasons+=("$launcher: skipped: $reason") ;;
    *)
      say "$launcher: FAILED"
      result=1
      ;;
  esac
done
for reason in "${reasons[@]}"; do say "$reason"; done
[ "$result" -ne 0 ] || [ ${#reasons[@]} -eq 0 ] || result=$skipped
exit "$result"
