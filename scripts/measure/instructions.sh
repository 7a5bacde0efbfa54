#!/usr/bin/env bash
# Counts the instructions of one small call on one rank, by function.
#   scripts/measure/instructions.sh [BUILD_DIR]   default: build/release, which must be built. Needs valgrind
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -O2 -Iinclude bench/instructions/one_call.c -o "$folder/one_call" -L"$build" -ltutti -Wl,-rpath,"$(realpath "$build")"
valgrind --tool=callgrind --instr-atstart=no --collect-atstart=no --callgrind-out-file="$folder/counts" \
  "$folder/one_call" 2>"$folder/log" || { cat "$folder/log" >&2 && exit 1; }
calls=$(sed -n 's/.*kCalls = \([0-9]*\).*/\1/p' bench/instructions/one_call.c)
callgrind_annotate "$folder/counts" | sed -nE 's/^ *([0-9,]+) \( ?[0-9.]+%\) +([^[]*).*/\1 \2/p' |
  awk -v calls="$calls" '{ count = $1; gsub(",", "", count); sub("^[^ ]+ ", ""); printf "%6.0f  %s\n", count / calls, $0 }'
