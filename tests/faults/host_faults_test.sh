#!/usr/bin/env bash
# Checks failures of hosts, links and processes: every survivor gets an error that names the missing rank, and harmless
# events raise no alarm. Each case is a separate cluster (scripts/cluster.sh).
#
#   tests/faults/host_faults_test.sh SOURCE_DIR BUILD_DIR [CASE...]
#
# Exit status 77: this machine cannot run such a cluster.
set -euo pipefail

source_dir=$1 program=$2/tests/tutti_host_rank tutti=$2/tools/tutti
shift 2
cases=("$@")
[ ${#cases[@]} -gt 0 ] ||
  cases=(nothing kill power_off link_down_and_up link_stays_down partition healed_late stopped late strangers wrong_secret
         leaves_early kill_and_shrink power_off_and_shrink partition_and_shrink link_flap_and_shrink revoke)
cluster=$source_dir/scripts/cluster.sh trouble=$source_dir/tests/faults/rank_trouble.sh
work=$(mktemp -d)
trap 'jobs -p | xargs -r kill -KILL 2>/dev/null; rm -rf "$work"' EXIT

status=0
"$cluster" --hosts 2 -- true >"$work/try" 2>&1 || status=$?
if [ "$status" -eq 77 ]; then
  cat "$work/try"
  exit 77
fi

export TUTTI_SILENCE_MS=3000
hosts=3 ranks_per_host=2 ranks=6
bytes=1000000
failed=0

complain() {
  echo "FAILED: $case: $*"
  sed 's/^/    /' "$work/out"
  failed=1
}

start() {  # start SECONDS [OPTION...]: starts the cluster in the background; returns when all ranks run
  local try
  name=faults-$$-$case
  : >"$work/out"
  FAULT_RUN=$name "$cluster" --hosts $hosts --ranks-per-host $ranks_per_host --bandwidth 1gbit --grace 60 \
    --name "$name" -- "$program" "$1" $bytes "${@:2}" >"$work/out" 2>&1 &
  pid=$!
  for ((try = 0; try < 300; try++)); do
    [ "$(grep -c ' runs$' "$work/out")" -lt $ranks ] || return 0
    kill -0 $pid 2>/dev/null || break
    sleep 0.1
  done
  # They may have run and ended since the last look.
  [ "$(grep -c ' runs$' "$work/out")" -lt $ranks ] || return 0
  complain "the ranks did not start"
  return 1
}
control() { "$cluster" --name "$name" --control "$@"; }
trouble() { "$trouble" "$name" "$@"; }  # trouble RANK VERB
finish() { wait $pid || true; }

# expect_failures COUNT PATTERN: checks that COUNT ranks failed, each with a message that matches PATTERN
expect_failures() {
  local got matching
  got=$(grep -c ' failed after ' "$work/out" || true)
  matching=$(grep ' failed after ' "$work/out" | grep -cE "$2" || true)
  [ "$got" -eq "$1" ] || complain "$got ranks failed, not $1"
  [ "$matching" -eq "$1" ] || complain "$matching of $got messages match /$2/"
}
expect_all_done() {
  local done_ranks
  done_ranks=$(grep -c ' is done: ' "$work/out" || true)
  [ "$done_ranks" -eq $ranks ] || complain "$done_ranks of $ranks ranks were done"
}
# expect_to_go_on RANKS [RANKS...]: checks that each set of ranks, such as "0 1 4", continues with exactly its members
# and completes
expect_to_go_on() {
  local members expected=0 got
  for members in "$@"; do
    got=$(grep -c " goes on as .* with ranks $members\$" "$work/out" || true)
    [ "$got" -eq "$(wc -w <<<"$members")" ] || complain "$got ranks go on as ranks $members"
    expected=$((expected + $(wc -w <<<"$members")))
  done
  ranks=$expected expect_all_done
}
# Prints the longest wait that a rank reports, in ms.
longest_wait() { sed -n 's/.* failed after \([0-9]*\) ms.*/\1/p' "$work/out" | sort -n | tail -1; }
expect_within() { [ "$(longest_wait)" -le "$1" ] || complain "the longest wait was $(longest_wait) ms, above $1"; }

case_nothing() {
  start 2 || return 0
  finish
  expect_all_done
}
# Survivors detect a dead process at once and name its rank and host.
case_kill() {
  local -x TUTTI_DUMP=$work/dump-%r.json
  start 60 || return 0
  trouble 5 kill
  finish
  expect_failures $((ranks - 1)) 'rank [0-9]+ \(host host[0-2], pid [0-9]+\) (died|was lost)'
  expect_within 5000
  # The diagnosis also shows which rank ended before it could write a dump.
  [ ! -x "$tutti" ] || "$tutti" diagnose "$work"/dump-*.json >"$work/diagnosis"
  [ ! -x "$tutti" ] || grep -q 'left no dump' "$work/diagnosis" || complain "$(cat "$work/diagnosis")"
}
case_power_off() {
  start 60 || return 0
  control power-off host2
  finish
  expect_failures 4 'rank [45] \(host host2, pid [0-9]+\) was lost'
  expect_within 20000
}
case_link_down_and_up() {
  start 8 || return 0
  control link-down host1
  sleep 1.5
  control link-up host1
  finish
  expect_all_done
}
# The partition heals before any rank counts as lost, but after the last retransmission within that time (3 s).
case_healed_late() {
  local -x TUTTI_SILENCE_MS=4000
  start 12 || return 0
  control partition host0
  sleep 3.6
  control heal
  finish
  expect_all_done
}
case_link_stays_down() {
  start 60 || return 0
  control link-down host1
  finish
  expect_failures 6 'rank [0-9]+ \(host host[0-2], pid [0-9]+\) was lost'
  expect_within 20000
}
case_partition() {
  start 60 || return 0
  control partition host0
  finish
  expect_failures 6 'was lost'
  expect_within 20000
}
# A rank is stopped for longer than TUTTI_SILENCE_MS, as in a debugger. The other ranks must wait.
case_stopped() {
  start 8 || return 0
  trouble 5 stop
  sleep 5
  trouble 5 continue
  finish
  expect_all_done
}
# A rank that computes before its first operation, when no rank has connected to it yet, is not a fault either.
case_late() {
  start 1 late=8000 || return 0
  finish
  expect_all_done
}
# Strangers may connect to the ranks' ports, send data and hang up, without effect.
case_strangers() {
  # The strangers connect from inside the ranks' network, where only root can start them.
  [ "$(id -u)" -eq 0 ] || return 0
  start 5 || return 0
  trouble 0 strangers || complain "the strangers failed"
  finish
  expect_all_done
}
case_wrong_secret() {
  name=faults-$$-secret
  # shellcheck disable=SC2016
  TUTTI_INIT_TIMEOUT_MS=8000 "$cluster" --hosts 2 --name "$name" --grace 20 -- \
    bash -c 'TUTTI_SECRET=secret$RANK exec "$0" 2 1000' "$program" >"$work/out" 2>&1 || true
  grep -qE "another secret|does not hold this job's secret" "$work/out" || complain "nobody speaks of the secret"
  ! grep -q ' runs$' "$work/out" || complain "strangers reduced together"
}
# A rank that has done its part may leave, and its data still arrives. Rank 0 ends first, and announces its end.
case_leaves_early() {
  for _ in 1 2 3; do
    start 0 || return 0
    finish
    expect_all_done
  done
}
# Survivors agree on the remaining ranks and continue, even if the leader died.
case_kill_and_shrink() {
  start 60 shrink=500 || return 0
  trouble 0 kill
  finish
  expect_to_go_on "1 2 3 4 5"
}
case_power_off_and_shrink() {
  local off
  local -A left=([host2]="0 1 2 3" [host0]="2 3 4 5")
  for off in "${!left[@]}"; do
    start 60 shrink=500 || return 0
    control power-off "$off"
    finish
    expect_to_go_on "${left[$off]}"
  done
}
# Neither side can get information about the other.
case_partition_and_shrink() {
  start 60 shrink=500 || return 0
  control partition host0
  finish
  expect_to_go_on "0 1" "2 3 4 5"
}
# The link returns while ranks look for each other: either all continue together, or late ranks get an error.
case_link_flap_and_shrink() {
  local together told
  start 60 shrink=500 || return 0
  control link-down host1
  until grep -q ' failed after ' "$work/out"; do sleep 0.1; done
  sleep 1
  control link-up host1
  finish
  together=$(grep -o ' with ranks .*' "$work/out" | sort -u | wc -l)
  [ "$together" -eq 1 ] || complain "$together communicators go on, not 1"
  told=$(grep -c ' cannot go on .* the other ranks go on without' "$work/out" || true)
  ranks=$((ranks - told)) expect_all_done
}
case_revoke() {
  start 60 shrink=500 revoke=4:1000 || return 0
  finish
  expect_failures 6 'rank 4 \(host host2, pid [0-9]+\) revoked the communicator'
  expect_to_go_on "0 1 2 3 4 5"
}

for case in "${cases[@]}"; do
  echo "-- $case"
  "case_$case"
done
exit $failed
