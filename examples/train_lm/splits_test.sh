#!/usr/bin/env bash
# Checks that train_lm trains the same with every split, sends as many bytes as the formulas predict, and refuses sizes
# that do not divide.
#   splits_test.sh FOLDER      FOLDER has the built programs
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

train() {
  local ranks=$1
  shift
  examples/run.sh "$ranks" "$programs/train_lm" --steps 3 "$@"
}

train 1 --losses "$work/one" >"$work/log"
train 2 --tensor 2 --sequence-parallel --losses "$work/tp" >>"$work/log"
train 4 --pipeline 2 --schedule GPipe --microbatches 2 --losses "$work/pp" >>"$work/log"
train 8 --tensor 2 --pipeline 2 --losses "$work/all" >>"$work/log"
train 2 --context 2 --ulysses 2 --losses "$work/ulysses" >>"$work/log"
train 2 --context 2 --losses "$work/ring2" >>"$work/log"
train 4 --context 4 --losses "$work/ring4" >>"$work/log"
train 8 --context 4 --ulysses 2 --microbatches 2 --losses "$work/usp" >>"$work/log"
"$programs/compare_losses" "$work/chart.svg" "one rank=$work/one" "TP+SP 2=$work/tp" "PP 2 x DP 2=$work/pp" \
  "2 x 2 x 2=$work/all" "Ulysses 2=$work/ulysses" "ring 2=$work/ring2" "ring 4=$work/ring4" \
  "Ulysses 2 x ring 2 x DP 2=$work/usp"
train 2 --zero 2 --losses "$work/zero2" >>"$work/log"
train 4 --zero 3 --shard-group 2 --microbatches 2 --losses "$work/hsdp" >>"$work/log"
train 8 --zero 1 --tensor 2 --pipeline 2 --sequence-parallel --losses "$work/zero1" >>"$work/log"
"$programs/compare_losses" "$work/chart.svg" "one rank=$work/one" "ZeRO-2 2=$work/zero2" "HSDP 2 x 2=$work/hsdp" \
  "2 x 2 x 2, ZeRO-1=$work/zero1"
train 2 --pipeline 2 --schedule Interleaved1F1B --virtual-stages 2 --losses "$work/interleaved" >>"$work/log"
train 4 --pipeline 2 --schedule ZB-H1 --microbatches 2 --losses "$work/zero-bubble" >>"$work/log"
"$programs/compare_losses" "$work/chart.svg" "one rank=$work/one" "PP 2, interleaved=$work/interleaved" \
  "PP 2 x DP 2, ZB-H1=$work/zero-bubble"
cmp "$work/one" "$work/interleaved"
train 1 --experts 4 --losses "$work/one-mixture" >>"$work/log"
train 8 --experts 4 --tensor 2 --sequence-parallel --expert-tensor 1 --expert 4 --microbatches 1 \
  --losses "$work/experts" >>"$work/log"
"$programs/compare_losses" "$work/chart.svg" "one rank=$work/one-mixture" "EP 4 x TP+SP 2=$work/experts"
awk '{ print $1 * (NR == 3 ? 1.001 : 1) }' "$work/one" >"$work/other"
if "$programs/compare_losses" "$work/chart.svg" "one rank=$work/one" "another=$work/other" 2>/dev/null; then
  echo "curves that differ were taken for one" >&2
  exit 1
fi

# counted WHAT NUMBER: checks that NUMBER lines that begin with WHAT report bytes sent, and that every line that begins
# with WHAT matches its formula.
counted() {
  awk -v what="$1" -v number="$2" '
    $1 == what { sent = $(NF - 4); sub(",", "", sent); seen += sent > 0; if (sent != $NF) { print; bad = 1 } }
    END { if (seen != number) { print seen + 0, what, "of", number; bad = 1 }; exit bad }' "$work/out"
}
for exchange in all-reduce parameter-server broadcast; do
  train 8 --experts 4 --tensor 2 --pipeline 2 --sequence-parallel --expert-tensor 1 --expert 2 --microbatches 2 \
    --algorithm ring --bytes --data-parallel "$exchange" --losses "$work/$exchange-mixture" >"$work/out"
  counted bytes 5
done
"$programs/compare_losses" "$work/chart.svg" "one rank=$work/one-mixture" "all-reduce=$work/all-reduce-mixture" \
  "parameter server=$work/parameter-server-mixture" "broadcast=$work/broadcast-mixture"
