#!/usr/bin/env bash
# Runs the program of MPI with the layer preloaded: right results, over Tutti, and sentences where it cannot be.
#   layer_test.sh MPIRUN PROGRAM LAYER OTHER_LAYERS [CHECK...]
# OTHER_LAYERS are built for other ABIs. CHECK: further checks of the program that this MPI passes.
set -uo pipefail
mpirun=$1 program=$2 layer=$3
read -ra others <<<"$4"
shift 4
checks=(collectives communicators operators threads progress unaligned long "$@")
failures=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
fail() {
  echo "FAILED: $*"
  sed 's/^/    /' "$out" | tail -n 40
  failures=$((failures + 1))
}
# run RANKS LAYER CHECK...: the output is in $out
run() {
  local ranks=$1 preloaded=$2
  shift 2
  "$mpirun" -n "$ranks" env LD_PRELOAD="$preloaded" TUTTI_MPI_REPORT=1 "$program" "$@" >"$out" 2>&1
}
# How many calls of that collective ran over Tutti.
over_tutti() { awk -v name="$1" '$1 == name {print $2}' "$out"; }

run 2 "$layer" "${checks[@]}" || fail "two ranks fail"
for check in "${checks[@]}"; do
  grep -qa "passed: $check" "$out" || fail "$check did not pass on two ranks"
done
for collective in Allreduce Reduce Reduce_scatter Reduce_scatter_block Bcast Allgather Allgatherv Gather Scatter \
  Alltoall Alltoallv Barrier; do
  [ "$(over_tutti MPI_$collective)" -gt 0 ] 2>/dev/null || fail "no MPI_$collective ran over Tutti"
done
grep -qa "communicators\?: handed to MPI: an intercommunicator" "$out" || fail "the intercommunicator is not in the report"

run 4 "$layer" collectives || fail "four ranks fail"
grep -qa "passed: collectives" "$out" || fail "the collectives did not pass on four ranks"

grep -qa "^tutti-mpi: 4 ranks, on .*; MPI_Finalize reports" "$out" || fail "the layer does not say that it is there"

# A program that holds many communicators keeps its descriptors.
many() { "$mpirun" -n 3 bash -c "ulimit -n $1 && LD_PRELOAD=$layer TUTTI_MPI_REPORT=1 exec $program many" >"$out" 2>&1; }
many 128 || fail "100 communicators do not fit into 128 descriptors"
grep -qa "passed: many" "$out" || fail "100 communicators did not pass"
grep -qa "stay with MPI" "$out" && fail "communicators of the same ranks cost descriptors"
many 72 || fail "a program with few descriptors fails with the layer"
[ "$(grep -ca "^tutti-mpi: some communicators stay with MPI: .* descriptors" "$out")" -ge 1 ] ||
  fail "nobody says that there are too few descriptors"

TUTTI_MPI=off run 2 "$layer" operators || fail "two ranks fail with TUTTI_MPI=off"
[ "$(over_tutti MPI_Barrier)" = 0 ] || fail "TUTTI_MPI=off did not turn the layer off"

TUTTI_MPI=of run 2 "$layer" operators || fail "two ranks fail with TUTTI_MPI=of"
[ "$(grep -ca '^tutti-mpi: TUTTI_MPI has a value that means nothing: it takes "on" and "off"' "$out")" = 1 ] ||
  fail "not one rank says that TUTTI_MPI=of means nothing"

run 2 "$layer" disagree
# MPICH 4.0 gives another text for the code of such an error; the sentence is on stderr, too.
if [ "$(grep -ca 'code error: ' "$out")" != 2 ] ||
  ! grep -qa '^tutti-mpi: the ranks. calls do not match: rank . .* called broadcast.* in .*Disagree.*, but rank . .* called broadcast.* in .*Disagree' "$out"; then
  fail "ranks that disagree did not both get an error, with a sentence that names the calls"
fi

# What not every MPI does: processes that it starts, which lack the layer; sessions in a program without MPI_Init.
for check in spawn session; do
  "$mpirun" -n 2 "$program" "$check" >"$out" 2>&1 || continue
  run 2 "$layer" "$check" || fail "$check fails"
  grep -qa "passed: $check" "$out" || fail "$check did not pass"
done

# A launcher that sees a rank die ends the others and drops what they say. It sees shells, which wait for that.
: >"$out"
timeout 60 "$mpirun" -n 3 bash -c "LD_PRELOAD=$layer $program killed 2>>$out ||
  timeout 20 bash -c 'until grep -qa died $out; do sleep 0.1; done'" >/dev/null 2>&1
[ $? -ne 124 ] || fail "a job with a killed rank hangs"
grep -qaE '^tutti-mpi: rank 1 \(host .*, pid [0-9]+\) died while rank [02] ' "$out" ||
  fail "the other ranks do not name the one that was killed"

for other in "${others[@]}"; do
  run 2 "$other" operators && fail "$other was accepted"
  grep -qa "^tutti-mpi: this library is for the ABI of .*: preload ${layer##*/} instead$" "$out" ||
    fail "$other was not refused with a sentence that names the right library"
done
exit $((failures > 0))
