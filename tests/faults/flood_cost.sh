#!/usr/bin/env bash
# Measures what a flood of connections costs a job that reduces continuously: counts its operations with and without the
# flood, in turn.
#
#   tests/faults/flood_cost.sh SOURCE_DIR BUILD_DIR [ROUNDS [BYTES]]      default: 3 rounds, 65536 bytes
#
# The job runs on two hosts with one rank each (scripts/cluster.sh). campaign/flood.py floods all ports of one host. Job
# and flood share this machine's processors, so the loss is an upper bound. Exit status 77: this machine cannot run such
# clusters.
set -euo pipefail
source=$1 build=$2 rounds=${3:-3} bytes=${4:-65536}
seconds=5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

operations() {  # operations FLOODED: prints how many operations rank 0 completed
  local name=flood-$$-$RANDOM status=0
  FAULT_RUN=$name "$source/scripts/cluster.sh" --hosts 2 --name "$name" -- \
    "$build/tests/tutti_host_rank" "$seconds" "$bytes" >"$work/out" 2>&1 &
  local cluster=$!
  if [ "$1" = yes ]; then
    while kill -0 "$cluster" 2>/dev/null && ! grep -q 'rank 0 runs' "$work/out"; do sleep 0.05; done
    "$source/tests/faults/rank_trouble.sh" "$name" 0 flood "$seconds" 1 || true
  fi
  wait "$cluster" || status=$?
  [ "$status" -eq 0 ] || { cat "$work/out" >&2; exit "$status"; }
  sed -nE 's/^rank 0 is done: ([0-9]+) operations$/\1/p' "$work/out"
}

without=0 with=0
for ((round = 1; round <= rounds; round++)); do
  calm=$(operations no) flooded=$(operations yes)
  echo "round $round: $calm operations in $seconds s without strangers, $flooded with them"
  without=$((without + calm)) with=$((with + flooded))
done
echo "in all $without and $with: $((100 * (without - with) / without)) % less"
