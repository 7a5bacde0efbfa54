#!/usr/bin/env bash
# Runs everything that needs an NVIDIA GPU: builds, runs the tests on the real driver, and measures the device and the
# collectives on it, and NCCL where it can run. Writes one JSON file, from which scripts/docs.sh makes the tables of
# docs/gpu.md. A part that fails, or has no time left, is recorded as such, and the other parts still run.
#
#   scripts/gpu.sh [OPTIONS]
#     --build DIR     an existing build to use, for machines without a compiler; default: builds build/release
#     --json FILE     file for the results; default: docs/data/gpu.json
#     --nccl FILE     the NCCL to compare with; default: libnccl.so.2, as the loader finds it
#     --budget S      seconds for all parts, after the build; default: 530
#     --only REGEX    runs only the parts whose names match
#     --dry-run       the same steps on the stand-in for a GPU, with tiny sizes: tests this script, measures nothing
# Exit status 1: a part failed or had no time left. If NCCL refuses to run, the part does not fail.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
started=$SECONDS

usage() { sed -n '2,/^set/p' scripts/gpu.sh | sed '/^set/d; s/^# \{0,1\}//'; }

build=
json=docs/data/gpu.json
nccl=libnccl.so.2
budget=530
only=.
dry=
while [ $# -gt 0 ]; do
  case $1 in
    --build | --json | --nccl | --budget | --only) [ $# -ge 2 ] || { usage >&2; exit 2; } ;;&
    --build) build=$(cd "$2" && pwd); shift ;;
    --json) json=$2; shift ;;
    --nccl) nccl=$2; shift ;;
    --budget) budget=$2; shift ;;
    --only) only=$2; shift ;;
    --dry-run) dry=yes ;;
    -h | --help) usage; exit 0 ;;
    *) echo "$0: unknown argument $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

if [ -z "$build" ]; then
  scripts/setup.sh
  scripts/build.sh release
  build=$root/build/release
fi
built=$SECONDS
bench=$build/bench/tutti-bench
tests=$build/tests/tutti_tests
standin=$build/testing/fake_cuda
[ -x "$bench" ] || { echo "$0: there is no $bench" >&2; exit 2; }

if [ -n "$dry" ]; then
  # A dry run must not overwrite real measurements.
  [ "$json" != docs/data/gpu.json ] || json=$(mktemp --suffix=.json)
  export LD_LIBRARY_PATH=$standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  # Tutti's own libnccl replaces NCCL, to check that the comparison is made and recorded.
  export TUTTI_BENCH_OWN_NCCL=1 TUTTI_NCCL_VERSION=2.30.0
  nccl=$build/interop/nccl/lib/libnccl.so.2
  ranks_shared=2 large=() small=(-b 8 -e 4K -f 512) copies=(-b 4K -e 64K -f 16) reduced=(-b 4K -e 4K)
  of_processes=(-b 8 -e 4K -f 512) test_filter='Device.GraphsReplay'
  thread_filter='*/DeviceCollectives.OfThreads/2_ranks_direct' process_filter='*/DeviceCollectives.OfProcesses/2_ranks_direct'
  pace=(--cell-ms 1 --no-pin) repeats=1
else
  LD_LIBRARY_PATH=$(tr : '\n' <<<"${LD_LIBRARY_PATH:-}" | grep -v '/testing/fake_cuda/*$' | paste -sd:) || true
  export LD_LIBRARY_PATH
  unset TUTTI_BENCH_OWN_NCCL TUTTI_NCCL_VERSION
  ranks_shared="2 4 8" large=(-b 128M -e 1G -f 8 -c 0) small=(-b 8 -e 16M -f 8) copies=(-b 1M -e 1G -f 4) reduced=(-b 1M -e 256M -f 256)
  of_processes=(-b 8 -e 64M -f 512) test_filter='Device.*'
  # Each process makes a context, and without MPS contexts take turns. So this does not run every algorithm on every
  # number of ranks.
  thread_filter='*/DeviceCollectives.OfThreads/*:*/DeviceTensors.OfThreads/2*'
  process_filter='*/DeviceCollectives.OfProcesses/2_*:*/DeviceCollectives.OfProcesses/3_*chosen:*/DeviceCollectives.OfProcesses/4_*two_shot:*/DeviceCollectives.OfProcesses/8_*chosen'
  pace=(--cell-ms 30) repeats=3
fi

# A prebuilt tree must find its own library, even if the tree has been moved.
export LD_LIBRARY_PATH=$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
parts=$work/parts
: >"$parts"
failures=0

# Prints standard input as a JSON string.
quoted() { printf '"%s"' "$(tr -d '\000-\010\013-\037' | sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g' | sed ':a; N; $!ba; s/\n/\\n/g')"; }

# part NAME LIMIT COMMAND...: runs the command for at most LIMIT seconds and records the outcome. The command may write
# JSON to $work/result.json, and exits with 77 if it does not apply here.
part() {
  local name=$1 limit=$2 begin=$SECONDS status=ok code=0
  shift 2
  [[ $name =~ $only ]] || return 0
  local left=$((budget - (SECONDS - built)))
  rm -f "$work/result.json"
  : >"$work/log"
  if ((left < 5)); then
    status="left out: no time was left"
  else
    timeout -k 5 "$((limit < left ? limit : left))" "$@" >"$work/log" 2>&1 </dev/null || code=$?
    case $code in
      0) ;;
      77) status="left out: $(tail -n 1 "$work/log")" ;;
      124 | 137) status="FAILED: stopped after $((SECONDS - begin)) s" ;;
      *) status="FAILED: exit status $code" ;;
    esac
  fi
  [[ $status == ok || $code == 77 ]] || failures=$((failures + 1))
  echo "[gpu] $name: $status ($((SECONDS - begin)) s)"
  [[ $status != FAILED* ]] || tail -n 15 "$work/log" | sed 's/^/    /'
  {
    [ ! -s "$parts" ] || echo ,
    printf '{"name": "%s", "status": %s, "seconds": %d, "log": %s, "result": ' "$name" "$(quoted <<<"$status")" \
      "$((SECONDS - begin))" "$(tail -n 40 "$work/log" | quoted)"
    if [ -s "$work/result.json" ]; then cat "$work/result.json"; else echo null; fi
    echo }
  } >>"$parts"
}

