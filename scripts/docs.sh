#!/usr/bin/env bash
# Generates parts of docs/: pictures, and tables between the lines <!-- made: NAME --> and <!-- end: NAME -->. GPU
# measurements come from docs/data/gpu (scripts/gpu_kit.sh). The table of kernels needs a disassembler
# (scripts/test/kernels.sh).
#   scripts/docs.sh [PATH-OF-TUTTI]       default: build/release/tools/tutti
#   scripts/docs.sh site [REPOSITORY]     builds the pages as a site, build/site/index.html, which opens from disk, with a
#                                         link to the repository's URL. mkdocs comes from PyPI into build/site_tools;
#                                         status 77: it cannot be had
set -euo pipefail
cd "$(dirname "$0")/.."

# The pages in one folder. Links to files that are not among them become plain names.
site() {
  local tools=build/site_tools pages=build/site_pages page
  if [ ! -e "$tools/complete" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check 'mkdocs-material>=9,<10' ||
      { rm -rf "$tools" && echo "$0: mkdocs-material cannot be had from PyPI" >&2 && exit 77; }
    touch "$tools/complete"
  fi
  rm -rf "$pages" build/site
  mkdir -p "$pages"
  cp -r docs/*.md docs/pictures docs/notebook docs/site/extra.css "$pages"
  cp README.md "$pages/index.md"
  cp CHANGELOG.md CONTRIBUTING.md RELEASING.md SECURITY.md "$pages"
  scripts/docs/api_reference.py >"$pages/reference_c.md"
  scripts/docs/python_reference.py >"$pages/reference_python.md"
  for page in "$pages"/*.md "$pages"/notebook/*/*.md; do
    sed -i -E 's#\]\((\.\./)?docs/((notebook/[a-z]+/)?[a-zA-Z_-]+\.md)#](\2#g; s#\]\(docs/(pictures/[^)]*)\)#](\1)#g; s#\]\((\.\./)?README\.md\)#](index.md)#g
               s#\]\(\.\./((SECURITY|CONTRIBUTING|CHANGELOG|RELEASING)\.md)#](\1#g' "$page"
    sed -i -E 's#\[([^]]*)\]\((\.\./)*((include|testing|scripts|examples|interop|base|src|tests|algorithms|transports|(docs/)?data)/[^)]*|LICENSE)\)#\1 (`\3`)#g' "$page"
  done
  SITE_NAME="Tutti $(sed -nE 's/^project.tutti VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)" SITE_REPOSITORY=${1:-} NO_MKDOCS_2_WARNING=1 "$tools/bin/mkdocs" build --quiet --strict --config-file docs/site/mkdocs.yml
  # The plug-in for pages on disk loads a script from another host.
  cp docs/site/file_worker.js build/site
  find build/site -name '*.html' -exec sed -i 's#https://unpkg.com/iframe-worker/shim#file_worker.js#g' {} +
  echo "build/site/index.html"
}
if [ "${1:-}" = site ]; then
  site "${2:-}"
  exit
fi
tutti=${1:-build/release/tools/tutti}
[ -x "$tutti" ] || { echo "$0: there is no $tutti; build it, or give its path" >&2 && exit 1; }

# between FILE NAME: replaces the text between the markers of that name by standard input.
between() {
  local made
  made=$(mktemp)
  cat >"$made"
  for marker in "<!-- made: $2 -->" "<!-- end: $2 -->"; do
    grep -qxF -- "$marker" "$1" || { echo "$0: $1 has no line $marker" >&2 && exit 1; }
  done
  sed -i -e "/^<!-- made: $2 -->\$/,/^<!-- end: $2 -->\$/{/^<!-- /!d}" -e "/^<!-- made: $2 -->\$/r $made" "$1"
  rm "$made"
}

scripts/docs/draw_modules.py "$(dirname "$tutti")/../modules.tsv" >docs/pictures/modules.svg
scripts/docs/draw_walk.py >docs/pictures/walk.svg
scripts/docs/draw_performance.py docs/pictures
scripts/docs/draw_why_all_reduce.py "$tutti" docs/pictures
scripts/docs/draw_introduction.py "$tutti" docs/pictures
scripts/docs/draw_parallel.py docs/pictures
scripts/docs/draw_faults.py docs/pictures
"$tutti" show all_reduce ring --ranks 4 --svg docs/pictures/why_schedule.svg
"$tutti" settings --markdown | between docs/settings.md settings
scripts/docs/nccl_functions.py table | between docs/nccl.md "nccl functions"
environment=$(dirname "$tutti")/../interop/nccl/tutti_nccl_environment_table
[ ! -x "$environment" ] || "$environment" | between docs/nccl_environment.md environment
"$tutti" topo --table topology/testdata | awk -f scripts/docs/markdown_csv.awk >docs/notebook/topology/rings.csv
"$tutti" topo --topo topology/testdata/dgxh100.xml --nodes 2 --svg docs/pictures/topology-dgxh100.svg >/dev/null
"$tutti" topo --topo topology/testdata/dgx1v.xml --nodes 2 --svg docs/pictures/topology-dgx1v.svg >/dev/null
"$tutti" simulate --published selection/simulator/testdata/published.csv | scripts/docs/draw_published.py docs |
  between docs/simulator.md published
"$tutti" simulate --claims docs/pictures
# The cost model predicts the cells of the kit's group `measure`. Once they have been measured, predictions must not change.
notes=docs/notebook/gpu
if ! compgen -G 'docs/data/gpu/*/gpu_measure.json' >/dev/null; then
  for gpu in h100 h200; do
    for ranks in 2 4 8; do
      "$tutti" predict --one-gpu $gpu --ranks $ranks -b 8 -e 32M -f 8
      "$tutti" predict --one-gpu $gpu --ranks $ranks -b 256M -e 1G -f 4
    done | awk 'NR == 1 || !/^collective/' >$notes/gpu_predicted_$gpu.csv
  done
fi
for gpu in docs/data/gpu/*/; do
  for table in bandwidth latency; do scripts/docs/gpu_tables.py --$table "$gpu"gpu_*.json >"$gpu$table.csv"; done
done
for table in tests results predictions; do
  for gpu in docs/data/gpu/*/; do scripts/docs/gpu_tables.py --$table "$gpu"gpu_*.json; done | between $notes/$table.md gpu
done
scripts/docs/draw_gpu.py docs/pictures
pipeline=$(dirname "$tutti")/../examples/pipeline
"$pipeline" draw all 4 8 2 >docs/pictures/pipeline_schedules.svg
"$pipeline" draw 1F1B 4 8 >docs/pictures/parallel_pipeline.svg
# Leaves the table unchanged if the library was built without kernels or there is no disassembler.
if kernels=$(scripts/test/kernels.sh "$(dirname "$tutti")/.." 2>/dev/null); then
  between $notes/compiler.md kernels <<<"$kernels"
fi
