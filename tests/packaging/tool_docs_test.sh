#!/usr/bin/env bash
# Checks that docs/notebook/topology/rings.csv, the table in docs/settings.md and the pictures of schedules match
# the tool's output, and that the tool draws a machine and writes a topology that it can read back.
#   tool_docs_test.sh PATH-OF-TUTTI SOURCE_DIR
set -euo pipefail
tutti=$1
cd "$2"
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

# made_part PAGE NAME: prints the text between the markers of that name.
made_part() { sed -n "/^<!-- made: $2 -->\$/,/^<!-- end: $2 -->\$/p" "$1" | sed '1d;$d'; }
diff docs/notebook/topology/rings.csv \
  <("$tutti" topo --table topology/testdata | awk -f scripts/docs/markdown_csv.awk) ||
  { echo "docs/notebook/topology/rings.csv is out of date: run scripts/docs.sh" && exit 1; }
diff <(made_part docs/settings.md settings) <("$tutti" settings --markdown) ||
  { echo "docs/settings.md is out of date: run scripts/docs.sh" && exit 1; }

scripts/docs/draw_why_all_reduce.py "$tutti" "$scratch"
scripts/docs/draw_introduction.py "$tutti" "$scratch"
"$tutti" show all_reduce ring --ranks 4 --svg "$scratch/why_schedule.svg"
for picture in "$scratch"/*.svg; do
  cmp "$picture" "docs/pictures/${picture##*/}" || { echo "run scripts/docs.sh" && exit 1; }
done

"$tutti" topo --topo topology/testdata/dgxh100.xml --xml "$scratch/again.xml" --svg "$scratch/machine.svg" --nodes 2 --rings \
  >"$scratch/told"
grep -q '</svg>' "$scratch/machine.svg"
sed -i '1d' "$scratch/told" # the file's name
diff "$scratch/told" <("$tutti" topo --topo "$scratch/again.xml" --nodes 2 --rings | sed '1d')

# The picture of prices has a curve for each algorithm that has a price.
"$tutti" explain all_reduce 1M --ranks 8 --plot "$scratch/prices" >"$scratch/explained"
grep -oE '^ +[0-9.]+ us  [a-z_]+,' "$scratch/explained" | awk '{print $3}' | tr -d , >"$scratch/priced"
[ "$(wc -l <"$scratch/priced")" -ge 4 ] || { cat "$scratch/explained" && exit 1; }
while read -r algorithm; do
  grep -q ">$algorithm</text>" "$scratch/prices" || { echo "explain --plot draws no curve of $algorithm" && exit 1; }
done <"$scratch/priced"

# Ranks that share a GPU: every cell has a time, of eight collectives and of a message, and a GPU that is not known is refused.
"$tutti" predict --one-gpu h100 --ranks 2 -b 8 -e 4K >"$scratch/predicted.csv"
[ "$(grep -cE '^[a-z_]+,2,(8|64|512|4096),[0-9]+\.[0-9]+,[a-z_]+,[0-9]+,(line|bulk),[0-9]+$' "$scratch/predicted.csv")" -eq 36 ] ||
  { cat "$scratch/predicted.csv" && exit 1; }
if "$tutti" explain all_reduce 8 --one-gpu v100 --ranks 2 >/dev/null 2>"$scratch/error"; then
  echo "an unknown GPU" && exit 1
fi
grep -q 'did you mean a100? Known are a100, h100, h200, b200' "$scratch/error"

if "$tutti" topo --topo topology/testdata/workstation_2gpu_amd.xml --nodes 2 >/dev/null 2>"$scratch/error"; then
  echo "rings over hosts without a network card" && exit 1
fi
grep -q 'no network card' "$scratch/error"
