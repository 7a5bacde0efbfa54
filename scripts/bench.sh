#!/usr/bin/env bash
# Runs the main benchmark on a fresh checkout: installs the packages that the bench needs, and today's MPIs into
# build/peers; builds the bench (without tests and tools, and with kernels only for this machine's GPUs); then measures
# all-reduce on 4 ranks of this machine, in Tutti, in every installed peer library and in the naive program ("flat"), and
# checks every result. Takes about two minutes after the build.
#   scripts/bench.sh                      as above
#   scripts/bench.sh hosts [ARGS]         builds, then runs the grid of all collectives between hosts beside all MPIs and
#                                         Gloo, for several numbers of hosts and ranks; about 20 minutes. Hosts are
#                                         namespaces of this machine (scripts/cluster.sh). ARGS go to every run, such as
#                                         --barriers; TUTTI_DATA_PROTECTION=none measures without protection.
#                                         Results: build/bench/hosts-HxR.json and .csv
#   scripts/bench.sh TUTTI-BENCH-ARGS     builds, then runs tutti-bench with these arguments instead
# Outside this checkout it leaves only apt packages.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh --for bench
scripts/measure/peers.sh
# Compute capabilities of this machine's GPUs, in CMake's form: 90 for 9.0.
gpus=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -un | paste -sd';') || gpus=
if [ -n "$gpus" ]; then
  scripts/build.sh bench -DTUTTI_CUDA=AUTO "-DTUTTI_CUDA_ARCHITECTURES=$gpus"
else
  scripts/build.sh bench -DTUTTI_CUDA=OFF
fi

if [ "${1:-}" = hosts ]; then
  shift
  for shape in 2x1 2x2 2x4 3x1 4x1 4x2; do
    hosts=${shape%x*} ranks=$((${shape/x/*}))
    echo "[bench] $hosts hosts, ${shape#*x} ranks on each"
    build/bench/bench/tutti-bench grid --hosts "$hosts" --ranks "$ranks" --grid-ranks "$ranks" \
      --grid-sizes 8,1K,64K,1M,16M --cell-ms 30 --json "build/bench/hosts-$shape.json" --csv "build/bench/hosts-$shape.csv" "$@"
  done
  exit
fi
if [ $# -eq 0 ]; then
  # Factor 8 covers small, medium and large messages in reasonable time.
  set -- all_reduce -b 8 -e 128M -f 8 --ranks 4 --vs all
fi
echo "[bench] build/bench/bench/tutti-bench $*"
exec build/bench/bench/tutti-bench "$@"
