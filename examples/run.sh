#!/usr/bin/env bash
# Starts one process per rank on this machine, as torchrun would, and waits for all of them.
#   run.sh RANKS PROGRAM [ARGUMENTS]
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "usage: $0 RANKS PROGRAM [ARGUMENTS]" >&2
  exit 2
fi
ranks=$1
shift
# A port below those that the system assigns to connections (32768 and up).
export WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=${MASTER_PORT:-$((20000 + RANDOM % 12000))}
pids=()
for ((rank = 0; rank < ranks; ++rank)); do
  RANK=$rank "$@" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do
  wait "$pid" || status=$?
done
exit "$status"
