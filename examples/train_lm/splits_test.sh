#!/usr/bin/env bash
# Checks that train_lm trains the same with every split, and refuses sizes that do not divide.
#   splits_test.sh FOLDER      FOLDER has the built program
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$1/train_lm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# train RANKS NAME FLAGS...
train() {
  local ranks=$1 name=$2
  shift 2
  examples/run.sh "$ranks" "$program" --steps 5 --losses "$work/$name" "$@" >"$work/log"
}
train 1 one
train 2 tp --tensor 2
train 2 tp_sp --tensor 2 --sequence-parallel
train 2 dp
train 2 pp_gpipe --pipeline 2 --schedule GPipe
train 4 pp --pipeline 4
train 8 all --tensor 2 --sequence-parallel --pipeline 2
examples/train_lm/compare_losses.sh "$work/one" "$work"/{tp,tp_sp,dp,pp_gpipe,pp,all}
cmp "$work/one" "$work/pp"
awk '{ print $1 * (NR == 3 ? 1.001 : 1) }' "$work/one" >"$work/other"
sed '3 s/.*/nan/' "$work/one" >"$work/nan"
for wrong in other nan; do
  if examples/train_lm/compare_losses.sh "$work/one" "$work/$wrong"; then
    echo "losses that differ were taken for the same" >&2
    exit 1
  fi
done

refused() {
  local words=$1
  shift
  if train "$@" 2>"$work/error"; then
    echo "$* was not refused" >&2
    exit 1
  fi
  grep -F -- "$words" "$work/error"
}
refused "heads (3) is not divisible by tensor_model_parallel_size (2)" 2 refused --tensor 2 --heads 3 --hidden 66
refused "layers (5) is not divisible by pipeline_model_parallel_size (2)" 2 refused --pipeline 2 --layers 5
refused "--batch" 1 refused --batch 0
refused "--sequence" 1 refused --sequence 0
if examples/run.sh 1 "$program" --steps 1 --losses "$work/nowhere/losses" 2>"$work/error"; then
  echo "losses that nobody can write were not refused" >&2
  exit 1
fi
grep -F "$work/nowhere/losses" "$work/error"
refused "a replica's samples (4) is not divisible by microbatches (3)" 2 refused --microbatches 3
