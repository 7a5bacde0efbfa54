#!/usr/bin/env bash
# Tests scripts/gpu_kit.sh: it packs a kit, whose steps all run in an empty root over the fake GPU; their JSON
# has all numbers and converts to tables; what fails is told, and what is done is not done again.
#   gpu_kit_test.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
cd "$1"
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" && exit 1; }
export FAKE_GPU=$build/testing/fake_gpu NCCL=
own_nccl=$build/interop/nccl/lib/libnccl.so.2

scripts/gpu_kit.sh pack --build "$build" --out "$work/kit" --nccl "$own_nccl" --older "$build/libtutti.so"
[ "$(du -sb "$work/kit" | cut -f1)" -le $((64 << 20)) ] || fail "the kit is too large to carry"
! grep -rqaF "$PWD/" "$work/kit/gpu_kit" "$work/kit/gpu_kit.sh" || fail "a script names a folder of the source tree"
"$work/kit/gpu_kit.sh" pack >/dev/null 2>"$work/why" && fail "a kit packs itself"
grep -q "needs Tutti's source tree" "$work/why" || fail "it is not said why a kit cannot pack: $(cat "$work/why")"

as=()
[ "$(id -u)" -eq 0 ] || as=(--map-root-user)
unshare "${as[@]}" --mount --pid --fork true 2>/dev/null || { echo "no namespaces: the kit is not rehearsed" && exit 77; }
scripts/gpu_kit.sh rehearse --kit "$work/kit" --out "$work/results"

# The results of a rehearsal must not be accepted as measurements.
! scripts/docs/gpu_tables.py --tests "$work"/results/gpu_*.json >/dev/null 2>&1 || fail "tables were made from a rehearsal"
! scripts/gpu_kit.sh keep "$work/results" >/dev/null 2>&1 || fail "a rehearsal was kept"
for table in tests results bandwidth latency; do
  scripts/docs/gpu_tables.py --$table "$work"/results/gpu_*.json --rehearsal
done >"$work/tables.md"
# Tutti's own libnccl replaces NCCL, with ranks as threads that share the device. It must be measured and named.
grep -qE 'NCCL_MULTI_RANK_GPU_ENABLE=1; NCCL_MAX_CTAS=64; TUTTI.S OWN' "$work/tables.md" || fail "it is not said what NCCL was"
grep -qE '^\| what \| 4K \| 64K \|$' "$work/tables.md" || { cat "$work/tables.md" && fail "the copies have other sizes"; }
for row in 'copy, by the driver' 'all-reduce of one rank' 'reduce, 2 sources, direct' 'reduce_scatter, 2 sources, direct'; do
  grep -qE "^\| $row( \| [0-9]+)+" "$work/tables.md" || { cat "$work/tables.md" && fail "no number for $row"; }
done
for row in measure,graph_all_reduce_2 measure,all_reduce_2 measure,reduce_scatter_2 measure,all_gather_2 measure,all_to_all_2 measure,broadcast_2 \
  measure,scatter_2 measure,all_reduce_2_processes mps,all_reduce_2_processes threads,all_reduce_8 threads,all_reduce_8_older \
  ways,no_peer_access_all_reduce_2 ways,virtual_hosts_all_reduce_2 calibrate,slots_ring_line_2_channels_1; do
  grep -qE "^$row,[a-z_]+,[0-9]+,8,[a-z_]+,[0-9]+\.[0-9]+," "$work/tables.md" || { cat "$work/tables.md" && fail "no number for $row"; }
done
grep -qE '^compare,all_reduce_2,all_reduce,2,8,[a-z_]+(,[0-9]+\.[0-9]+){2}$' "$work/tables.md" || fail "NCCL's place was not measured"
for step in litmus smoke threads calls graphs faults processes no_peer_access virtual_hosts protocols counters tensors eight; do
  grep -qE "^\| correct \| $step \| ok \| [1-9][0-9]* \| 0 \|" "$work/tables.md" || { cat "$work/tables.md" && fail "no test of $step passed"; }
