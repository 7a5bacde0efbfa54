#!/usr/bin/env bash
# tutti-bench as the ranks of a job that it did not start.
#   job_test.sh TUTTI-BENCH by_hand     ranks of this host, with torchrun's variables
#   job_test.sh TUTTI-BENCH slurm       ranks of this host, with srun's variables
#   job_test.sh TUTTI-BENCH killed      ranks of which one is killed
#   job_test.sh TUTTI-BENCH cluster     ranks of three hosts
#   job_test.sh TUTTI-BENCH refused     what a job cannot do
set -euo pipefail
bench=$(realpath "$1")
cd "$(dirname "$0")/.."
# shellcheck source=bench/job_testing.sh
. bench/job_testing.sh
port=$((20000 + RANDOM % 12000))
arguments=(all_reduce "${arguments[@]}")

case $2 in
  by_hand)
    output=$(MASTER_PORT=$port examples/run.sh 3 "$bench" "${arguments[@]}" 2>&1)
    expect_results 3 "$output"
    ;;
  slurm)
    export SLURM_NTASKS=2 SLURM_JOB_ID=$port SLURM_JOB_NODELIST=localhost TUTTI_SECRET=test
    in_step() { SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_PROCID=$1 "${@:2}"; }
    in_step 1 "$bench" "${arguments[@]}" &
    output=$(in_step 0 "$bench" "${arguments[@]}" 2>&1)
    wait $!
    expect_results 2 "$output"
    # srun --mpi=pmi2 sets MPI's variables, too. The copy finds no MPI.
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cp "$bench" "$work/tutti-bench"
    export PMI_SIZE=2
    PMI_RANK=1 in_step 1 "$work/tutti-bench" "${arguments[@]}" &
    output=$(PMI_RANK=0 in_step 0 "$work/tutti-bench" "${arguments[@]}" 2>&1)
    wait $!
    expect_results 2 "$output"
    # The only task of a step is a shell, and a batch script is no task: the bench starts its own ranks there.
    export SLURM_PROCID=0
    expect_results 4 "$(SLURM_STEP_NUM_TASKS=1 "$bench" "${arguments[@]}" --ranks 4 2>&1)"
    expect_results 4 "$("$bench" "${arguments[@]}" --ranks 4 2>&1)"
    ;;
  killed)
    export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1
    work=$(mktemp -d)
    ranks=()
    trap 'kill -KILL "${ranks[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
    # A launcher may send SIGTERM to the other ranks as soon as it sees that one has ended. SIGCONT changes nothing.
    for signal in TERM CONT; do
      for killed in 0 1; do
        port=$((port + 1))
        rm -f "$work"/*  # a rank empties its file only when it starts, and until then the last job's result is there
        for rank in 0 1; do
          RANK=$rank MASTER_PORT=$port "$bench" "${endless[@]}" >"$work/$rank" 2>&1 &
          ranks[rank]=$!
        done
        other=$((1 - killed))
        victim=${ranks[killed]}
        wait_for_result "$work/0"
        kill -KILL "$victim"
        kill -$signal "${ranks[other]}"
        ! wait "${ranks[other]}" || fail "rank $other reports no failure:"$'\n'"$(cat "$work/$other")"
        expect_reason $other $killed "$(cat "$work/$other")"
      done
    done
    ;;
  cluster)
    output=$(scripts/cluster.sh --hosts 3 --ranks-per-host 2 -- "$bench" "${arguments[@]}" 2>&1) || {
      status=$?
      echo "$output"
      exit $status
    }
    expect_results 6 "$output"
    ;;
  refused)
    output=$(MASTER_PORT=$port examples/run.sh 2 "$bench" all_reduce --ranks 4 2>&1) && exit 1
    expect "launcher, which has already chosen the ranks" "$output"
    output=$(MASTER_PORT=$port examples/run.sh 2 "$bench" grid 2>&1) && exit 1
    expect '"grid" starts its own ranks: run it without a launcher' "$output"
    output=$(MASTER_PORT=$port examples/run.sh 2 "$bench" all_reduce --busy 1 2>&1) && exit 1
    expect "busy starts its own processes: run tutti-bench without a launcher" "$output"
    output=$("$bench" grid --busy 1 2>&1) && exit 1
    expect "busy goes with one collective" "$output"
    ;;
esac
