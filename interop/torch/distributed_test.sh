#!/usr/bin/env bash
# Runs PyTorch's own distributed_test.py on 2 and 4 ranks: on backend tutti, on Gloo, and on tutti in place of Gloo and
# of MPI. Prints a table and the failures. Takes about ten minutes. PYTHON must have tutti_torch installed
# (docs/pytorch.md).
#   interop/torch/distributed_test.sh [PYTHON [OUTPUT_FOLDER]]
set -euo pipefail
python=${1:-python3}
output=${2:-$(mktemp -d)}
mkdir -p "$output"
cd "$(dirname "${BASH_SOURCE[0]}")/tests"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if ! "$python" -c 'import torch, tutti_torch, torch.testing._internal.common_distributed' >"$output/import" 2>&1; then
  cat "$output/import"
  echo "$python lacks tutti_torch, or what PyTorch's tests need (expecttest, numpy)"
  exit 77
fi

# one WHAT BACKEND RANKS [VARIABLE=VALUE...]: runs the suite once. Its output goes to a file, and a table row to stdout.
one() {
  local what=$1 backend=$2 ranks=$3
  shift 3
  local log="$output/$what-$ranks" count skipped bad
  mkdir -p "$scratch/$what-$ranks"/{barrier,test_dir,init_dir}
  env "$@" BACKEND="$backend" WORLD_SIZE="$ranks" TEMP_DIR="$scratch/$what-$ranks" \
    "$python" -W ignore distributed_suite.py -v >"$log" 2>&1 </dev/null || true
  count=$(sed -nE 's/^Ran ([0-9]+) tests? in .*/\1/p' "$log" | tail -n 1)
  skipped=$(tail -n 3 "$log" | sed -nE 's/.*skipped=([0-9]+).*/\1/p')
  bad=$(grep -cE '^(ERROR|FAIL): test_' "$log" || true)
  if [ -z "$count" ]; then
    echo "| $what | $ranks | did not end: see $log | | | |"
    return
  fi
  echo "| $what | $ranks | $count | $((count - ${skipped:-0} - bad)) | ${skipped:-0} | $bad |"
  { grep -E '^(ERROR|FAIL): test_' "$log" || true; } | sed -E 's/^[A-Z]+: (test_[A-Za-z0-9_]*).*/    failed: \1/' | sort -u
}

echo "PyTorch $("$python" -c 'import torch; print(torch.__version__)' 2>/dev/null), $(date -u +%F), commit" \
  "$(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(nproc) cores,$(sed -nE 's/^model name\s*://p' /proc/cpuinfo | head -n 1);" \
  "logs in $output"
echo "| suite | ranks | tests | passed | skipped | failed |"
echo "|---|---|---|---|---|---|"
for ranks in 2 4; do
  one in-the-place-of-gloo gloo "$ranks" TUTTI_SUITE_STAND_IN=1
  one gloo-itself gloo "$ranks"
  one tutti tutti "$ranks"
done
# Not on 2 ranks, where the suite would ask the MPI backend for a group of ranks 1 and 2.
one in-the-place-of-mpi mpi 4 TUTTI_SUITE_STAND_IN=1
