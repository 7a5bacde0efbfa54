#!/usr/bin/env bash
# tutti-bench as the ranks of a job that it did not start.
#   job_test.sh TUTTI-BENCH by_hand     ranks of this host, with torchrun's variables
#   job_test.sh TUTTI-BENCH slurm       ranks of this host, with srun's variables
#   job_test.sh TUTTI-BENCH cluster     ranks of three hosts
#   job_test.sh TUTTI-BENCH refused     what a job cannot do
set -euo pipefail
cd "$(dirname "$0")/.."
bench=$1
port=$((20000 + RANDOM % 12000))
arguments=(all_reduce -b 8 -e 1M -f 64 -n 5 -w 1)

expect() {  # expect PATTERN TEXT
  grep -q "$1" <<<"$2" || { echo "the output lacks \"$1\":" && echo "$2" && exit 1; }
}

case $2 in
  by_hand)
    output=$(MASTER_PORT=$port examples/run.sh 3 "$bench" "${arguments[@]}" 2>&1)
    expect "3 ranks" "$output"
    expect "Out of bounds values : 0 OK" "$output"
    [ "$(grep -c "Out of bounds" <<<"$output")" -eq 1 ]  # one rank reports
    ;;
  slurm)
    export SLURM_NTASKS=2 SLURM_JOB_ID=$port SLURM_JOB_NODELIST=localhost TUTTI_SECRET=test
    SLURM_PROCID=1 "$bench" "${arguments[@]}" &
    output=$(SLURM_PROCID=0 "$bench" "${arguments[@]}" 2>&1)
    wait $!
    expect "2 ranks" "$output"
    expect "Out of bounds values : 0 OK" "$output"
    # The only task of a step is a shell, in which the bench starts its own ranks.
    expect "4 ranks" "$(SLURM_NTASKS=1 SLURM_PROCID=0 "$bench" "${arguments[@]}" --ranks 4 2>&1)"
    ;;
  cluster)
    output=$(scripts/cluster.sh --hosts 3 --ranks-per-host 2 -- "$bench" "${arguments[@]}" 2>&1) || {
      status=$?
      echo "$output"
      exit $status
    }
    expect "6 ranks" "$output"
    expect "Out of bounds values : 0 OK" "$output"
    ;;
  refused)
    output=$(MASTER_PORT=$port examples/run.sh 2 "$bench" all_reduce --ranks 4 2>&1) && exit 1
    expect "launcher, which has already chosen the ranks" "$output"
    output=$(MASTER_PORT=$port examples/run.sh 2 "$bench" grid 2>&1) && exit 1
    expect '"grid" starts its own ranks: run it without a launcher' "$output"
    ;;
esac
