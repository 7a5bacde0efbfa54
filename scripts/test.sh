#!/usr/bin/env bash
# Everything that must hold, from nothing: installs what is missing, builds Release and runs the tests.
#   scripts/test.sh                       all tests; the fuzz targets too, for seconds, where clang-14 is installed
#   scripts/test.sh --quick               without the tests labelled "slow" and without fuzzing
#   scripts/test.sh --sanitize asan       under a sanitizer: asan, ubsan or tsan
#   scripts/test.sh ... -- CTEST-ARGS     e.g. -- -R watch
# Leaves nothing outside this checkout but apt packages.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

preset=release
quick=
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=yes ;;
    --sanitize)
      case ${2:-} in
        asan | ubsan | tsan) preset=$2 ;;
        *)
          echo "$0: --sanitize takes asan, ubsan or tsan" >&2
          exit 2
          ;;
      esac
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    --)
      shift
      break
      ;;
    *)
      echo "$0: unknown argument $1" >&2
      usage >&2
      exit 2
      ;;
  esac
  shift
done

started=$SECONDS
scripts/setup.sh
scripts/build.sh "$preset"
built=$SECONDS

# Before the tests, so that theirs are the last lines.
status=0
if [ -z "$quick" ] && [ "$preset" = release ] && [ $# -eq 0 ]; then
  if command -v clang++-14 >/dev/null; then
    { scripts/build.sh fuzz tutti_fuzz && ctest --preset fuzz --parallel "$(nproc)" </dev/null; } || status=$?
  else
    echo "[test] clang++-14 is not installed: the fuzz targets are left out"
  fi
fi
fuzzed=$SECONDS

selection=()
[ -z "$quick" ] || selection=(--label-exclude slow)
echo "[test] ctest --preset $preset ${selection[*]} $*"
ctest --preset "$preset" --parallel "$(nproc)" "${selection[@]}" "$@" </dev/null || status=$?
[ "$status" -eq 0 ] && verdict=passed || verdict=FAILED
echo "[test] $verdict; build $((built - started)) s, fuzzing $((fuzzed - built)) s, tests $((SECONDS - fuzzed)) s"
exit "$status"