measure() { # NAME LIMIT TUTTI-BENCH-ARGS
  local name=$1 limit=$2
  shift 2
  part "$name" "$limit" "$bench" "$@" --json "$work/result.json"
}
on_device() { # NAME LIMIT TUTTI-BENCH-ARGS
  measure "$@" --memory device --place out -T 60 --repeat "$repeats" "${pace[@]}"
}
beside_nccl=(--vs nccl --nccl "$nccl")

litmus() {
  "$build"/tests/tutti_tests --gtest_filter='DeviceLitmus.*'
}
sanitizer() {
  local tool
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
    { echo "compute-sanitizer is not installed"; return 77; }
  "$tool" --target-processes all --error-exitcode 1 "$bench" all_reduce --memory device --ranks 2 -t 2 -b 8 -e 64K -f 8192 -n 2 -w 1 -T 100
}
# Trains the language model on the device, with one rank and with several splits, and on the host with one rank.
train() {
  local programs=$build/examples/train_lm out
  [ -z "$dry" ] || { echo "the stand-in has no cuBLAS"; return 77; }
  [ -x "$programs/train_lm_cuda" ] || { echo "train_lm_cuda was not built"; return 77; }
  out=$(mktemp -d)
  "$programs/train_lm" --steps 50 --losses "$out/host" &&
    "$programs/train_lm_cuda" --steps 50 --losses "$out/one" &&
    examples/run.sh 2 "$programs/train_lm_cuda" --steps 50 --tensor 2 --sequence-parallel --losses "$out/tp" &&
    examples/run.sh 2 "$programs/train_lm_cuda" --steps 50 --losses "$out/dp" &&
    examples/run.sh 2 "$programs/train_lm_cuda" --steps 50 --pipeline 2 --losses "$out/pp" &&
    "$programs/compare_losses" "$out/chart.svg" "host=$out/host" "device=$out/one" "TP+SP 2=$out/tp" "DP 2=$out/dp" "PP 2=$out/pp"
}
export -f litmus sanitizer train
export build bench dry

# The parts in order of importance, in case the time runs out.
measure device 60 device "${copies[@]}" --cell-ms 100
part litmus 30 bash -c litmus
part tests 60 "$tests" --gtest_filter="$test_filter" --gtest_brief=1
part tests_threads 60 "$tests" --gtest_filter="$thread_filter" --gtest_brief=1
part tests_processes 90 "$tests" --gtest_filter="$process_filter" --gtest_brief=1
part train_lm 60 bash -c train
on_device one_rank_copy 40 all_reduce --ranks 1 "${copies[@]}"
for n in $ranks_shared; do
  [ "$n" = 4 ] && continue
  TUTTI_ALGO=direct on_device "reduce_$n" 30 reduce --ranks "$n" -t "$n" "${reduced[@]}"
  TUTTI_ALGO=direct on_device "reduce_scatter_direct_$n" 30 reduce_scatter --ranks "$n" -t "$n" "${reduced[@]}"
done
on_device graph_2 30 all_reduce --ranks 2 -t 2 -b 8 -e 8 --graph "${beside_nccl[@]}"
for collective in all_reduce reduce_scatter all_gather alltoall; do
  for n in $ranks_shared; do
    on_device "${collective}_$n" 40 "$collective" --ranks "$n" -t "$n" "${small[@]}" "${beside_nccl[@]}"
    [ ${#large[@]} -eq 0 ] ||
      repeats=2 on_device "${collective}_${n}_large" 40 "$collective" --ranks "$n" -t "$n" "${large[@]}" "${beside_nccl[@]}"
  done
done
for n in $ranks_shared; do
  on_device "all_reduce_${n}_processes" 40 all_reduce --ranks "$n" "${of_processes[@]}" "${beside_nccl[@]}"
done
part compute_sanitizer 60 bash -c sanitizer

query=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,compute_mode,mig.mode.current,temperature.gpu,power.draw
smi=$( (command -v nvidia-smi >/dev/null && timeout 20 nvidia-smi --query-gpu=$query --format=csv 2>&1) || echo "no nvidia-smi")
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
mkdir -p "$(dirname "$json")"
{
  printf '{"gpu_suite": 1, "dry_run": %s, "date": "%s", "commit": "%s", "budget_s": %d, "took_s": %d, "build_s": %d,\n' \
    "$([ -n "$dry" ] && echo true || echo false)" "$(date -u +%Y-%m-%dT%H:%MZ)" "$commit" "$budget" $((SECONDS - built)) $((built - started))
  printf '"nvidia_smi": %s,\n"parts": [\n' "$(quoted <<<"$smi")"
  cat "$parts"
  echo ']}'
} >"$json.new"
mv "$json.new" "$json"
echo "[gpu] $json, $((SECONDS - built)) s; $failures parts failed or had no time"
[ "$failures" -eq 0 ]
