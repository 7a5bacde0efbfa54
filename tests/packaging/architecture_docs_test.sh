#!/usr/bin/env bash
# Checks that the module diagram in docs/architecture.md matches the build targets.
#   architecture_docs_test.sh MODULES.TSV SOURCE_DIR
set -euo pipefail
modules=$1
cd "$2"
diff docs/pictures/modules.svg <(python3 scripts/draw_modules.py "$modules") ||
  { echo "docs/pictures/modules.svg is out of date: run scripts/docs.sh" && exit 1; }
