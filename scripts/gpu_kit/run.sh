#!/usr/bin/env bash
# Runs one call of the kit on a machine with a GPU, from any path; it needs bash and the usual tools.
#
#   gpu_kit.sh run correct | measure | compare [OPTIONS]
#     --results DIR   where results go: DIR/steps has a file for each step, DIR/gpu_CALL.json has all of them.
#                     Default: results, beside the kit. A step whose result there is good is not run again.
#     --budget S      seconds for all steps; default: 520
#     --only REGEX    runs only the steps whose names match
# Every step has its own time-out, and its result is written at once, so a call that is cut off still tells what it saw.
# Exit status 1: a step failed or had no time left. A step that needs what this machine lacks (NCCL, compute-sanitizer) is
# left out, and that is no failure.
set -euo pipefail
kit=$(cd "$(dirname "$0")/.." && pwd)
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$kit/gpu_kit/run.sh"; }

call=${1:-}
case $call in
  correct | measure | compare) shift ;;
  -h | --help) usage && exit 0 ;;
  *) usage >&2 && exit 2 ;;
esac
results=$kit/../results
budget=520
only=.
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || { usage >&2 && exit 2; }
  case $1 in
    --results) results=$2 ;;
    --budget) budget=$2 ;;
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
failures=0

# Prints standard input as a JSON string.
quoted() { printf '"%s"' "$(tr -d '\000-\010\013-\037' | sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g' | sed ':a; N; $!ba; s/\n/\\n/g')"; }

smi() {
  local query=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,compute_mode,mig.mode.current,memory.used,temperature.gpu,power.draw
  command -v nvidia-smi >/dev/null || { echo "no nvidia-smi" && return; }
  timeout 20 nvidia-smi --query-gpu=$query --format=csv 2>&1 || true
}

# Writes all results of this call as one file.
combine() {
  local file first=yes
  {
    printf '{"gpu_kit": 1, "call": "%s", "rehearsal": %s, "date": "%s", "commit": "%s", "architectures": "%s",\n' "$call" \
      "$([ -n "$rehearsal" ] && echo true || echo false)" "$date" "$commit" "$architectures"
    printf '"machine": %s,\n"nvidia_smi": %s,\n"steps": [\n' "$machine" "$nvidia_smi"
    for file in "$results/steps/$call"-*.json; do
      [ -f "$file" ] || continue
      [ -n "$first" ] || echo ,
      first=
      cat "$file"
    done
    echo ']}'
  } >"$results/gpu_$call.json.new"
  mv "$results/gpu_$call.json.new" "$results/gpu_$call.json"
}
date=$(date -u +%Y-%m-%dT%H:%MZ)
machine=$({ uname -srm && nproc && sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1; } | paste -sd, | quoted)
nvidia_smi=$(smi | quoted)

count=0
# step NAME LIMIT COMMAND...: runs the command for at most LIMIT seconds. It may write JSON to $result, and exits with 77
# if it does not apply here.
step() {
  local name=$1 limit=$2 begin=$SECONDS status=ok code=0 file
  shift 2
  count=$((count + 1))
  [[ $name =~ $only ]] || return 0
  file=$(printf '%s/steps/%s-%02d-%s.json' "$results" "$call" "$count" "$name")
  if grep -qs '"status": "ok"' "$file"; then
    echo "[gpu] $name: done before"
    return 0
  fi
  rm -f "$result"
  : >"$work/log"
  local left=$((budget - SECONDS))
  if ((left < 5)); then
    status="left out: no time was left"
    failures=$((failures + 1))
  else
    timeout -k 5 "$((limit < left ? limit : left))" "$@" >"$work/log" 2>&1 </dev/null || code=$?
    case $code in
      0) ;;
      77) status="left out: $(tail -n 1 "$work/log")" ;;
      124 | 137) status="FAILED: stopped after $((SECONDS - begin)) s" ;;
      *) status="FAILED: exit status $code" ;;
    esac
  fi
  [[ $status != FAILED* ]] || failures=$((failures + 1))
  echo "[gpu] $name: $status ($((SECONDS - begin)) s)"
  [[ $status != FAILED* ]] || tail -n 15 "$work/log" | sed 's/^/    /'
  {
    printf '{"name": "%s", "status": %s, "date": "%s", "commit": "%s", "seconds": %d, "log": %s, "result": ' "$name" \
      "$(quoted <<<"$status")" "$(date -u +%Y-%m-%dT%H:%MZ)" "$commit" "$((SECONDS - begin))" "$(tail -n 40 "$work/log" | quoted)"
    if [ -s "$result" ]; then cat "$result"; else echo null; fi
    echo }
  } >"$work/step.json"
  mv "$work/step.json" "$file"
  combine
}
result=$work/result.json
export kit bench tests result rehearsal

. "$kit/gpu_kit/steps.sh"
"steps_of_$call"
combine
echo "[gpu] $results/gpu_$call.json, $SECONDS s; $failures steps failed or had no time"
[ "$failures" -eq 0 ]
