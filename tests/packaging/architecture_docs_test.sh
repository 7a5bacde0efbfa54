#!/usr/bin/env bash
# Checks that the pictures of docs/architecture.md are current: the modules match the build targets, and the functions of
# a call's walk are in the files where the picture shows them.
#   architecture_docs_test.sh MODULES.TSV SOURCE_DIR
set -euo pipefail
modules=$1
cd "$2"
diff docs/pictures/modules.svg <(python3 scripts/draw_modules.py "$modules") ||
  { echo "docs/pictures/modules.svg is out of date: run scripts/docs.sh" && exit 1; }
diff docs/pictures/walk.svg <(python3 scripts/draw_walk.py) ||
  { echo "docs/pictures/walk.svg is out of date: correct docs/walk.tsv and run scripts/docs.sh" && exit 1; }
