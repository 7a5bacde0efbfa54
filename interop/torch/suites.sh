#!/usr/bin/env bash
# Runs PyTorch's own tests of distributed backends on tutti and on Gloo, prints a table of what passes, and writes each
# test's result to OUTPUT_FOLDER/tests.tsv. Takes about 20 minutes on two cores.
#   interop/torch/suites.sh [PYTHON [OUTPUT_FOLDER [TESTS]]]
# PYTHON must have tutti_torch installed (docs/pytorch.md). TESTS is the folder test/distributed of PyTorch's source, or one
# with its test_c10d_gloo.py, test_c10d_fault_tolerance.py or both, which PyTorch's package lacks: without them, they do not
# run.
set -euo pipefail
python=${1:-python3}
output=${2:-$(mktemp -d)}
tests=${3:+$(realpath "$3")}
mkdir -p "$output"
output=$(cd "$output" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/suites"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if ! "$python" -c 'import torch, tutti_torch, torch.testing._internal.common_distributed' >"$output/import" 2>&1; then
  cat "$output/import"
  echo "$python lacks tutti_torch, or what PyTorch's tests need (expecttest, numpy)"
  exit 77
fi

# one SUITE RANKS ON [VARIABLE=VALUE...] PROGRAM [ARGUMENTS]: runs a suite once. ON is gloo, tutti, or another name.
one() {
  local suite=$1 ranks=$2 on=$3
  shift 3
  local name="$suite.$ranks.$on"
  mkdir -p "$scratch/$name"/{barrier,test_dir,init_dir}
  rm -f "$output/$name.tsv"
  env WORLD_SIZE="$ranks" TEMP_DIR="$scratch/$name" TUTTI_SUITE_RESULTS="$output/$name.tsv" PYTHONDONTWRITEBYTECODE=1 "$@" \
    >"$output/$name.log" 2>&1 </dev/null || true
  grep -qE '^Ran [0-9]+ tests? in' "$output/$name.log" || echo "$name did not end: see $output/$name.log"
}
suite=("$python" -W ignore distributed_suite.py)
echo "PyTorch $("$python" -c 'import torch; print(torch.__version__)' 2>/dev/null), $(date -u +%F), commit" \
  "$(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(nproc) cores,$(sed -nE 's/^model name\s*://p' /proc/cpuinfo | head -n 1);" \
  "load $(cut -d ' ' -f 1 /proc/loadavg); logs in $output"
for ranks in 2 3 4; do
  one distributed_test.py "$ranks" gloo BACKEND=gloo "${suite[@]}"
  one distributed_test.py "$ranks" tutti BACKEND=gloo TUTTI_SUITE_STAND_IN=1 "${suite[@]}"
done
# Newer versions skip these below 8 ranks.
one "distributed_test.py,groups" 8 gloo BACKEND=gloo "${suite[@]}" -k _group -k monitored_barrier
one "distributed_test.py,groups" 8 tutti BACKEND=gloo TUTTI_SUITE_STAND_IN=1 "${suite[@]}" -k _group -k monitored_barrier
one "distributed_test.py,BACKEND=tutti" 2 tutti BACKEND=tutti "${suite[@]}"
one "distributed_test.py,BACKEND=tutti" 4 tutti BACKEND=tutti "${suite[@]}"
# Not on 2 ranks, where the suite would ask the MPI backend for a group of ranks 1 and 2.
one "distributed_test.py,for MPI" 4 tutti BACKEND=mpi TUTTI_SUITE_STAND_IN=1 "${suite[@]}"
# The tests choose their ranks: most of test_c10d_gloo.py take 4, those of DDP 2, those of fault tolerance 3.
for own in gloo fault_tolerance; do
  [ -e "$tests/test_c10d_$own.py" ] || continue
  one "test_c10d_$own.py" own gloo "$python" -W ignore "${own}_suite.py" "$tests"
  one "test_c10d_$own.py" own tutti TUTTI_SUITE_STAND_IN=1 "$python" -W ignore "${own}_suite.py" "$tests"
done
"$python" suite_table.py "$output"
