#!/usr/bin/env bash
# Runs NCCL's example of a profiler plug-in with our libnccl.
#   example_profiler.sh NCCL_DIR TUTTI_NCCL_TESTS [COMPILER_OPTION...]
# NCCL_DIR is a repository of https://github.com/NVIDIA/nccl, with or without a work tree. TUTTI_NCCL_TESTS is the
# program of the tests. The options are those by which the compiler finds CUDA's headers and runtime, if it does not.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: $0 NCCL_DIR TUTTI_NCCL_TESTS [COMPILER_OPTION...]" >&2 && exit 2; }
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
git -C "$1" archive HEAD plugins/profiler/example | tar -x -C "$work"
example=$work/plugins/profiler/example
"${CXX:-c++}" -w -shared -fPIC -I"$example/nccl" "$example"/*.cc -o "$work/example.so" "${@:3}"
TUTTI_NCCL_EXAMPLE_PROFILER=$work/example.so "$2" --gtest_filter=NcclProfiler.NcclsExampleWritesATrace | tee "$work/output"
grep -q "PASSED.* 1 test" "$work/output" # not 0
