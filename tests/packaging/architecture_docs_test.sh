#!/usr/bin/env bash
# Checks that docs/architecture.md is true. Its pictures are current: the modules match the build targets, and the
# functions of a call's walk are in the files where the picture shows them. No code but what makes them names an
# algorithm, a collective or a data type.
#   architecture_docs_test.sh MODULES.TSV SOURCE_DIR
set -euo pipefail
modules=$1
cd "$2"
diff docs/pictures/modules.svg <(python3 scripts/docs/draw_modules.py "$modules") ||
  { echo "docs/pictures/modules.svg is out of date: run scripts/docs.sh" && exit 1; }
diff docs/pictures/walk.svg <(python3 scripts/docs/draw_walk.py) ||
  { echo "docs/pictures/walk.svg is out of date: correct docs/walk.tsv and run scripts/docs.sh" && exit 1; }
# Fails if product code outside the allowed files names what a record describes. Tests name it, too.
#   refuse WORDS FOLDERS HARMLESS ALLOWED ADVICE   patterns of grep -E: what names one; lines that may; files that may
refuse() {
  local named
  # shellcheck disable=SC2086 # the folders are words
  named=$(grep -rnE "$1" --include='*.cc' --include='*.h' --include='*.cu' --include='*.cuh' $2 |
    grep -vE "$3" | grep -vE "^($4)" |
    grep -vE '^[^:]*_(test|testing|fuzz)\.(cc|h):|^[^:]*/tests/' || true)
  [ -z "$named" ] && return
  echo "$named"
  echo "$5"
  exit 1
}
product='algorithms base bench executors interop net selection src tools topology transports'
# Figures about certain algorithms name them; NCCL's words for algorithms stand for certain ones.
refuse 'tuttiAlgorithm[A-Z]' "$product parallel" 'tuttiAlgorithmNone|tuttiAlgorithmName\(' \
  'algorithms/builders/|tools/simulator/(claims|published)\.cc|interop/nccl/environment/choice_lists\.cc' \
  'These lines name an algorithm. What they need to know of it belongs into its record: algorithms/builders/records.h.'
# Another library's types are translated in one file each. Bytes, indices and plain floats have types of their own, which
# any code may use; `tutti calibrate` times a sum in one type; tutti_parallel computes in some types, and its Python bindings
# pass them on.
refuse 'tutti(Int16|Uint16|Int32|Uint32|Uint64|Float16|Float64|Bfloat16|Float8e4m3|Float8e5m2)\b' "$product" '^$' \
  'base/numbers/datatype\.h|tools/tuning/calibrate\.cc|interop/(nccl/convert\.h|python/src/parallel/.*|torch/csrc/ops/elements\.cc)' \
  'These lines name a data type. What they need to know of it follows from base/numbers/datatype.h: VisitDataType.'
# Builders have forms, src/api has functions, libraries that the bench compares have functions; a barrier is an
# all-reduce; the bench and tools make certain experiments. The MPI layer's enumeration is of MPI's functions.
refuse 'Collective::(all_reduce|reduce_scatter|all_gather|all_to_all|broadcast|reduce|gather|scatter)\b' \
  "${product/interop/}" 'collective = (schedule::)?Collective::all_reduce;' \
  'base/collectives/|algorithms/builders/|src/api/|src/plan/planning\.cc|bench/(worker/collective|backends/library_[a-z]*|driver/grid|report/grid_report)\.cc|tools/' \
  'These lines name a collective. What they need to know of it belongs into its record: base/collectives/collective.h.'
