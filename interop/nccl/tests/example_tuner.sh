#!/usr/bin/env bash
# Runs NCCL's example of a tuner plug-in with our libnccl.
#   example_tuner.sh NCCL_DIR TUTTI_NCCL_TESTS
# NCCL_DIR is a repository of https://github.com/NVIDIA/nccl, with or without a work tree. TUTTI_NCCL_TESTS is the
# program of the tests.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: $0 NCCL_DIR TUTTI_NCCL_TESTS" >&2 && exit 2; }
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
git -C "$1" archive HEAD plugins/tuner/example | tar -x -C "$work"
"${CC:-cc}" -w -shared -fPIC -I"$work/plugins/tuner/example/nccl" "$work/plugins/tuner/example/plugin.c" -o "$work/example.so"
TUTTI_NCCL_EXAMPLE_TUNER=$work/example.so "$2" --gtest_filter=NcclTuner.NcclsExampleChooses | tee "$work/output"
grep -q "PASSED.* 1 test" "$work/output" # not 0
