#!/usr/bin/env bash
# Trains the language model of examples/train_lm on one rank and with every split, on a fresh checkout: installs missing
# packages, builds Release, trains, and reports how far each loss curve is from one rank's, and how much each split
# sends.
#   scripts/measure/train.sh [STEPS]        200 steps by default
# Writes the losses and their chart to build/release/train. Fails if a curve differs from one rank's by more than 1e-4
# (relative), or if two deterministic runs differ in a bit.
set -euo pipefail
cd "$(dirname "$0")/../.."
steps=${1:-200}

scripts/setup.sh
scripts/build.sh release
build=build/release/examples/train_lm
out=build/release/train
mkdir -p "$out"

# losses RANKS FILE FLAGS...
losses() {
  local ranks=$1 file=$2
  shift 2
  examples/run.sh "$ranks" "$build/train_lm" --steps "$steps" --losses "$out/$file.txt" "$@" >"$out/$file.log" 2>&1 || {
    cat "$out/$file.log" >&2
    return 1
  }
}

# name|ranks|flags
dense=(
  "DP 2|2|"
  "TP 2|2|--tensor 2"
  "TP+SP 2|2|--tensor 2 --sequence-parallel"
  "PP 2, GPipe|2|--pipeline 2 --schedule GPipe"
  "PP 2, 1F1B|2|--pipeline 2 --schedule 1F1B"
  "PP 2, Interleaved1F1B of 2|2|--pipeline 2 --schedule Interleaved1F1B --virtual-stages 2"
  "PP 2, ZB-H1|2|--pipeline 2 --schedule ZB-H1"
  "PP 4, GPipe|4|--pipeline 4 --schedule GPipe"
  "PP 4, 1F1B|4|--pipeline 4 --schedule 1F1B"
  "PP 4, ZB-H1|4|--pipeline 4 --schedule ZB-H1"
  "TP x PP x DP = 2 x 2 x 2|8|--tensor 2 --pipeline 2"
  "TP x PP x DP = 2 x 2 x 2, ZB-H1|8|--tensor 2 --pipeline 2 --schedule ZB-H1"
  "CP 2, Ulysses|2|--context 2 --ulysses 2"
  "CP 2, ring|2|--context 2"
  "CP 4, ring|4|--context 4"
  "CP 4, Ulysses 2 x ring 2|4|--context 4 --ulysses 2"
  "TP+SP 2 x CP 2 x PP 2|8|--tensor 2 --sequence-parallel --context 2 --pipeline 2"
)

# Data-parallel ranks that shard the optimiser's state, gradients and parameters.
sharded=(
  "ZeRO-1, DP 2|2|--zero 1"
  "ZeRO-2, DP 2|2|--zero 2"
  "ZeRO-3, DP 2|2|--zero 3"
  "ZeRO-1, DP 4|4|--zero 1 --microbatches 2"
  "ZeRO-2, DP 4|4|--zero 2 --microbatches 2"
  "ZeRO-3, DP 4|4|--zero 3 --microbatches 2"
  "HSDP 2 x 2|4|--zero 3 --shard-group 2 --microbatches 2"
  "TP x PP x DP = 2 x 2 x 2, ZeRO-1|8|--zero 1 --tensor 2 --pipeline 2"
  "TP+SP x PP x DP = 2 x 2 x 2, ZeRO-3|8|--zero 3 --tensor 2 --pipeline 2 --sequence-parallel"
)
# The same with every pipeline schedule, and with experts, which are sharded among the ranks that hold the same experts.
shared_experts=()
for zero in 1 2 3; do
  sharded+=(
    "PP 2 x DP 2, Interleaved1F1B, ZeRO-$zero|4|--zero $zero --pipeline 2 --schedule Interleaved1F1B --virtual-stages 2"
    "PP 2 x DP 2, ZB-H1, ZeRO-$zero|4|--zero $zero --pipeline 2 --schedule ZB-H1"
  )
  shared_experts+=(
    "DP 4, ZeRO-$zero|4|--zero $zero --microbatches 1"
    "EP 2 x DP 2, ZeRO-$zero|4|--zero $zero --expert 2 --microbatches 1"
    "EP 4, ZeRO-$zero|4|--zero $zero --expert 4 --microbatches 1"
    "PP 2 x EP 2, ZeRO-$zero|4|--zero $zero --pipeline 2 --expert 2 --microbatches 2"
    "PP 2 x DP 2, ZB-H1, ZeRO-$zero|4|--zero $zero --pipeline 2 --schedule ZB-H1 --microbatches 2"
  )
done
shared_experts+=("HSDP 2 x 2, EP 2|4|--zero 3 --shard-group 2 --expert 2 --expert-shard-group 1 --microbatches 1")
# With one micro-batch, as the papers count.
once=(
  "DP 4|4|--microbatches 1"
  "ZeRO-1, DP 4|4|--zero 1 --microbatches 1"
  "ZeRO-2, DP 4|4|--zero 2 --microbatches 1"
  "ZeRO-3, DP 4|4|--zero 3 --microbatches 1"
  "HSDP 2 x 2|4|--zero 3 --shard-group 2 --microbatches 1"
)

