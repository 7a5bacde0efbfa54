#!/bin/sh
# usage: check_symbols.sh libtutti.so symbols.expected
# Checks that the library exports exactly the expected names, each with its version. A name that disappears or changes
# its version breaks programs that are already linked. A new name must stay in the ABI, so it has to be added to the
# list.
set -eu
actual=$(nm -D --defined-only "$1" | awk '$2 != "A" {print $3}' | LC_ALL=C sort)
if ! difference=$(printf '%s\n' "$actual" | diff -u "$2" -); then
  printf 'The exported symbols differ from %s:\n%s\n' "$2" "$difference"
  exit 1
fi
