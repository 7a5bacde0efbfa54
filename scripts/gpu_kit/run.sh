#!/usr/bin/env bash
# Runs the kit's steps on a machine with a GPU, from any path, those of the most value first. It needs bash and the usual
# tools.
#
#   gpu_kit.sh run [OPTIONS]
#     --seconds S        for how long there is a machine, all calls with the same results together; default: 900
#     --call-seconds S   for how long this call may run; default: 540
#     --results DIR      where results go: DIR/steps has a file for each step, DIR/gpu_GROUP.json all of a group.
#                        Default: results, beside the kit. A failure does not replace what a step saw when it ended well
#     --only REGEX       runs only the steps whose GROUP/NAME matches
# Every step has its own time-out, and its result is written at once, so a call that is cut off still tells what it saw,
# and the next one goes on. Time that is left when each group has had its share goes to what their shares had no room
# for, and to what failed before.
#
# A step is settled, and not run again, if it ended well with the same sources, command and settings, on the same GPUs
# with the same driver: in DIR, or in the results that the repository had when the kit was packed. So tests and times of
# Tutti are due again when its sources change; what a GPU does without Tutti is not.
#
# Exit status 1: a step failed or had no time left. A step that needs what this machine lacks (MPS, compute-sanitizer) is
# left out, and that is no failure.
set -euo pipefail
kit=$(cd "$(dirname "$0")/.." && pwd)
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$kit/gpu_kit/run.sh"; }

results=$kit/../results
seconds=900
call_seconds=540
only=.
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
  esac
  [ $# -ge 2 ] || { usage >&2 && exit 2; }
  case $1 in
    --results) results=$2 ;;
    --seconds) seconds=$2 ;;
    --call-seconds) call_seconds=$2 ;;
    --only) only=$2 ;;
    *) echo "$0: unknown argument $1" >&2 && usage >&2 && exit 2 ;;
  esac
  shift 2
done
# REHEARSAL: over the fake GPU, with tiny sizes; measures nothing.
rehearsal=${REHEARSAL:-}
. "$kit/gpu_kit/packed"

