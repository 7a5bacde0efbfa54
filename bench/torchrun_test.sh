#!/usr/bin/env bash
# tutti-bench as the ranks of a real torchrun's jobs, on one node and on two, all of them on loopback.
#   torchrun_test.sh TUTTI-BENCH TORCHRUN
# Its host must be its own, as that of scripts/cluster.sh: it uses fixed ports, and looks at all processes.
set -euo pipefail
bench=$(realpath "$1")
torchrun=("$2" --no-python --nproc-per-node 2)
# shellcheck source=bench/job_testing.sh
. "$(dirname "$0")/job_testing.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work # torchrun leaves folders
# The cluster's variables. On loopback, ranks need no secret.
unset MASTER_ADDR MASTER_PORT TUTTI_SECRET
export OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore

port=29500 # torchrun's store has it, and the ranks meet at the next one
at_address=(--master-addr 127.0.0.1 --master-port "$port")
by_c10d=(--rdzv-backend c10d --rdzv-endpoint "127.0.0.1:$port")
one_node=("${torchrun[@]}" "${at_address[@]}")
meet=("${at_address[@]}") # where two nodes meet

# start_two_nodes TUTTI-BENCH-ARGS: sets `nodes`, their processes; the output goes to $work/node0 and node1
start_two_nodes() {
  local node
  nodes=()
  rm -f "$work"/node?  # a node empties its file only when it starts, and until then the last job's result is there
  for node in 0 1; do
    timeout "$seconds" "${torchrun[@]}" --nnodes 2 --node-rank $node "${meet[@]}" "$bench" "$@" >"$work/node$node" 2>&1 &
    nodes+=($!)
  done
}

# expect_ended STATUS: the nodes of `nodes` end with this status; 124 is a hang
expect_ended() {
  local node status
  for node in "${!nodes[@]}"; do
    status=0
    wait "${nodes[node]}" || status=$?
    [ "$status" -eq "$1" ] || fail "node $node ended with status $status:"$'\n'"$(cat "$work/node$node")"
  done
}

echo "one node"
for collective in all_reduce all_gather all_to_all; do
  bounded "${one_node[@]}" "$bench" "$collective" "${arguments[@]}"
  expect_results 2 "$output"
done

# By itself, torchrun lets the ranks meet at this host's name, which is not loopback, at any port.
echo "one node, by its name"
bounded "${torchrun[@]}" "$bench" all_reduce "${arguments[@]}"
expect "TUTTI_SECRET is not set, and MASTER_ADDR=$(hostname) is not loopback" "$output"
TUTTI_SECRET=secret bounded "${torchrun[@]}" "$bench" all_reduce "${arguments[@]}"
expect_results 2 "$output"

echo "two nodes"
for collective in all_reduce reduce_scatter; do
  start_two_nodes "$collective" "${arguments[@]}"
  expect_ended 0
  expect_results 4 "$(cat "$work"/node?)"
done

# Here, too, the ranks meet at the host's name.
echo "two nodes that meet by c10d"
meet=("${by_c10d[@]}")
TUTTI_SECRET=secret start_two_nodes all_reduce "${arguments[@]}"
expect_ended 0
expect_results 4 "$(cat "$work"/node?)"
meet=("${at_address[@]}")

# torchrun ends the other ranks of the node as soon as one has ended. Rank 0 still says which.
echo "rank 1 of one node is killed"
nodes=()
rm -f "$work"/node?
timeout "$seconds" "${one_node[@]}" "$bench" "${endless[@]}" >"$work/node0" 2>&1 &
nodes+=($!)
kill_in_job RANK=1 "$work/node0"
expect_ended 1
expect_reason 0 1 "$(cat "$work/node0")"
expect_no_ranks

for killed in 3 0; do
  echo "rank $killed of two nodes is killed"
  start_two_nodes "${endless[@]}"
  kill_in_job RANK=$killed "$work/node0"
  expect_ended 1
  for rank in 0 1 2 3; do
    [ $rank -eq $killed ] || expect_reason $rank $killed "$(cat "$work/node$((rank / 2))")"
  done
  expect_no_ranks
done

echo "a stranger has the ranks' port"
listen_on $((port + 1))
bounded "${one_node[@]}" "$bench" all_reduce "${arguments[@]}"
kill "$stranger"
[ "$status" -ne 0 ] || fail "the job passes although a stranger has its port"
expect "rank 0 cannot open the rendezvous at 127.0.0.1:$((port + 1)): Address already in use" "$output"
expect_no_ranks