for exchange in all-reduce parameter-server "parameter-server --servers 3 --bucket-bytes 20000" broadcast; do
  # shellcheck disable=SC2086  # several words
  train 4 --microbatches 2 --algorithm ring --bytes --losses "$work/exchange" --data-parallel $exchange >"$work/out"
  counted rank 4
  "$programs/compare_losses" "$work/chart.svg" "one rank=$work/one" "DP 4, $exchange=$work/exchange"
done

# The backward pass hides all buckets except those of the last unit. This also holds with sequence parallelism, whose
# norms are summed afterwards, and with a backward pass in two parts.
for flags in "--tensor 2 --sequence-parallel" "--pipeline 2 --schedule ZB-H1" \
  "--pipeline 2 --schedule Interleaved1F1B --virtual-stages 2"; do
  # shellcheck disable=SC2086  # several words
  train 4 $flags --bucket-bytes 20000 --bytes --losses "$work/buckets" >"$work/out"
  "$programs/compare_losses" "$work/chart.svg" "one rank=$work/one" "$flags, small buckets=$work/buckets"
  awk '$1 == "buckets:" { seen = 1; if ($2 != $4 || $4 < 40 || $(NF - 4) < $4 / 2) { print; exit 1 } }
    END { if (!seen) exit 1 }' "$work/out"
done

# shares RANKS FLAGS: checks that every number matches its formula, including each rank's memory.
shares() {
  train "$@" --algorithm ring --bytes --memory >"$work/out"
  awk -v ranks="$1" '
    $1 == "bytes" || $1 == "memory" {
      seen++; counted = $(NF - 4); sub(",", "", counted); if (counted != $NF) { print; bad = 1 }
    }
    END { if (seen < 5 + 3 * ranks) { print seen + 0 " numbers"; bad = 1 }; exit bad }' "$work/out"
}
# Shards of unequal length.
shares 3 --zero 3 --batch 9 --microbatches 1
shares 6 --zero 2 --batch 9 --tensor 2 --microbatches 3
shares 4 --zero 3 --shard-group 2 --microbatches 2
shares 4 --zero 3 --batch 12 --microbatches 3 --experts 3 --hidden 36 --feed-forward 100
# A single data-parallel rank has no other rank to shard with.
shares 2 --zero 3 --tensor 2 --sequence-parallel
# shares_and_trains REFERENCE RANKS FLAGS: also checks that the losses are those of one rank.
shares_and_trains() {
  local reference=$1
  shift
  shares "$@" --losses "$work/shares"
  "$programs/compare_losses" "$work/chart.svg" "one rank=$work/$reference" "$*=$work/shares"
}
# Schedules with several chunks per stage, or with backward passes in two parts; also experts, some without replicas.
for zero in 1 2 3; do
  train 4 --zero "$zero" --pipeline 2 --algorithm ring --losses "$work/1f1b" >>"$work/log"
  for schedule in "Interleaved1F1B --virtual-stages 2" "ZB-H1"; do
    # shellcheck disable=SC2086  # several words
    shares_and_trains one 4 --zero "$zero" --pipeline 2 --schedule $schedule
    cmp "$work/1f1b" "$work/shares"
    # shellcheck disable=SC2086
    shares_and_trains one-mixture 4 --zero "$zero" --experts 4 --microbatches 2 --pipeline 2 --expert 2 --schedule $schedule
  done
  shares_and_trains one-mixture 4 --zero "$zero" --experts 4 --microbatches 2 --expert 2
  shares_and_trains one-mixture 4 --zero "$zero" --experts 4 --microbatches 2 --expert 4
done
shares_and_trains one 8 --zero 2 --pipeline 2 --schedule ZB-H1 --microbatches 2 --tensor 2 --sequence-parallel
for flags in "--pipeline 2 --schedule ZB-H1" "--expert 2 --shard-group 2 --expert-shard-group 1" \
  "--shard-group 2 --expert-shard-group 2" "--tensor 2 --sequence-parallel --expert-tensor 1 --expert 2" \
  "--context 2 --expert 2"; do
  # shellcheck disable=SC2086  # several words
  shares_and_trains one-mixture 4 --zero 3 --experts 4 --microbatches 2 $flags
