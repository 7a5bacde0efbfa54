#!/usr/bin/env bash
# Tests a dry run of scripts/gpu.sh: every part runs on the stand-in for a GPU, and the JSON has all numbers and
# converts to tables.
#   gpu_script_test.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
cd "$1"
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

scripts/gpu.sh --dry-run --build "$build" --json "$work/results.json"

# The results of a dry run must not be accepted as measurements.
! scripts/gpu_tables.py "$work/results.json" >/dev/null 2>&1 || fail "tables were made from a dry run"
scripts/gpu_tables.py "$work/results.json" --dry-run >"$work/tables.md"
# Tutti's own libnccl replaces NCCL, with ranks as threads that share the device. It must be measured and named.
grep -qE 'NCCL_MULTI_RANK_GPU_ENABLE=1; TUTTI.S OWN' "$work/tables.md" || fail "it is not said what NCCL was"
for row in 'copy, by the driver \| 64K' 'all-reduce of one rank \| 64K' 'reduce, 2 sources, direct' 'reduce_scatter, 2 sources, direct' \
  'all_reduce in a graph \| 2 \| 8' 'all_reduce \| 2 \| 4K' 'reduce_scatter \| 2' 'all_gather \| 2' 'alltoall \| 2' 'all_reduce \| 2 processes \| 4K'; do
  grep -qE "^\| $row .*[0-9]\.[0-9]" "$work/tables.md" || { cat "$work/tables.md"; fail "no number for $row"; }
done
grep -qE '^\| all_reduce \| 2 \| 8 \|[^|]*\|[^|]*\| [0-9.]+ \(' "$work/tables.md" || fail "NCCL's place was not measured"

# Outside a dry run the table shows Tutti's own libnccl as refused, and the run succeeds.
LD_LIBRARY_PATH=$build/testing/fake_cuda "$build/bench/tutti-bench" all_reduce --memory device -t 2 -b 8 -e 8 --cell-ms 1 --repeat 1 \
  --vs nccl --nccl "$build/interop/nccl/lib/libnccl.so.2" >"$work/refused" 2>&1 || { cat "$work/refused"; fail "refusal is a failure"; }
grep -q '# refused: nccl: .*libnccl.so.2 is Tutti.s, not NVIDIA.s' "$work/refused" || { cat "$work/refused"; fail "Tutti's own was not refused"; }
grep -qE '^ +8 .* refused' "$work/refused" || fail "the table does not say refused"

# A failed part is recorded, and the other parts still run.
! TUTTI_STANDIN_DEVICES=0 scripts/gpu.sh --dry-run --build "$build" --json "$work/none.json" --only '^(device|tests|litmus)$' >/dev/null 2>&1 ||
  fail "without a device all is well"
grep -q '"name": "device", "status": "FAILED: exit status 1"' "$work/none.json" || fail "a failed part is not written down"
grep -q '"name": "litmus"' "$work/none.json" || fail "a failed part ends the run"
echo "scripts/gpu.sh does what it says"
