#!/usr/bin/env bash
# What happens between hosts when hosts, links and processes fail: every survivor gets an answer that names who is
# missing, and what is no fault raises no alarm. Each case is a cluster of its own (scripts/cluster.sh).
#
#   tests/host_faults_test.sh SOURCE_DIR BUILD_DIR [CASE...]
#
# Exit status: 77 where this machine cannot make such a cluster.
set -euo pipefail

source_dir=$1 program=$2/tests/tutti_host_rank tutti=$2/tools/tutti
shift 2
cases=("$@")
[ ${#cases[@]} -gt 0 ] || cases=(nothing kill power_off link_down_and_up link_stays_down partition stopped late strangers
                                 wrong_secret leaves_early)
cluster=$source_dir/scripts/cluster.sh
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

start() {  # start SECONDS [LATE]: the cluster, in the background; returns when all ranks run
  local try
  name=faults-$$-$case
  : >"$work/out"
  "$cluster" --hosts $hosts --ranks-per-host $ranks_per_host --bandwidth 1gbit --grace 60 --name "$name" -- \
    "$program" "$1" $bytes "${@:2}" >"$work/out" 2>&1 &
  pid=$!
  for ((try = 0; try < 300; try++)); do
    [ "$(grep -c ' runs$' "$work/out")" -lt $ranks ] || return 0
    kill -0 $pid 2>/dev/null || break
    sleep 0.1
  done
  complain "the ranks did not start"
  return 1
}
control() { "$cluster" --name "$name" --control "$@"; }
finish() { wait $pid || true; }

# expect_failures COUNT PATTERN: so many ranks failed, each with a message that matches
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
# Longest wait that a rank reports, in ms.
longest_wait() { sed -n 's/.* failed after \([0-9]*\) ms.*/\1/p' "$work/out" | sort -n | tail -1; }
expect_within() { [ "$(longest_wait)" -le "$1" ] || complain "the longest wait was $(longest_wait) ms, above $1"; }

case_nothing() {
  start 2 || return 0
  finish
  expect_all_done
}
# A process that dies is missed at once, and named with its host.
case_kill() {
  local -x TUTTI_DUMP=$work/dump-%r.json
  start 60 || return 0
  pkill -KILL -f "^$program 60 $bytes" -n
  finish
  expect_failures $((ranks - 1)) 'rank [0-9]+ \(host host[0-2], pid [0-9]+\) (died|was lost)'
  expect_within 5000
  # The dumps tell, too, whose process ended before it could leave one.
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
# Longer than TUTTI_SILENCE_MS: a debugger is no fault.
case_stopped() {
  local stopped
  start 8 || return 0
  stopped=$(pgrep -f "^$program 8 $bytes" -n)
  kill -STOP "$stopped"
  sleep 5
  # What started it on its host stops and goes on with it, but wants to be told.
  kill -CONT "$stopped" "$(ps -o ppid= -p "$stopped" | tr -d ' ')"
  finish
  expect_all_done
}
# So is a rank that computes before its first operation, when nobody is connected to it yet.
case_late() {
  start 1 8 || return 0
  finish
  expect_all_done
}
# Whoever finds the ports of the ranks may knock, talk and hang up as he likes.
case_strangers() {
  local listening
  start 5 || return 0
  listening=$(pgrep -f "^$program 5 $bytes" -o)
  nsenter --net --target "$listening" python3 - <<'PYTHON' || complain "the strangers failed"
import os, re, socket, subprocess, time
sockets = []
for line in open("/proc/net/tcp"):
    fields = line.split()
    if len(fields) < 4 or fields[3] != "0A":
        continue
    address, port = fields[1].split(":")
    ip = ".".join(str(b) for b in reversed(bytes.fromhex(address)))
    for i in range(40):
        s = socket.create_connection((ip, int(port, 16)), timeout=5)
        if i % 3 == 0:
            s.send(os.urandom(200))
        if i % 3 == 1:
            s.close()
        else:
            sockets.append(s)
assert len(sockets) > 40, "nobody listens"
time.sleep(1)
PYTHON
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
# A rank that has done its part may go, and what it sent arrives: rank 0 ends first, and says so in its last words.
case_leaves_early() {
  for _ in 1 2 3; do
    start 0 || return 0
    finish
    expect_all_done
  done
}

for case in "${cases[@]}"; do
  echo "-- $case"
  "case_$case"
done
exit $failed
