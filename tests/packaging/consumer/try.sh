#!/usr/bin/env bash
# Uses an installed Tutti as others do: a C program finds it with find_package and with pkg-config, and an MPI program,
# compiled without it, runs over it where the prefix has the layer for an MPI of this machine.
#   try.sh PREFIX WORK_DIR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=$1
work=$2
cc=${CC:-cc}

echo "--- find_package"
cmake -S "$here" -B "$work/cmake" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix" -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/cmake"
"$work/cmake/consumer"

echo "--- pkg-config"
pc=$(find "$prefix" -name tutti.pc)
export PKG_CONFIG_LIBDIR=${pc%/*}
# shellcheck disable=SC2046  # pkg-config's answer is several words
"$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror "$here/consumer.c" -o "$work/consumer" $(pkg-config --cflags --libs tutti)
"$work/consumer"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
while read -r layer; do
  mpi=${layer##*_}
  mpi=${mpi%.so}
  mpicc=mpicc.$mpi mpirun=mpirun.$mpi
  if [ "$mpi" = abi ]; then # in no package of Debian: scripts/measure/peers.sh installs it
    mpicc=$(PATH=$PATH:$here/../../../build/peers/mpich5/bin command -v mpicc_abi) || mpicc=mpicc_abi
    mpirun=$(dirname "$mpicc")/mpirun
  fi
  if ! command -v "$mpicc" >/dev/null || ! command -v "$mpirun" >/dev/null; then
    echo "--- there is no $mpi on this machine"
    continue
  fi
  echo "--- $mpi"
  "$mpicc" "$here/mpi_program.c" -o "$work/mpi_program"
  "$mpirun" -n 2 env LD_PRELOAD="$layer" TUTTI_MPI_REPORT=1 "$work/mpi_program" </dev/null 2>&1 | tee "$work/report"
  grep -qE 'MPI_Allreduce +[1-9]' "$work/report" || { echo "no call ran over Tutti" && exit 1; }
done < <(find "$prefix" -name 'libtutti_pmpi_*.so')
