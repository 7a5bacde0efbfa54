#!/usr/bin/env bash
# Configures a build without any optional library, and checks that CMake prints what is left out.
#   configures_without_test.sh SOURCE
set -euo pipefail
source=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake -S "$source" -B "$folder" -DTUTTI_HWLOC=OFF -DTUTTI_HAVE_UCX=OFF -DTUTTI_HAVE_VERBS=OFF -DTUTTI_CUDA=OFF \
  -DTUTTI_MPICC_mpich=/bin/false -DTUTTI_MPICC_openmpi=/bin/false \
  -DTUTTI_BENCH=OFF -DTUTTI_EXAMPLES=OFF -DTUTTI_TESTS=OFF >"$folder/log" 2>&1 || { cat "$folder/log" && exit 1; }
for words in "No hwloc" "Without ucx" "Without verbs" "No nvcc" "/bin/false .* no mpich module" "/bin/false .* no openmpi module"; do
  grep -q -e "-- $words" "$folder/log" || { cat "$folder/log" && echo "the build does not print '$words'" && exit 1; }
done
