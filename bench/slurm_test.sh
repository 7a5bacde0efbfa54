#!/usr/bin/env bash
# tutti-bench as the ranks of a real Slurm's jobs. Runs inside scripts/test/slurm.sh, whose nodes it expects.
#   slurm_test.sh TUTTI-BENCH
set -euo pipefail
bench=$(realpath "$1")
# shellcheck source=bench/job_testing.sh
. "$(dirname "$0")/job_testing.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "srun of $(srun --version)"
two_nodes=(srun -N 2 -n 4)

# start_job COMMAND...: sets `job`, its process; the output goes to $work/job
start_job() {
  rm -f "$work/job"  # until the job starts, the last one's result would be there
  timeout "$seconds" "$@" >"$work/job" 2>&1 &
  job=$!
}

# The job of start_job fails, and ends in time.
expect_failure() {
  local status=0
  wait "$job" || status=$?
  case $status in
    0 | 124) fail "the job ended with status $status:"$'\n'"$(cat "$work/job")" ;;
  esac
  expect_no_ranks
}

# A node's name may be that of any host, so the ranks need a secret.
echo "without a secret"
unset TUTTI_SECRET
bounded "${two_nodes[@]}" "$bench" all_reduce "${arguments[@]}"
expect "TUTTI_SECRET is not set, and SLURM_JOB_NODELIST=node1 is not loopback" "$output"
export TUTTI_SECRET=secret

echo "one node, two nodes, two hosts"
for collective in all_reduce all_gather all_to_all; do
  bounded srun -N 1 -n 4 "$bench" "$collective" "${arguments[@]}"
  expect_results 4 "$output"
  bounded "${two_nodes[@]}" "$bench" "$collective" "${arguments[@]}"
  expect_results 4 "$output"
done
TUTTI_VIRTUAL_HOSTS=2 bounded "${two_nodes[@]}" "$bench" all_reduce "${arguments[@]}"
expect_results 4 "$output"

echo "at an address of the user's"
MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 bounded "${two_nodes[@]}" "$bench" all_reduce "${arguments[@]}"
expect_results 4 "$output"

# srun then also sets the variables of MPICH's mpiexec. The copy finds no MPI.
echo "srun --mpi=pmi2, without MPI"
cp "$bench" "$work/tutti-bench"
bounded "${two_nodes[@]}" --mpi=pmi2 "$work/tutti-bench" all_reduce "${arguments[@]}"
expect_results 4 "$output"

# Slurm gives a batch script, and the shell of an allocation, a rank's variables, but they are no ranks.
echo "in a batch script and in an allocation"
cat >"$work/script" <<SCRIPT
#!/bin/sh
"$bench" all_reduce ${arguments[*]} --ranks 3
srun -n 4 "$bench" all_reduce ${arguments[*]}
SCRIPT
bounded sbatch --wait -N 2 -n 4 -o "$work/batch" "$work/script"
[ "$status" -eq 0 ] || fail "the batch script failed: $output"$'\n'"$(cat "$work/batch")"
expect_results 3 "$(sed '/4 ranks/,$d' "$work/batch")"
expect_results 4 "$(sed -n '/4 ranks/,$p' "$work/batch")"
bounded salloc -N 2 -n 4 "$bench" all_reduce "${arguments[@]}" --ranks 3
expect_results 3 "$output"

for rank in 2 0; do
  echo "rank $rank of two nodes is killed"
  start_job "${two_nodes[@]}" "$bench" "${endless[@]}"
  kill_in_job "SLURM_PROCID=$rank" "$work/job"
  expect_failure
  [ $rank -eq 0 ] || expect_reason 0 $rank "$(cat "$work/job")"
  expect_reason 1 $rank "$(cat "$work/job")"
  expect_reason 3 $rank "$(cat "$work/job")"
done

# The ranks meet at a port made of the job's number.
echo "a stranger has the ranks' port"
# shellcheck disable=SC2016
port=$((15000 + $(salloc -n 2 sh -c 'echo "$SLURM_JOB_ID"' 2>/dev/null) + 1))
listen_on "$port"
TUTTI_INIT_TIMEOUT_MS=5000 bounded srun -n 2 "$bench" all_reduce "${arguments[@]}"
kill "$stranger"
[ "$status" -ne 0 ] || fail "the job passes although a stranger has its port"
expect "rank 0 cannot open the rendezvous at .*:$port: Address already in use" "$output"
expect "rank 1 could not reach the rendezvous .*:$port accepts connections but does not answer" "$output"
expect_no_ranks
