#!/usr/bin/env bash
# Checks that docs/architecture.md is true. Its pictures are current: the modules match the build targets, and the
# functions of a call's walk are in the files where the picture shows them. No code but the builders' names an algorithm.
#   architecture_docs_test.sh MODULES.TSV SOURCE_DIR
set -euo pipefail
modules=$1
cd "$2"
diff docs/pictures/modules.svg <(python3 scripts/docs/draw_modules.py "$modules") ||
  { echo "docs/pictures/modules.svg is out of date: run scripts/docs.sh" && exit 1; }
diff docs/pictures/walk.svg <(python3 scripts/docs/draw_walk.py) ||
  { echo "docs/pictures/walk.svg is out of date: correct docs/walk.tsv and run scripts/docs.sh" && exit 1; }
# Tests, and figures about certain algorithms, name them; NCCL's words for algorithms stand for certain ones.
named=$(grep -rnE 'tuttiAlgorithm[A-Z]' --include='*.cc' --include='*.h' --include='*.cu' --include='*.cuh' \
  algorithms base bench command_line executors interop net parallel selection src tools topology transports |
  grep -vE 'tuttiAlgorithmNone|tuttiAlgorithmName\(' |
  grep -vE '^algorithms/builders/|^tools/simulator/(claims|published)\.cc|^interop/nccl/environment/choice_lists\.cc' |
  grep -vE '^[^:]*_(test|testing|fuzz)\.(cc|h):') || true
if [ -n "$named" ]; then
  echo "$named"
  echo "These lines name an algorithm. What they need to know of it belongs into its record: algorithms/builders/records.h."
  exit 1
fi