done

# Outside a rehearsal the table shows Tutti's own libnccl as refused, and the run succeeds.
LD_LIBRARY_PATH=$FAKE_GPU "$build/bench/tutti-bench" all_reduce --memory device -t 2 -b 8 -e 8 --cell-ms 1 --repeat 1 \
  --vs nccl --nccl "$own_nccl" >"$work/refused" 2>&1 || { cat "$work/refused" && fail "refusal is a failure"; }
grep -q '# refused: nccl: .*libnccl.so.2 is Tutti.s, not NVIDIA.s' "$work/refused" || { cat "$work/refused" && fail "Tutti's own was not refused"; }
grep -qE '^ +8 .* refused' "$work/refused" || fail "the table does not say refused"

# A failed step is told and recorded, and the other steps still run; without a GPU no step is a success.
run() { LD_LIBRARY_PATH=$FAKE_GPU REHEARSAL=1 "$work/kit/gpu_kit.sh" run --results "$work/again" "$@"; }
! TUTTI_FAKE_GPU_DEVICES=0 run --only '^correct/(device|smoke|litmus)$' >"$work/none" 2>&1 || fail "without a device all is well"
for step in device litmus smoke; do grep -q "$step: FAILED" "$work/none" || { cat "$work/none" && fail "$step succeeds without a device"; }; done
grep -q '"name": "device", "status": "FAILED: exit status 1"' "$work/again/gpu_correct.json" || fail "a failed step is not written down"
# A later run does what is missing, and only that.
run --only '^correct/(device|litmus)$' >"$work/second" || { cat "$work/second" && fail "what failed is not done again"; }
run --only '^correct/(device|smoke|litmus)$' >"$work/third" || { cat "$work/third" && fail "the third run fails"; }
grep -q 'correct/device: settled' "$work/third" && grep -q 'correct/smoke: ok' "$work/third" || { cat "$work/third" && fail "what is settled is done again"; }
# A failure does not replace what a step saw when it ended well.
! TUTTI_FAKE_GPU_DEVICES=0 run --only '^correct/device$' >"$work/none" 2>&1 || fail "without a device all is well"
for status in ok 'FAILED: exit status 1'; do
  grep -q "\"name\": \"device\", \"status\": \"$status\"" "$work/again/gpu_correct.json" || fail "a failure and what was seen before are not both there"
done
# What the repository has kept is settled, too, but not for other sources.
sed -n 's/.*"name": "litmus".*"key": "\([0-9a-f]*\)".*/\1/p' "$work/again/gpu_correct.json" >"$work/kit/gpu_kit/settled"
rm -r "$work/again"
run --only '^correct/litmus$' >"$work/kept" && grep -q 'correct/litmus: settled' "$work/kept" || { cat "$work/kept" && fail "a kept result is not used"; }
sed -i 's/^tests_sources=.*/tests_sources=others/' "$work/kit/gpu_kit/packed"
run --only '^correct/litmus$' >"$work/changed" && grep -q 'correct/litmus: ok' "$work/changed" || { cat "$work/changed" && fail "a result of other sources is used"; }
# A step that outlasts its time is stopped, and one that finds no time left says so. Calls share the time.
! run --call-seconds 3 --only '^correct/(threads|calls)$' >"$work/late" 2>&1 || fail "no time is enough time"
grep -q 'threads: left out: no time was left' "$work/late" || { cat "$work/late" && fail "it is not said that no time was left"; }
echo 897 >"$work/again/spent"
! run --seconds 900 --only '^correct/calls$' >"$work/late" 2>&1 || fail "each call has all the time"
grep -q 'calls: left out: no time was left' "$work/late" || { cat "$work/late" && fail "the time of earlier calls is forgotten"; }
echo "the kit does what it says"
