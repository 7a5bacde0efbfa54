#!/usr/bin/env bash
# Runs all checks on a fresh checkout: installs missing packages, builds Release and runs the tests.
#   scripts/test.sh                       all tests, and each fuzz target for seconds if clang-14 is installed
#   scripts/test.sh --quick               without fuzzing and without the tests labelled "slow"
#   scripts/test.sh --no-long             without those labelled "long", which build or fetch something large of their own
#   scripts/test.sh --sanitize asan       under a sanitizer: asan, ubsan or tsan
#   scripts/test.sh ... -- CTEST-ARGS     e.g. -- -R watch
# If run by root, it then repeats the quick tests as an ordinary user, with 1,024 descriptors, 64 KiB of locked memory,
# umask 077, and a /dev/shm of 64 MB. It leaves out the tests labelled "any_user", whose result does not depend on the
# user (CONTRIBUTING.md). If run by an ordinary user, it runs the tests once.
# A test that fails while others run is run again alone, twice. If it then passes, it is listed at the end but does not
# count as failed, because some tests wait too long on a busy machine. The output of the failed tests comes last.
# Outside this checkout it leaves only apt packages.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

preset=release
quick=
no_long=
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=yes ;;
    --no-long) no_long=yes ;;
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

failures=$(mktemp -d)
trap 'rm -rf "$failures"' EXIT

# Prints the end of the output of the tests that failed in the last run.
outputs_of_failed() {
  awk '
    FNR == NR { failed[substr($0, index($0, ":") + 1)] = 1; next }
    /^End testing/ { shown = 0 }
    / (Testing|Test): / { name = $0; sub(/^[0-9]+\/[0-9]+ (Testing|Test): /, "", name); shown = name in failed }
    shown' "$1/LastTestsFailed.log" "$1/LastTest.log" | tail -n 120 | cut -c1-400
}

# run_tests PRESET USER CTEST-ARGS: USER is the command that runs ctest. Repeats failed tests, unless more failed than
# most_repeated.
most_repeated=10
run_tests() {
  local preset=$1 user=$2 log=build/$1/Testing/Temporary names
  shift 2
  rm -f "$log/LastTestsFailed.log"
  "$user" ctest --preset "$preset" "$@" </dev/null && return
  if [ ! -s "$log/LastTestsFailed.log" ]; then
    echo "ctest itself ($preset, $user)" >>"$failures/failed"
    return 1
  fi
  names=$(cut -d: -f2- "$log/LastTestsFailed.log")
  { echo "[test] failed beside others ($preset, $user):" && outputs_of_failed "$log"; } >>"$failures/outputs"
  if [ "$(wc -l <<<"$names")" -le "$most_repeated" ]; then
    echo "[test] once more, alone: $(paste -sd" " <<<"$names")"
    if "$user" ctest --preset "$preset" --rerun-failed --parallel 1 --repeat until-fail:2 </dev/null; then
      echo "$names" >>"$failures/busy"
      return
    fi
    names=$(cut -d: -f2- "$log/LastTestsFailed.log")
  fi
  echo "$names" >>"$failures/failed"
  return 1
}

# Fuzzing runs first, so that the output of the tests comes last.
status=0
if [ -z "$quick" ] && [ "$preset" = release ] && [ $# -eq 0 ]; then
  if command -v clang++-14 >/dev/null; then
    if scripts/build.sh fuzz tutti_fuzz; then
      run_tests fuzz env --parallel "$(nproc)" || status=$?
    else
      status=$?
      echo "the build of the fuzz targets" >>"$failures/failed"
    fi
  else
    echo "[test] clang++-14 is not installed: the fuzz targets are left out"
  fi
fi
fuzzed=$SECONDS

# More jobs than cores, because many tests wait more than they compute.
jobs=$(($(nproc) * 3 / 2))
[ "$jobs" -gt 1 ] || jobs=2
selection=()
[ -z "$no_long" ] || selection=(--label-exclude long)
[ -z "$quick" ] || selection=(--label-exclude slow)
echo "[test] ctest --preset $preset ${selection[*]} $*"
run_tests "$preset" env --parallel "$jobs" "${selection[@]}" "$@" || status=$?
rooted=$SECONDS

# shellcheck disable=SC2317 # run_tests calls it by name
# Runs a command as user 65534, who owns nothing on this machine.
as_ordinary_user() {
  local home status=0
  local user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  # User 65534 must be able to read this checkout even if its folders are closed to others; the capability allows only
  # reading.
  "${user[@]}" test -r "$PWD/CMakeLists.txt" 2>/dev/null ||
    user+=(--inh-caps=+dac_read_search --ambient-caps=+dac_read_search)
  home=$(mktemp -d)
  chown 65534:65534 "$home"
  chown -R 65534:65534 "build/$preset/Testing" # where ctest writes its log
  local namespace=(unshare --mount)
  "${namespace[@]}" true 2>/dev/null || {
    echo "[test] no mount namespaces here: /dev/shm keeps its size"
    namespace=()
  }
  # shellcheck disable=SC2016
  "${namespace[@]}" bash -c '
    [ -z "$1" ] || mount -t tmpfs -o size=64m,mode=1777 tmpfs /dev/shm || exit
    shift
    umask 077
    exec "$@"' - "${namespace[*]}" \
    prlimit --nofile=1024:1024 --memlock=65536:65536 "${user[@]}" env HOME="$home" TMPDIR="$home" "$@" || status=$?
  chown -R 0:0 "build/$preset/Testing"
  rm -rf "$home"
  return "$status"
}

if [ "$(id -u)" -eq 0 ] && [ "$preset" = release ] && [ $# -eq 0 ]; then
  if setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null; then
    echo "[test] once more, as an ordinary user: ctest --preset $preset --label-exclude 'slow|any_user'"
    run_tests "$preset" as_ordinary_user --parallel "$jobs" --label-exclude 'slow|any_user' || status=$?
  else
    echo "[test] root cannot become another user here: the tests are not run as an ordinary user"
  fi
fi
# Tests of kernels print such a line. Without them there is none.
grep -h '^SIMD targets tested' "build/$preset/Testing/Temporary/LastTest.log" | sort -u | sed 's/^/[test] /' || true
[ ! -e "$failures/outputs" ] || cat "$failures/outputs"
[ ! -e "$failures/busy" ] || echo "[test] failed beside others, passed twice alone: $(paste -sd" " "$failures/busy")"
[ ! -e "$failures/failed" ] || echo "[test] failed: $(paste -sd" " "$failures/failed")"
[ "$status" -eq 0 ] && verdict=passed || verdict=FAILED
echo "[test] $verdict; build $((built - started)) s, fuzzing $((fuzzed - built)) s, tests $((rooted - fuzzed)) s, as a user $((SECONDS - rooted)) s"
exit "$status"
