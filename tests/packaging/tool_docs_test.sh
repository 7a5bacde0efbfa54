#!/usr/bin/env bash
# Checks that the tables in docs/topology.md and docs/settings.md match the tool's output, and that the tool draws a
# machine and writes a topology that it can read back.
#   tool_docs_test.sh PATH-OF-TUTTI SOURCE_DIR
set -euo pipefail
tutti=$1
cd "$2"
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

# made_part PAGE NAME: prints the text between the markers of that name.
made_part() { sed -n "/^<!-- made: $2 -->\$/,/^<!-- end: $2 -->\$/p" "$1" | sed '1d;$d'; }
diff <(made_part docs/topology.md rings) <("$tutti" topo --table topology/testdata) ||
  { echo "docs/topology.md is out of date: run scripts/docs.sh" && exit 1; }
diff <(made_part docs/settings.md settings) <("$tutti" settings --markdown) ||
  { echo "docs/settings.md is out of date: run scripts/docs.sh" && exit 1; }

"$tutti" topo --topo topology/testdata/dgxh100.xml --xml "$scratch/again.xml" --svg "$scratch/machine.svg" --nodes 2 --rings \
  >"$scratch/told"
grep -q '</svg>' "$scratch/machine.svg"
sed -i '1d' "$scratch/told" # the file's name
diff "$scratch/told" <("$tutti" topo --topo "$scratch/again.xml" --nodes 2 --rings | sed '1d')

if "$tutti" topo --topo topology/testdata/workstation_2gpu_amd.xml --nodes 2 >/dev/null 2>"$scratch/error"; then
  echo "rings over hosts without a network card" && exit 1
fi
grep -q 'no network card' "$scratch/error"
