#!/usr/bin/env bash
# The command lines of tutti and tutti-bench: versions, exit statuses, JSON, completion in the shells that are here, man
# pages, and `tutti run`.
#   command_lines_test.sh SOURCE_DIR BUILD_DIR
set -uo pipefail
source=$1 build=$2
tutti=$build/tools/tutti bench=$build/bench/tutti-bench pages=$build/tools/pages
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect STATUS TEXT COMMAND...: it ends with that status and prints the text, as a regular expression, somewhere.
expect() {
  local status=$1 text=$2 got
  shift 2
  "$@" >"$work/out" 2>&1 </dev/null
  got=$?
  if [[ $got != "$status" ]] || ! grep -qE -- "$text" "$work/out"; then
    echo "FAILED: $* ended with $got, not $status, or did not print \"$text\":"
    head -n 20 "$work/out"
    failures=$((failures + 1))
  fi
}
# holds WHAT COMMAND...: the command succeeds.
holds() {
  local what=$1
  shift
  "$@" >"$work/out" 2>&1 || { echo "FAILED: $what"; head -n 20 "$work/out"; failures=$((failures + 1)); }
}

version=$(sed -n 's/^project(tutti VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
expect 0 "^tutti $version\$" "$tutti" --version
expect 0 "^tutti-bench $version\$" "$bench" --version
expect 0 'Usage: tutti ' "$tutti" --help
expect 2 'subcommand' "$tutti"
expect 2 'there is no command rnu; did you mean run\?' "$tutti" rnu
expect 2 'there is no option --nodez; did you mean --nodes\? \(`tutti topo --help`' "$tutti" topo --nodez 2
expect 2 'there is no option --rank; did you mean --ranks\?' "$bench" all_reduce --rank=3
expect 2 '"bsh" is unknown; did you mean bash\?' "$tutti" completion bsh
for command in show verify; do
  expect 2 'algorithm "rign" is unknown; did you mean ring\?' "$tutti" $command all_reduce rign --ranks 4
  expect 2 'collective "rign" is unknown' "$tutti" $command rign all_reduce --ranks 4
done
for command in explain simulate; do
  expect 2 'collective "all_reduse" is unknown; did you mean all_reduce\?' "$tutti" $command all_reduse --ranks 4
  expect 2 'algorithm "rign" is unknown; did you mean ring\?' "$tutti" $command all_reduce --algo rign --ranks 4
done
expect 2 'unknown unit "X"' "$tutti" explain all_reduce 1X --ranks 4
expect 2 'unknown unit "X"' "$tutti" simulate all_reduce -b 1X --ranks 4
expect 2 'GPU "h10" is unknown; did you mean h100\?' "$tutti" explain all_reduce 1M --one-gpu h10 --ranks 4
expect 2 'there is no rank 4 of 4' "$tutti" show all_reduce ring --ranks 4 --rank 4
expect 2 'an algorithm needs --ranks' "$tutti" show all_reduce ring
expect 2 'name "tb" is unknown' "$tutti" plan --model "$source/examples/models/gpt_145b.json" --cluster "$source/topology/testdata/dgx1v.xml" x 128 --given tb=8
expect 2 'data type "flaot" is unknown; did you mean float\?' "$bench" all_reduce -d flaot
expect 2 'peer "gloom" is unknown; did you mean gloo\?' "$bench" all_reduce --vs gloom
expect 2 'operator "summ" is unknown; did you mean sum\?' "$bench" all_reduce -o summ
expect 2 '--nonsense' "$tutti" topo --nonsense
expect 2 'does not exist' "$tutti" topo /nowhere.xml
expect 1 'cannot read /nowhere.json: No such file' "$tutti" diagnose /nowhere.json
expect 1 '/dev/null' "$tutti" diagnose /dev/null
expect 2 'name "all_reduse" is unknown; did you mean all_reduce\?' "$bench" all_reduse
expect 0 'all_to_all' "$bench" alltoall -b 8 -e 8 --cell-ms 5
expect 1 'TUTTI_DEBUG="selct" is not allowed; did you mean select\?' env TUTTI_DEBUG=selct "$bench" all_reduce -b 8 -e 8
expect 0 'did you mean TUTTI_ALGO' env TUTTI_AGLO=ring "$bench" all_reduce -b 8 -e 8 --cell-ms 5

json() {
  expect 0 '' "$tutti" "$@" --json
  mv "$work/out" "$work/json"
  holds "tutti $* --json prints JSON" python3 -m json.tool "$work/json"
}
topology=$source/topology/testdata/dgx1v.xml
json settings
json topo "$topology"
json topo --topo "$topology" --nodes 2
json explain all_reduce 1M --ranks 4
json predict --ranks 4 -b 8 -e 64K
json simulate all_reduce --ranks 4 -b 8 -e 64K --links
json verify all_reduce ring --ranks 4
json verify ring all_reduce --ranks 4 # the former order
json show all_reduce ring --ranks 4
json plan --model "$source/examples/models/gpt_145b.json" --cluster "$topology" x 128 --prices

# A trace is one file, whatever the number of sizes.
expect 0 '' "$tutti" simulate all_reduce --ranks 4 --algo ring,direct -b 8 -e 1K --trace "$work/trace.json"
cat >"$work/trace.py" <<'PYTHON'
import json, sys
names = {event["args"]["name"] for event in json.load(open(sys.argv[1]))["traceEvents"] if event["name"] == "process_name"}
assert names >= {"ring: rank 3", "direct: rank 3"}, names
PYTHON
holds 'a trace has both algorithms' python3 "$work/trace.py" "$work/trace.json"
[[ $(echo "$work"/trace*.json) == "$work/trace.json" ]] || { echo 'FAILED: --trace wrote several files'; failures=$((failures + 1)); }

# Progress: a line that fits into the terminal; nothing in a pipe.
cat >"$work/progress.py" <<'PYTHON'
import fcntl, os, pty, struct, subprocess, sys, termios
ours, theirs = pty.openpty()
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
command = [sys.argv[1], "simulate", "all_reduce", "--ranks", "4", "--algo", "double_binary_tree", "-b", "8", "-e", "64"]
shown = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, check=True).stdout
os.close(theirs)
written = b""
try:
    while part := os.read(ours, 4096):
        written += part
