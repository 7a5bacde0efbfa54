#!/usr/bin/env bash
# Runs the fuzz targets for a given time, and keeps their corpora.
#   scripts/test/fuzz.sh [--hours H | --minutes M] [TARGET...]     default: all targets, an hour each
# Each target starts from its seeds and the corpus of earlier runs (build/fuzz/corpus/TARGET), and the corpus is
# minimised at the end. Prints executions, features and coverage, and the inputs that fail
# (build/fuzz/findings/TARGET-...). The exit status is 0 only if no input fails.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

seconds=3600
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --hours | --minutes)
      [[ ${2:-} =~ ^[0-9]+(\.[0-9]+)?$ ]] || { echo "$0: $1 takes a number" >&2 && exit 2; }
      seconds=$(awk -v n="$2" -v of="$1" 'BEGIN { printf "%d", n * (of == "--hours" ? 3600 : 60) }')
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*)
      echo "$0: unknown argument $1" >&2
      usage >&2
      exit 2
      ;;
    *) targets+=("$1") ;;
  esac
  shift
done

build=build/fuzz
cmake --preset fuzz >/dev/null
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cd "$build/corpus" && ls -- *.seeds | sed 's/\.seeds$//')
cmake --build "$build" --target "${targets[@]}"
mkdir -p "$build/findings"
limits=(-rss_limit_mb=1024 -timeout=20 -max_len=65536)
findings=0
for target in "${targets[@]}"; do
  corpus=$build/corpus/$target
  IFS=';' read -ra seeds <"$build/corpus/$target.seeds" || true
  log=$build/findings/$target.log
  echo "[fuzz] $target: $seconds s, $(find "$corpus" -type f | wc -l) inputs from before"
  status=0
  "$build/$target" -max_total_time="$seconds" -print_final_stats=1 "${limits[@]}" \
    -artifact_prefix="$build/findings/$target-" "$corpus" "${seeds[@]}" >"$log" 2>&1 </dev/null || status=$?
  grep -E 'stat::number_of_executed_units' "$log" || true
  grep -E 'cov: ' "$log" | tail -1 || true
  if [ "$status" -ne 0 ]; then
    findings=$((findings + 1))
    echo "[fuzz] $target found something (status $status): $log"
    grep -E 'ERROR|SUMMARY|Test unit written' "$log" || true
    continue
  fi
  rm -rf "$corpus.least"
  mkdir "$corpus.least"
  "$build/$target" -merge=1 "${limits[@]}" "$corpus.least" "$corpus" >>"$log" 2>&1 </dev/null
  rm -r "$corpus"
  mv "$corpus.least" "$corpus"
  echo "[fuzz] $target: $(find "$corpus" -type f | wc -l) inputs cover as much"
done
echo "[fuzz] ${#targets[@]} targets, $findings with findings"
[ "$findings" -eq 0 ]
