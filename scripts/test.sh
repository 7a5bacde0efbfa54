#!/usr/bin/env bash
# Tests a fresh checkout: installs missing packages, builds, and runs the tests.
#   scripts/test.sh                       all parts, below
#   scripts/test.sh --quick               only the tests that are not labelled "slow"
#   scripts/test.sh --sanitize asan       only the tests, under a sanitizer: asan, ubsan or tsan
#   scripts/test.sh ... -- CTEST-ARGS     only some tests, e.g. -- -R watch
# The parts:
#   packages        what is missing, by apt (scripts/setup.sh), and MPICH 5 from PyPI for programs of MPI's standard ABI
#   build           Release
#   fuzzing         each fuzz target for seconds; needs clang-14
#   ARM64           a build of the library for ARM64, and its quick tests under an emulator (scripts/test/arm64.sh)
#   tests           all tests of the Release build
#   ordinary user   the quick tests again, if root runs this script: with 1,024 descriptors, 64 KiB of locked memory, umask
#                   077, and a /dev/shm of 64 MB. Without the tests labelled "any_user", whose result does not depend on
#                   the user (CONTRIBUTING.md)
# A part that this machine cannot run is skipped, with the reason. If one fails, those that do not need it still run.
# A test that fails while others run is run again alone, once. If it then passes, the summary names it, but it does not
# count as failed, because some tests wait too long on a busy machine. The summary comes last.
# Outside this checkout it leaves only apt packages.
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
chosen_tests=("$@")
everything=
[ -n "$quick" ] || [ "$preset" != release ] || [ $# -gt 0 ] || everything=yes

# What scripts/test/summary.py reads: a line for each part, and for its ctest runs PART.xml and PART-alone.xml.
records=$(mktemp -d)
trap 'rm -rf "$records"' EXIT
skipped=77
# More jobs than cores, because many tests wait more than they compute.
jobs=$(($(nproc) * 4))

# part NAME COMMAND...: runs a part. Its status is 0, `skipped` (the last line that it printed says why), or another one: it
# failed, and the first line with an error says why.
part() {
  local name=$1 started=$SECONDS status=0 line=
  shift
  current=$name
  echo "[test] $name"
  { "$@" 2>&1 | tee "$records/output"; } || status=$?
  if [ "$status" -ne 0 ] && [ "$status" -ne "$skipped" ]; then
    line=$(grep -m 1 -aE 'No space left on device|(^|[ :])error: ' "$records/output") || true
  fi
  [ -n "$line" ] || line=$(tail -n 1 "$records/output")
  printf '%s\t%s\t%s\t%s\n' "$name" "$status" "$((SECONDS - started))" "${line//$'\t'/ }" >>"$records/parts"
  return "$status"
}

# run_tests PRESET USER CTEST-ARGS: USER is the command that runs ctest. Repeats failed tests, unless more failed than
# most_repeated.
most_repeated=10
run_tests() {
  local preset=$1 user=$2 failed=build/$1/Testing/Temporary/LastTestsFailed.log
  shift 2
  # With shorter outputs, a skipped test would not tell why.
  local run=("$user" ctest --preset "$preset" --test-output-size-passed 100000 --test-output-size-failed 1000000)
  rm -f "$failed"
  "${run[@]}" --output-junit "$records/$current.xml" "$@" </dev/null && return
  if [ ! -s "$failed" ] || [ "$(wc -l <"$failed")" -gt "$most_repeated" ]; then return 1; fi
  echo "[test] once more, alone: $(cut -d: -f2- "$failed" | paste -sd" ")"
  # The same selection: with another one, ctest numbers the tests anew.
  "${run[@]}" --output-junit "$records/$current-alone.xml" "$@" --rerun-failed --parallel 1 </dev/null
}

packages() {
  local status=0
  scripts/setup.sh || status=$?
  scripts/measure/peers.sh build/peers mpich5
  return "$status"
}

fuzz() {
  command -v clang++-14 >/dev/null || { echo "there is no clang++-14" && return "$skipped"; }
  scripts/build.sh fuzz tutti_fuzz && run_tests fuzz env --parallel "$(nproc)"
}

arm64() {
  local status=0
  scripts/test/arm64.sh --build || status=$?
  [ "$status" -eq 0 ] || return "$status"
  run_tests arm64 env --parallel $(($(nproc) * 2)) # under an emulator, tests compute more and wait less
}

# Runs a command as user 65534, who owns nothing on this machine.
as_nobody() {
  local home status=0
  local user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  # User 65534 must be able to read this checkout even if its folders are closed to others; the capability allows only
  # reading.
  "${user[@]}" test -r "$PWD/CMakeLists.txt" 2>/dev/null ||
    user+=(--inh-caps=+dac_read_search --ambient-caps=+dac_read_search)
  home=$(mktemp -d)
  chown 65534:65534 "$home"
  chown -R 65534:65534 "build/$preset/Testing" "$records" # where ctest writes
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
  chown -R 0:0 "build/$preset/Testing" "$records"
  rm -rf "$home"
  return "$status"
}

ordinary_user() {
  [ "$(id -u)" -eq 0 ] || { echo "all tests ran as an ordinary user already" && return "$skipped"; }
  setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null ||
    { echo "root cannot become another user here" && return "$skipped"; }
  run_tests "$preset" as_nobody --parallel "$jobs" --label-exclude 'slow|any_user'
}

selection=()
[ -z "$quick" ] || selection=(--label-exclude slow)
part packages packages || true # if a package is missing that the build needs, the build says which
built=
! part build scripts/build.sh "$preset" || built=yes
# The tests come last, so that their output does.
if [ -n "$everything" ]; then
  part fuzzing fuzz || true
  part ARM64 arm64 || true
fi
if [ -n "$built" ]; then
  part tests run_tests "$preset" env --parallel "$jobs" "${selection[@]}" "${chosen_tests[@]}" || true
  [ -z "$everything" ] || part "ordinary user" ordinary_user || true
fi
scripts/test/summary.py "$records"
