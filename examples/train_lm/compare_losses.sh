#!/usr/bin/env bash
# Checks that runs of train_lm had one run's losses, to rounding.
#   compare_losses.sh REFERENCE OTHER...      files with a loss a line
# Prints each largest relative difference of a step.
set -euo pipefail
reference=$1
shift
status=0
for file in "$@"; do
  paste "$reference" "$file" | awk -v name="$(basename "$file")" '
    NF != 2 { print name ": another number of steps"; bad = 1; exit 1 }
    tolower($0) ~ /nan|inf/ { print name ": a loss that is no number"; bad = 1; exit 1 }
    { apart = ($1 > $2 ? $1 - $2 : $2 - $1) / $1; if (apart > largest) largest = apart }
    END { if (!bad) printf "%s: %.1e\n", name, largest; exit bad || NR == 0 || largest > 1e-4 }' || status=1
done
exit "$status"