done

# Fewer heads of keys and values: as many as the ranks that exchange them, or fewer.
train 1 --kv-heads 2 --losses "$work/one-kv2" >>"$work/log"
train 1 --kv-heads 1 --losses "$work/one-kv1" >>"$work/log"
train 4 --kv-heads 2 --tensor 2 --context 2 --algorithm ring --bytes --losses "$work/kv2" >"$work/out"
counted bytes 3
train 4 --kv-heads 1 --context 4 --ulysses 2 --algorithm ring --bytes --losses "$work/kv1" >"$work/out"
counted bytes 3
"$programs/compare_losses" "$work/chart.svg" "one rank, 2 heads of keys=$work/one-kv2" "TP 2 x ring 2=$work/kv2"
"$programs/compare_losses" "$work/chart.svg" "one rank, 1 head of keys=$work/one-kv1" "Ulysses 2 x ring 2=$work/kv1"

# sends GROUPS FLAGS: checks the bytes that 8 ranks send in GROUPS kinds of groups.
sends() {
  local groups=$1
  shift
  train 8 --algorithm ring --bytes "$@" >"$work/out"
  counted bytes "$groups"
}
sends 4 --tensor 2 --sequence-parallel --context 4 --ulysses 2
sends 5 --context 4 --ulysses 2 --pipeline 2 --experts 4 --expert 4
sends 4 --context 2 --zero 3 --shard-group 2 --microbatches 2 --pipeline 2
for schedule in "ZB-H1" "Interleaved1F1B --virtual-stages 2"; do
  # shellcheck disable=SC2086  # flags are several words
  sends 5 --experts 4 --tensor 2 --pipeline 2 --sequence-parallel --expert-tensor 1 --expert 2 --microbatches 2 \
    --schedule $schedule
done

refused() {
  local words=$1
  shift
  if train "$@" >"$work/out" 2>&1; then
    echo "$* was not refused" >&2
    exit 1
  fi
  # Every rank prints the message.
  [ "$(grep -c -- "$words" "$work/out")" -eq "$1" ] || {
    cat "$work/out" >&2
    exit 1
  }
}
refused "heads (3) is not divisible by tensor_model_parallel_size (2)" 2 --tensor 2 --heads 3 --hidden 66
refused "heads (4) is not divisible by kv_heads (3)" 2 --kv-heads 3
refused "kv_heads (1) is not divisible by tensor_model_parallel_size (2)" 2 --tensor 2 --kv-heads 1
refused "layers (5) is not divisible by pipeline_model_parallel_size (2)" 2 --pipeline 2 --layers 5
refused "layers (4) is not divisible by pipeline_model_parallel_size x virtual_stages (6)" \
  2 --pipeline 2 --schedule Interleaved1F1B --virtual-stages 3
refused "the schedule \"1F1B\" has 1 model chunk a stage, but 2 were requested" 2 --pipeline 2 --virtual-stages 2
refused "experts (3) is not divisible by expert_model_parallel_size (2)" 2 --expert 2 --experts 3
refused "data_parallel_size x context_parallel_size (4) is not divisible by shard_group (3)" 4 --zero 3 --shard-group 3 --microbatches 2
refused "expert_data_parallel_size (2) is not divisible by expert_shard_group (4)" \
  4 --zero 1 --experts 4 --expert 2 --expert-shard-group 4 --microbatches 2
refused "expert_shard_group is 2, but what a model without experts takes is 0" \
  4 --zero 1 --expert-shard-group 2 --microbatches 2
refused "the number of heads (3) is not divisible by ulysses_size (2)" 2 --context 2 --ulysses 2 --heads 3 --hidden 66
refused "sequence (63) is not divisible by context_parallel_size (2)" 2 --context 2 --sequence 63
refused "context_parallel_size (2) is not divisible by ulysses_size (4)" 2 --context 2 --ulysses 4
refused "the world's size (3) is not divisible by" 3 --tensor 2
refused "the number of parameter servers is 3, but group \"dp\" has 2 ranks" 2 --data-parallel parameter-server --servers 3
refused "tensor_model_parallel_size (2) x context_parallel_size (1) x pipeline_model_parallel_size (1) x data_parallel_size (4) is 8, but the world's size is 2" 2 --tensor 2 --data 4
echo "passed"