export LD_LIBRARY_PATH=$kit/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# A wait that would last for ever becomes an error that says who waits for whom, well before a step's own time-out.
export TUTTI_TIMEOUT_MS=${TUTTI_TIMEOUT_MS:-20000} TUTTI_INIT_TIMEOUT_MS=${TUTTI_INIT_TIMEOUT_MS:-20000}
bench=$kit/bin/tutti-bench
tests=$kit/bin/tutti_tests
why=$("$bench" --help 2>&1 >/dev/null) || { echo "$0: the kit's programs do not start here: $why" >&2 && exit 2; }
mkdir -p "$results/steps"
results=$(cd "$results" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
spent_before=$(cat "$results/spent" 2>/dev/null || echo 0)
failures=0

# Prints standard input as a JSON string.
quoted() { printf '"%s"' "$(tr -d '\000-\010\013-\037' | sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g' | sed ':a; N; $!ba; s/\n/\\n/g')"; }

smi() { # QUERY [FORMAT]
  command -v nvidia-smi >/dev/null || { echo "no nvidia-smi" && return; }
  timeout 20 nvidia-smi --query-gpu="$1" --format="csv${2:-}" 2>&1 || true
}

# Writes all results of the group as one file.
combine() {
  local file first=yes
  {
    printf '{"gpu_kit": 2, "group": "%s", "rehearsal": %s, "steps": [\n' "$group" "$([ -n "$rehearsal" ] && echo true || echo false)"
    # In the order in which they are taken, which tables have; of one step, a failure last.
    (cd "$results/steps" && grep -oH '^{"order": [0-9]*' "$group"-*.json) | sed 's/:{"order":/ /' | sort -k2n -k1,1r | while read -r file _; do
      [ -n "$first" ] || echo ,
      first=
      cat "$results/steps/$file"
    done
    echo ']}'
  } >"$results/gpu_$group.json.new"
  mv "$results/gpu_$group.json.new" "$results/gpu_$group.json"
}
now() { date -u +%Y-%m-%dT%H:%MZ; }
machine=$({ uname -srm && nproc && sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1; } | paste -sd, | quoted)
nvidia_smi=$(smi name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,compute_mode,mig.mode.current,memory.used,temperature.gpu,power.draw | quoted)
# Those that CUDA shows, which CUDA_VISIBLE_DEVICES and instances (MIG) decide.
gpus=$(timeout 20 "$kit/bin/gpu_devices" 2>/dev/null) || gpus=
gpu_count=$(wc -l <<<"$gpus") # if there is none, the steps say so
driver=$(smi driver_version ,noheader | sort -u)

# Prints the functions among the words, and all that they call.
functions() { # WORD...
  local word
  for word in "$@"; do
    declare -F -- "$word" >/dev/null && [ -z "${printed[$word]:-}" ] || continue
    printed[$word]=yes
    declare -f -- "$word"
    functions $(declare -f -- "$word" | grep -oE '[a-z_]+' | sort -u)
  done
}

# A hash of all that decides a step's result. A function that a step runs is part of its command; where the kit, its scratch folder and
# the NCCL to compare with lie is not.
key() { # SOURCES COMMAND...
  local -A printed=()
  {
    echo "$gpus" "$driver" "$architectures" "$@"
    functions "$@"
    env | grep -E '^(TUTTI|NCCL_|REHEARSAL)' | sort
  } | sed "s#$kit##g; s#$work##g; s#${NCCL:-$work}##g" | sha256sum | cut -c1-16
}

# The steps that follow belong to this group. When it has had its share, it waits until all groups had theirs.
group() { # NAME SECONDS
  group=$1 share=$2
}
taken_by_group() {
  { cat "$results/steps/$group"-*.json 2>/dev/null || true; } | sed -n 's/^{"order": .*"seconds": \([0-9]*\),.*/\1/p' | awk '{ sum += $1 } END { print sum + 0 }'
}

count=0
declare -A seen=()
# step NAME LIMIT SOURCES COMMAND...: runs the command, a program or a function, for at most LIMIT seconds. It may write
# JSON to $result, and exits with 77 if it does not apply here. SOURCES: a hash of what the program is made of.
step() {
  local name=$1 limit=$2 begin=$SECONDS status=ok code=0 file failed key left cut=
  count=$((count + 1))
  [[ $group/$name =~ $only ]] || return 0
  [ -z "${seen[$group/$name]:-}" ] || return 0
  file=$results/steps/$group-$name.json
  failed=$results/steps/$group-$name.failed.json # a failure since $file, which ended well
  key=$(key "${@:3}")
  shift 3
  if grep -qs "\"status\": \"ok\".*\"key\": \"$key\"" "$file" || grep -qsx "$key" "$kit/gpu_kit/settled"; then
    echo "[gpu] $group/$name: settled"
    seen[$group/$name]=yes
    return 0
  fi
  if [ -n "$shares" ]; then
    ! grep -qs '"status": "FAILED' "$file" "$failed" || return 0
    (($(taken_by_group) < share)) || return 0
  fi
  seen[$group/$name]=yes
  left=$((seconds - spent_before < call_seconds ? seconds - spent_before - SECONDS : call_seconds - SECONDS))
  if ((left < least_seconds)); then
    echo "[gpu] $group/$name: left out: no time was left"
    failures=$((failures + 1))
    return 0
  fi
  ((limit < left)) || limit=$left cut=yes
  rm -f "$result"
  # If the machine goes away during the step, its limit counts as spent.
  echo $((spent_before + SECONDS + limit)) >"$results/spent"
  [ "$(type -t -- "$1")" != function ] || set -- bash -c '"$0" "$@"' "$@"
  timeout -k 5 "$limit" "$@" >"$work/log" 2>&1 </dev/null || code=$?
  echo $((spent_before + SECONDS)) >"$results/spent"
  [[ -z $cut || ! $code =~ ^(124|137)$ ]] || code=cut
  case $code in
    0) ;;
    cut) status="left out: no time was left for more than $limit s" && failures=$((failures + 1)) ;;
    77) status="left out: $(tail -n 1 "$work/log")" ;;
    124 | 137) status="FAILED: stopped after $((SECONDS - begin)) s" ;;
    *) status="FAILED: exit status $code" ;;
  esac
  [[ $status != FAILED* ]] || failures=$((failures + 1))
  echo "[gpu] $group/$name: $status ($((SECONDS - begin)) s)"
  [[ $status != FAILED* ]] || tail -n 15 "$work/log" | sed 's/^/    /'
  # A call with more time may have seen more: its result stays, as one that ended well does.
  [[ $code != cut || ! -f $file ]] || return 0
  if grep -qs '"status": "ok"' "$file"; then
    case $status in
      ok) rm -f "$failed" ;;
      FAILED*) file=$failed ;;
      *) return 0 ;;
    esac
  fi
  {
    printf '{"order": %d, "name": "%s", "status": %s, "date": "%s", "commit": "%s", "key": "%s", "seconds": %d, ' "$count" "$name" \
      "$(quoted <<<"$status")" "$(now)" "$commit" "$key" "$((SECONDS - begin))"
    printf '"architectures": "%s", "gpus": %s, "nvidia_smi": %s, "machine": %s, "log": %s, "result": ' "$architectures" \
      "$(quoted <<<"$gpus")" "$nvidia_smi" "$machine" "$(tail -n 60 "$work/log" | quoted)"
    if [ -s "$result" ]; then cat "$result"; else echo null; fi
    echo }
  } >"$work/step.json"
  mv "$work/step.json" "$file"
  combine
}
least_seconds=5 # a step that gets less cannot end
result=$work/result.json
export kit bench tests result rehearsal work

. "$kit/gpu_kit/steps.sh"
for shares in yes ""; do
  count=0
  all_steps
done
echo $((spent_before + SECONDS)) >"$results/spent"
echo "[gpu] $results: $SECONDS s, $(cat "$results/spent") of $seconds s in all; $failures steps failed or had no time"
[ "$failures" -eq 0 ]