except OSError:  # all has been read, and nobody writes
    pass
lines = written.decode().split("\r\x1b[K")
assert lines[1] == "[1/4] double_binary_tree 8: w", lines
assert all(len(line) < 30 for line in lines) and lines[-1] == "", lines
piped = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
assert (piped.stdout, piped.stderr) == (shown, b""), piped
PYTHON
holds 'progress is a line of a terminal' python3 "$work/progress.py" "$tutti"

# Completion, as bash itself would do it.
completes() {
  local wanted=$1
  shift
  local got
  got=$(bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '"_${1//-/_}"'; echo "${COMPREPLY[*]}"' - "$pages/bash/$1" "$@")
  [[ " $got " == *" $wanted "* ]] || { echo "FAILED: bash completes $* with \"$got\", not with $wanted"; failures=$((failures + 1)); }
}
completes diagnose tutti dia
completes --version tutti --v
completes --ranks-on tutti show --ranks-
completes zsh tutti completion z
completes both tutti-bench --place b
completes --minbytes tutti-bench --min
holds 'tutti completion bash is a script' bash -n <("$tutti" completion bash)
for shell in zsh fish; do
  command -v "$shell" >/dev/null || continue
  "$tutti" completion "$shell" >"$work/script"
  holds "tutti completion $shell is a script" "$shell" -n "$work/script"
done
if command -v fish >/dev/null; then
  holds 'fish completes commands' fish -c "source $pages/fish/tutti.fish; complete -C 'tutti dia' | grep -q '^diagnose'"
  holds 'fish completes options' fish -c "source $pages/fish/tutti.fish; complete -C 'tutti show --ranks-' | grep -q ranks-on"
fi

# Every option of --help is in the man page, which is set without a warning.
for page in "$pages"/man/*.1; do
  if command -v groff >/dev/null; then
    LC_ALL=C groff -man -ww -Tascii "$page" >"$work/page" 2>"$work/warnings"
    [[ ! -s $work/warnings ]] || { echo "FAILED: $page: $(head -n 3 "$work/warnings")"; failures=$((failures + 1)); }
  fi
done
for command in topo simulate run; do
  for option in $("$tutti" "$command" --help | grep -oE -- '--[a-z-]+' | sort -u); do
    grep -qF -- "${option//-/\\-}" "$pages/man/tutti-$command.1" || { echo "FAILED: tutti-$command.1 lacks $option"; failures=$((failures + 1)); }
  done
done

# tutti run: the ranks' environment, output, and how one that fails ends the others.
cat >"$work/rank.sh" <<'RANK'
#!/bin/bash
echo "rank $RANK of $WORLD_SIZE, local $LOCAL_RANK of $LOCAL_WORLD_SIZE, at $MASTER_ADDR:$MASTER_PORT, $*"
RANK
chmod +x "$work/rank.sh"
expect 0 '^\[2\] rank 2 of 3, local 2 of 3, at 127.0.0.1:[0-9]+, -n 7 --json$' "$tutti" run -n 3 --tag "$work/rank.sh" -n 7 --json
[[ $(wc -l <"$work/out") == 3 ]] || { echo 'FAILED: tutti run --tag printed other lines, too'; failures=$((failures + 1)); }
echo 'import os; print("python", os.environ["RANK"])' >"$work/rank.py"
expect 0 '^\[1\] python 1$' "$tutti" run -n 2 --tag "$work/rank.py"
# Threads for each rank: this process's processors over the ranks, at least 1, unless the caller says how many.
threads() { env -u OMP_NUM_THREADS "$@" -- bash -c 'echo "$OMP_NUM_THREADS threads"'; }
cores=$(env -u OMP_NUM_THREADS nproc)
expect 0 "^$cores threads$" threads "$tutti" run -n 1
expect 0 "^$((cores > 2 ? cores / 2 : 1)) threads$" threads "$tutti" run -n 2
expect 0 '^1 threads$' threads "$tutti" run -n $((cores + 1))
expect 0 '^7 threads$' threads env OMP_NUM_THREADS=7 "$tutti" run -n 2
expect 2 '"p" is not a number of ranks from 1 to 1024; write -n 2 for mpirun' "$tutti" run -np 2 true
expect 2 'PROGRAM' "$tutti" run -n 2
for patience in 1e300 inf nan -1; do
  expect 2 'is not a number of seconds from 0' "$tutti" run -n 1 --patience $patience true
done
# A line without an end is cut, so that it takes no memory.
expect 0 '^1536 65540$' bash -c '
  ulimit -v 150000
  "$0" run -n 1 --tag -- bash -c "head -c 100663296 /dev/zero | tr \\\\0 x" |
    awk "{ ++lines; if (length > longest) longest = length } END { print lines, longest }"' "$tutti"
for program in /nowhere /nowhere.py; do
  expect 127 "cannot execute $program: No such file" "$tutti" run -n 3 "$program"
  [[ $(wc -l <"$work/out") == 1 ]] || { echo "FAILED: tutti run $program says so more than once"; failures=$((failures + 1)); }
done
expect 7 'rank 1 .* ended with status 7' "$tutti" run -n 3 --patience 0.2 -- bash -c '[ "$RANK" != 1 ] || exit 7; sleep 60'
cat >"$work/ends.py" <<'PYTHON'
import json, sys
job = json.load(open(sys.argv[1]))
ends = [(rank["rank"], rank["status"], rank["signal"]) for rank in job["ranks"]]
assert (job["status"], job["failed_first"]) == (7, 1), job
assert ends == [(0, 0, None), (1, 7, None), (2, 143, 15)], ends
assert all(rank["pid"] > 0 and rank["us"] > 0 for rank in job["ranks"]), job
PYTHON
expect 7 '' "$tutti" run -n 3 --patience 0.2 --json "$work/ends" -- bash -c 'case $RANK in 0) exit 0 ;; 1) exit 7 ;; *) exec sleep 60 ;; esac'
holds 'tutti run --json says how each rank ended' python3 "$work/ends.py" "$work/ends"
expect 137 'rank 0 .* was ended by signal 9' "$tutti" run -n 2 --patience 0.2 -- bash -c '[ "$RANK" != 0 ] || kill -9 $$; sleep 60'
# One rank speaks for all whose environments have the same mistake. A rank with a mistake of its own speaks, too.
ranks=("$tutti" run -n 3 --tag -- bash -c '[[ $RANK != "$2" ]] || export TUTTI_TIMEOOT=3; exec "$1" all_reduce -b 8 -e 8 --cell-ms 5' ranks "$bench")
for run in 1 2; do
  expect 0 '^\[[0-2]\] tutti: TUTTI_TIMEOOT is not a setting' env TUTTI_TIMEOOT=3 "${ranks[@]}" none
  [[ $(grep -c TUTTI_TIMEOOT "$work/out") == 1 ]] || { echo 'FAILED: ranks say the same of their environment'; failures=$((failures + 1)); }
done
expect 0 '^\[2\] tutti: TUTTI_TIMEOOT is not a setting' "${ranks[@]}" 2
expect 0 'TUTTI_AGLO is not' env TUTTI_AGLO=ring "${ranks[@]}" 2
expect 0 '^\[2\] tutti: TUTTI_TIMEOOT is not a setting' env TUTTI_AGLO=ring "${ranks[@]}" 2
# A signal to the launcher ends the ranks.
"$tutti" run -n 2 --patience 0.2 -- sleep 61 &
launcher=$!
sleep 0.5
kill -TERM "$launcher"
wait "$launcher"
[[ $? == 143 ]] || { echo 'FAILED: SIGTERM to tutti run'; failures=$((failures + 1)); }
# So does its death.
"$tutti" run -n 2 -- sleep 62 &
launcher=$!
sleep 0.5
kill -KILL "$launcher"
wait "$launcher" 2>/dev/null
sleep 0.5
! pgrep -f '^sleep 6[0-2]$' >/dev/null || { echo 'FAILED: ranks outlive tutti run'; failures=$((failures + 1)); }

((failures == 0)) && echo ok
exit "$((failures > 0))"
