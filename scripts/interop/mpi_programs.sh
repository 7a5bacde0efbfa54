#!/usr/bin/env bash
# Runs programs of MPI that are not ours with the layer libtutti_pmpi and without it (docs/mpi.md): Intel's IMB-MPI1,
# mpi4py's own tests, and hpcc where it is installed; on Intel MPI, MPICH 5 and Open MPI 5 from PyPI, and on the former two
# by the ABI of the MPI standard, too (impi_abi, mpich5_abi).
#   scripts/interop/mpi_programs.sh FOLDER [BUILD_DIR] [STEP...]
# Installs and builds into FOLDER what is not there yet (1 GB, from PyPI and GitHub), and leaves nothing elsewhere.
# BUILD_DIR (default build/release) holds a build of Tutti with the layers. STEP, default all:
#   check    IMB's collectives with IMB's own checks, with the layer: an error for each wrong cell
#   mpi4py   its whole test-suite, with and without, a job for each file: which tests do not pass
#   hpcc     hpcc with a small input, with and without: which of its own tests fail
#   times    IMB's times, with and without, into docs/notebook/frameworks/mpi_imb.csv. Wants an otherwise idle machine
#   MPIS     which MPIs, default "impi impi_abi mpich5 mpich5_abi openmpi5"
#   RANKS    how many ranks, default "2 4"
#   REPEATS  pairs of runs of which the times are the medians, default 9
#   SYNC     off: IMB's ranks do not meet by a barrier before each call; default on, as IMB has it
# Exits with 1 if a result with the layer is wrong, or a test passes only without it.
set -euo pipefail
[[ $# -ge 1 ]] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
build=$root/build/release
if [[ $# -gt 0 && -d $1 ]]; then
  build=$(cd "$1" && pwd)
  shift
fi
steps=${*:-check mpi4py hpcc times}
read -ra mpis <<<"${MPIS:-impi impi_abi mpich5 mpich5_abi openmpi5}"
say() { echo "[mpi] $*"; }

"$root/scripts/measure/peers.sh" "$folder/peers"
[[ -d $folder/imb ]] || git clone --quiet --depth 1 https://github.com/intel/mpi-benchmarks "$folder/imb"

# One IMB per ABI: "mpich" and "abi" for Intel MPI and MPICH 5, "openmpi". `define` is -DCHECK, or nothing.
build_imb() {  # build_imb NAME PEER [DEFINE]
  local place=$folder/imb_$1 peer=$folder/peers/$2 library=-lmpi
  [[ $1 != abi* ]] || library="-DMPI_ABI -lmpi_abi"
  [[ ! -e $place/src_cpp/IMB-MPI1 ]] || return 0
  say "building IMB-MPI1 into $place"
  rm -rf "$place"
  cp -r "$folder/imb" "$place"
  local flags="-DMPICH_SKIP_MPICXX -DOMPI_SKIP_MPICXX -I$peer/include -Wl,--no-as-needed -L$peer/lib $library ${3:-}"
  # Newer compilers warn about it; and a benchmark is to be compiled with optimisation.
  sed -i 's/ -Werror//g; s/-O0/-O2/g' "$place"/src_cpp/Makefile "$place"/src_cpp/MPI1/Makefile.MPI1.mk
  make -C "$place/src_cpp" -j2 TARGET=MPI1 CC="gcc $flags" CXX="g++ $flags" >"$place/build.log" 2>&1 ||
    { tail -n 20 "$place/build.log" && exit 1; }
}
build_imb mpich mpich5
build_imb mpich_check mpich5 -DCHECK
build_imb abi mpich5
build_imb abi_check mpich5 -DCHECK
build_imb openmpi openmpi5
build_imb openmpi_check openmpi5 -DCHECK

if [[ $steps == *mpi4py* && ! -d $folder/mpi4py ]]; then
  # Its wheel is for MPICH's ABI and Open MPI's.
  python3 -m venv "$folder/python"
  "$folder/python/bin/pip" install --quiet --disable-pip-version-check mpi4py numpy
  python3 -m venv "$folder/python_abi"
  MPICC="$folder/peers/mpich5/bin/mpicc_abi" "$folder/python_abi/bin/pip" install --quiet --disable-pip-version-check \
    --no-binary mpi4py mpi4py numpy
  version=$("$folder/python/bin/python" -c 'import mpi4py; print(mpi4py.__version__)')
  git clone --quiet --depth 1 --branch "$version" https://github.com/mpi4py/mpi4py "$folder/mpi4py"
fi

failures=0
for step in $steps; do
  python3 "$root/scripts/interop/mpi_programs.py" "$step" --folder "$folder" --layers "$build/interop/pmpi" \
    --data "$root/docs/notebook/frameworks" --repeats "${REPEATS:-9}" --sync "${SYNC:-on}" --ranks ${RANKS:-2 4} --mpis "${mpis[@]}" || failures=1
done
exit "$failures"
