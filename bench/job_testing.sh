# shellcheck shell=bash disable=SC2034,SC2154
# Helpers for the tests in which tutti-bench is a rank of a job. The test sets `bench`, the path of tutti-bench, and reads
# the variables that are set here.

# A few small calls, of which every result is checked.
arguments=(-b 8 -e 1M -f 64 -n 5 -w 1)
# A job that goes on until a rank is killed.
endless=(all_reduce -b 8 -e 1M -f 64 --run_cycles 0)
# Far more than a job takes. A job that ends later counts as hung.
seconds=120

fail() {
  echo "$*"
  exit 1
}

expect() {  # expect PATTERN TEXT
  grep -q "$1" <<<"$2" || { echo "the output lacks \"$1\":" && echo "$2" && exit 1; }
}

# bounded COMMAND...: sets `output` and `status`
bounded() {
  status=0
  output=$(timeout "$seconds" "$@" 2>&1) || status=$?
  [ "$status" -ne 124 ] || fail "no end within $seconds s: $*"$'\n'"$output"
}

# expect_results RANKS TEXT: one rank reports that all results were right
expect_results() {
  expect "$1 ranks" "$2"
  expect "Out of bounds values : 0 OK" "$2"
  [ "$(grep -c "Out of bounds" <<<"$2")" -eq 1 ] || fail "several ranks report:"$'\n'"$2"
}

# Prints the process of each rank whose environment has VARIABLE=VALUE; without an argument, of every rank.
processes_of_ranks() {
  local process
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/exe")" = "$(realpath "$bench")" ] || continue
    grep -zq "^${1:-}" "$process/environ" 2>/dev/null && echo "${process##*/}"
  done
  return 0
}

# wait_for_result FILE: until the job's output has a line of the table
wait_for_result() {
  local tries
  for ((tries = 0; tries < seconds * 10; tries++)); do
    ! grep -qs "float  *sum" "$1" || return 0
    sleep 0.1
  done
  fail "no result within $seconds s:"$'\n'"$(cat "$1")"
}

# kill_in_job VARIABLE=VALUE FILE: kills this rank when FILE, the job's output, has a result; sets `victim`
kill_in_job() {
  wait_for_result "$2"
  victim=$(processes_of_ranks "$1$")
  [[ $victim =~ ^[0-9]+$ ]] || fail "no single process has $1: $victim"$'\n'"$(cat "$2")"
  kill -KILL "$victim"
}

# expect_reason RANK KILLED TEXT: RANK says that KILLED, the process `victim`, is gone. The bench notices this, or a call.
# Rank 0 speaks for the bench and does not name itself.
expect_reason() {
  local teller="rank $1: .*"
  [ "$1" -ne 0 ] || teller=
  expect "$teller\(rank $2 (.*pid $victim) \(is gone\|died\)\|tutti-bench of rank $2 has ended\)" "$3"
}

# Waits until no rank is left.
expect_no_ranks() {
  local tries
  for ((tries = 0; tries < 100; tries++)); do
    [ -n "$(processes_of_ranks)" ] || return 0
    sleep 0.1
  done
  fail "ranks are left: $(processes_of_ranks | paste -sd' ')"
}

# listen_on PORT: a server that is no rank; sets `stranger`, its process
listen_on() {
  local tries
  python3 -m http.server --bind 127.0.0.1 "$1" >/dev/null 2>&1 &
  stranger=$!
  for ((tries = 0; tries < 100; tries++)); do
    ! (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null || return 0
    sleep 0.1
  done
  fail "no server on port $1"
}