# Experts need whole tokens: tensor parallelism splits the sequence, but not the experts. All runs compute the same
# micro-batches.
mixture=(
  "DP 2|2|--microbatches 2"
  "EP 2|2|--expert 2 --microbatches 2"
  "EP 2 x DP 2|4|--expert 2 --microbatches 1"
  "EP 4|4|--expert 4 --microbatches 1"
  "PP 2 x EP 2|4|--pipeline 2 --expert 2 --microbatches 2"
  "CP 4, Ulysses 2 x ring 2, x EP 4|4|--context 4 --ulysses 2 --expert 4"
  "TP+SP 2 x EP 4 x DP 4|8|--tensor 2 --sequence-parallel --expert-tensor 1 --expert 4 --microbatches 1"
)
experts="--experts 4 --top-k 2 --feed-forward 128"

# Baselines for ring-based data parallelism.
baselines=(
  "DP 4, all-reduce|4|--microbatches 2"
  "DP 4, parameter server|4|--microbatches 2 --data-parallel parameter-server"
  "DP 4, 4 servers|4|--microbatches 2 --data-parallel parameter-server --servers 4 --bucket-bytes 30000"
  "DP 4, gradient broadcast|4|--microbatches 2 --data-parallel broadcast"
)

status=0

# compare CHART ONE-RANK-FLAGS SPLITS...
compare() {
  local chart=$1 flags=$2 split name ranks more files=() index=0
  shift 2
  # shellcheck disable=SC2086  # flags are several words
  losses 1 "$chart-one" $flags
  files+=("one rank=$out/$chart-one.txt")
  for split in "$@"; do
    IFS='|' read -r name ranks more <<<"$split"
    index=$((index + 1))
    # shellcheck disable=SC2086
    losses "$ranks" "$chart-$index" $flags $more
    files+=("$name=$out/$chart-$index.txt")
  done
  "$build/compare_losses" "$out/$chart.svg" "${files[@]}" || status=1
}

echo "[train] losses, $steps steps"
compare dense "" "${dense[@]}"
echo
compare sharded "" "${sharded[@]}"
echo
compare mixture "$experts" "${mixture[@]}"
echo
compare shared-experts "$experts" "${shared_experts[@]}"
echo
compare baselines "" "${baselines[@]}"

echo
echo "[train] deterministic: two runs of a split, bit for bit"
# twice NAME RANKS FLAGS...
twice() {
  local name=$1 ranks=$2
  shift 2
  losses "$ranks" again-1 --deterministic "$@"
  losses "$ranks" again-2 --deterministic "$@"
  if cmp "$out/again-1.txt" "$out/again-2.txt"; then echo "$name: equal"; else status=1; fi
}
twice "TP x PP x DP = 2 x 2 x 2" 8 --tensor 2 --pipeline 2
# shellcheck disable=SC2086
twice "PP 2 x EP 2 x DP 4" 8 --pipeline 2 --expert 2 --microbatches 2 $experts

echo
echo "[train] bytes that all ranks send in a step, by the library's counters and by the formula"
echo "| split | by | sent | formula |"
echo "|---|---|---|---|"
# bytes WHAT FLAGS SPLITS...: prints as table rows the lines of train_lm that begin with WHAT.
bytes() {
  local what=$1 flags=$2 split name ranks more
  shift 2
  for split in "$@"; do
    IFS='|' read -r name ranks more <<<"$split"
    # shellcheck disable=SC2086
    examples/run.sh "$ranks" "$build/train_lm" --steps 2 --algorithm ring --bytes $flags $more |
      sed -n "s/^$what \([a-z0-9 -]*\): sent \([0-9]*\), by the formula \([0-9]*\)\$/| $name | \1 | \2 | \3 |/p" | grep -v "| 0 | 0 |"
  done
}
bytes bytes "" "${dense[@]}" "${sharded[@]}"
bytes bytes "$experts" "${mixture[@]}" "${shared_experts[@]}"
bytes bytes "" "${baselines[@]}"
echo "| in one micro-batch | | | |"
bytes bytes "" "${once[@]}"

echo
echo "[train] bytes that each rank sends in a step"
echo "| split | rank, group | sent | formula |"
echo "|---|---|---|---|"
bytes rank "" "${baselines[@]}"

echo
echo "[train] bytes of memory that rank 0's training state took at most, 16 layers, and the formula's"
echo "| split | of | taken | formula |"
echo "|---|---|---|---|"
# memory FLAGS SPLITS...
memory() {
  local flags=$1 split name ranks more
  shift
  for split in "$@"; do
    IFS='|' read -r name ranks more <<<"$split"
    # shellcheck disable=SC2086
    examples/run.sh "$ranks" "$build/train_lm" --steps 2 --layers 16 --memory $flags $more |
      sed -n "s/^memory of rank 0, \(.*\): at most \([0-9]*\), by the formula \([0-9]*\)\$/| $name | \1 | \2 | \3 |/p"
  done
}
memory "" "${once[@]}"
echo "| in several micro-batches | | | |"
memory "" "${sharded[@]}"
memory "$experts" "${shared_experts[@]}"

echo
[ "$status" -eq 0 ] && echo "[train] all curves are one rank's; charts are $out/dense.svg, sharded.svg, mixture.svg, shared-experts.svg and baselines.svg" || echo "[train] FAILED"
exit "$status"
