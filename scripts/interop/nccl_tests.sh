#!/usr/bin/env bash
# Runs NVIDIA's nccl-tests with our libnccl on a machine without a GPU.
#
#   scripts/interop/nccl_tests.sh NCCL_TESTS_DIR [BUILD_DIR]
#
# NCCL_TESTS_DIR is a checkout of https://github.com/NVIDIA/nccl-tests; BUILD_DIR (default build) holds a build of Tutti
# with its tests. nvcc compiles the unchanged nccl-tests against our nccl.h, and they are linked with our libnccl and
# the fake GPU's CUDA runtime (testing/fake_gpu). Each test runs with 1 to 8 ranks, as devices of one thread (-g)
# and as threads (-t), with all types and operators, and must find no errors. A run with a deliberately corrupted result
# must find exactly the corrupted element. Prints a table of the numbers of wrong elements.
#
#   NCCL_INCLUDE, NCCL_LIB  directories of another nccl.h and another libnccl.so.2
#   NCCL_TESTS              tests to run, default all
#   NCCL_TESTS_RANKS        numbers of ranks, default "1 2 3 4 5 6 7 8"
#   TUTTI_FAKE_GPU_SYNC      default 0: streams as on a GPU; 1: the caller does all work (testing/fake_gpu/README.md)
#   JOBS                    parallel compilers, default 1
set -euo pipefail

[[ $# -ge 1 && -f $1/src/common.cu ]] || { sed -n '2,/^set/p' "$0" | sed '/^set/d; s/^# \{0,1\}//'; exit 2; }
source=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${2:-$root/build}" && pwd)
library=${NCCL_LIB:-$build/interop/nccl/lib}
fake_gpu=$build/testing/fake_gpu
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
cuda_include=$(cd "$(dirname "$nvcc")/../include" && pwd)
out=$build/nccl-tests
mkdir -p "$out/include"
# A folder with our header alone: others beside it may have the names of CUDA's.
ln -sf "$root/interop/nccl/nccl.h" "$out/include/nccl.h"
include=${NCCL_INCLUDE:-$out/include}
read -ra tests <<<"${NCCL_TESTS:-all_reduce all_gather reduce_scatter reduce broadcast alltoall alltoallv sendrecv gather scatter hypercube}"
read -ra ranks <<<"${NCCL_TESTS_RANKS:-1 2 3 4 5 6 7 8}"
run_limit=300 # seconds for one run of a test

for file in "$include/nccl.h" "$library/libnccl.so.2" "$fake_gpu/libcudart.so.13" "$fake_gpu/libcuda.so.1"; do
  [[ -f $file ]] || { echo "$0: $file is not there" >&2; exit 2; }
done

# --- Compilation; an object is recompiled only if one of its sources is newer.

# The device code never runs, so it is compiled to unoptimised PTX.
device_flags=(-gencode "arch=compute_90,code=compute_90" -Xcicc -O0)
flags=(-std=c++17 -O1 -DNCCL_OS_LINUX -I"$include" -I"$source/src" -I"$source/verifiable" -I"$source/os" -I"$source")

compile() { # SOURCE OBJECT
  if [[ $2 -nt $1 && $2 -nt $include/nccl.h && $2 -nt $source/src/common.h ]]; then return; fi
  echo "compiling ${1#"$source"/}"
  case $1 in
    *.cu) "$nvcc" "${device_flags[@]}" "${flags[@]}" --extended-lambda -c "$1" -o "$2" ;;
    *) "${CXX:-c++}" "${flags[@]}" -isystem "$cuda_include" -c "$1" -o "$2" ;;
  esac
}

common=(src/common.cu src/util.cu src/timer.cc verifiable/verifiable.cu os/linux.cc)
running=0
objects=()
for file in "${common[@]}" "${tests[@]/#/src/}"; do
  [[ $file == *.c[cu] ]] || file=$file.cu
  name=$(basename "${file%.*}")
  compile "$source/$file" "$out/$name.o" &
  [[ " ${tests[*]} " == *" $name "* ]] || objects+=("$out/$name.o")
  ((++running < ${JOBS:-1})) || { wait -n && running=$((running - 1)); }
done
while ((running-- > 0)); do wait -n; done

for test in "${tests[@]}"; do
  "${CXX:-c++}" -o "$out/$test" "$out/$test.o" "${objects[@]}" -L"$library" -l:libnccl.so.2 -L"$fake_gpu" -l:libcudart.so.13 \
    -lpthread -Wl,-rpath-link,"$build:$fake_gpu"
done

# --- Runs.

export LD_LIBRARY_PATH=$library:$fake_gpu:$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export TUTTI_FAKE_GPU_SYNC=${TUTTI_FAKE_GPU_SYNC-0}
failures=0

# Sets `wrong` to the number of wrong elements, or to the reason why it is unknown.
run() { # TEST RANKS_FLAG RANKS
  local log=$out/$1$2$3.log shape=(-g "$3")
  [[ $2 == -t ]] && shape=(-t "$3" -g 1)
  local status=0
  TUTTI_FAKE_GPU_DEVICES=$3 timeout "$run_limit" "$out/$1" "${shape[@]}" -b 8 -e 4K -f 8 -n 2 -w 1 -d all -o all >"$log" 2>&1 || status=$?
  local rows
  rows=$(grep -cE '^ *[0-9]' "$log" || true)
  # Adds the last column of each half of a row (out of place, in place); N/A counts as 0.
  wrong=$(awk '/^ *[0-9]/ { sum += $(NF - 4) + $NF } END { print sum + 0 }' "$log")
  [[ $rows -gt 0 && ($status -eq 0 || $wrong -gt 0) ]] || wrong="rc=$status"
  # The program's own verdict must agree.
  [[ $wrong == rc=* ]] || grep -q "^# Out of bounds values : .* $( ((wrong)) && echo FAILED || echo OK)" "$log" || wrong='?'
}

# Hypercube needs a power of two of ranks. Its steps depend on each other, but the ranks of one thread are in one group,
# whose operations all run at the same time. So with more than two such ranks, hypercube needs an order that a group
# does not guarantee.
meaningful() { # TEST RANKS_FLAG RANKS
  [[ $1 != hypercube ]] || { (($3 & ($3 - 1))) && return 1; [[ $2 == -t || $3 -le 2 ]]; }
}

printf '%-16s %-8s' '#wrong' ranks
printf ' %5s' "${ranks[@]}"
printf ' %10s\n' corrupted
for test in "${tests[@]}"; do
  for flag in -g -t; do
    printf '%-16s %-8s' "$test" "$([[ $flag == -g ]] && echo devices || echo threads)"
    for n in "${ranks[@]}"; do
      wrong=-
      if meaningful "$test" "$flag" "$n"; then
        run "$test" "$flag" "$n"
        [[ $wrong == 0 ]] || failures=$((failures + 1))
      fi
      printf ' %5s' "$wrong"
    done
    # The fake GPU flips one bit in one buffer, so the test must find exactly one wrong element.
    TUTTI_FAKE_GPU_CORRUPT=1 run "$test" "$flag" 2
    printf ' %10s\n' "$wrong"
    [[ $wrong == 1 ]] || failures=$((failures + 1))
  done
done
if ((failures > 0)); then
  echo "$failures runs were not as they should be; their output is in $out" >&2
  exit 1
fi
