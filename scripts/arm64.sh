#!/usr/bin/env bash
# Builds the library, the tutti tool and the tests for 64-bit ARM with Debian's cross compiler, and runs the quick tests
# under qemu-user. CONTRIBUTING.md says what this proves and what it does not.
#   scripts/arm64.sh                     installs what is missing, builds, runs the tool and the tests
#   scripts/arm64.sh --build             only builds
#   scripts/arm64.sh --not-run           prints the tests that are not run, and why
#   scripts/arm64.sh ... -- CTEST-ARGS   e.g. -- -R Reduce
# The libraries for ARM64 are unpacked into build/arm64-libraries, so the system gets no second architecture. Outside
# this checkout it leaves only apt packages.
# Exit status 77: this machine cannot do it; the last line says why.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
say() { echo "[arm64] $*"; }
skip() {
  say "skipped: $*"
  exit 77
}

# Each line: a pattern of names, and why these tests are not run. qemu is Debian 12's, 7.2.
not_run() {
  cat <<'LIST'
NOT_BUILT$ | programs that this script does not build
^(docs|tool_docs|consumer|library|configures_without|abi_symbols|torch|fault_campaign_judge|mismatch_campaign_judge)$ | scripts for a native build
^(rails|host_faults|cluster|races|bench_job_.*)$ | scripts that start native programs
^Schedules/|^Mutation[.]|^Machines/ | proofs and simulations: arithmetic of whole numbers, alike on every processor, and long when emulated
^About/|^Of/|^RootsThatAgree[.]|^OnHosts[.] | grids of calls that do not match, and the other tests once more over TCP: too long when emulated
^(All|On)/.*/[12358]_ranks_ | collectives run on 4 ranks only, because every number takes minutes when emulated
^ControlPlane/Families[.].*/[(](17|64), | dozens of ranks that meet: a minute each, because cryptography is emulated
^HostileClients[.] | strangers who flood a rank: it answers too late, because cryptography is emulated
^Rendezvous[.]CancelEndsJoining | cancels after 20 ms, when an emulated rank has not yet joined
^Device[.]|^DeviceLitmus[.]|/Device(Collectives|Tensors)[.] | need CUDA, which this build leaves out
^Counters[.]ToldByTransport | needs process_vm_readv, which qemu does not have
^RendezvousDeathTest[.] | starts itself anew, which needs a kernel that runs ARM64 programs (binfmt_misc)
^Rendezvous[.]ForkedChildExitsAndHasItsOwn|^Fork[.]|^ProcessEnds[.]AChild | a forked child of several threads starts a thread, which qemu answers with an abort
^OtherUser[.].*/by_proc|^OrdinaryUser[.]RanksDoWithout | need a seccomp filter, which qemu refuses
^TcpStream[.]LongSlotsStayInPlace | needs MSG_ZEROCOPY, which qemu refuses (Tutti copies instead, as TcpStream's other tests show)
^Protocol[.]SecretsOfChildCommunicators | needs statistics of a packet socket, which qemu refuses
^Lifecycle[.]WithoutThreadsAJoinFails | asks for stacks of 64 TiB, for which qemu searches for minutes
LIST
}

only_build=
while [ $# -gt 0 ]; do
  case $1 in
    --build) only_build=yes ;;
    --not-run)
      not_run
      exit 0
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
      say "unknown argument $1" >&2
      usage >&2
      exit 2
      ;;
  esac
  shift
done

[ "$(uname -m)" != aarch64 ] || skip "this is an ARM64 machine: scripts/test.sh tests it as it is"
[ "$(uname -m)" = x86_64 ] || skip "Debian has the cross compiler for x86_64, and this is $(uname -m)"
for program in apt-get dpkg-deb; do
  command -v "$program" >/dev/null || skip "the libraries for ARM64 are Debian's packages, and there is no $program"
done
scripts/setup.sh --for arm64 || skip "a package is missing, as the lines above say"

# --- the libraries for ARM64, by an apt of their own that knows only this architecture ---
libraries=build/arm64-libraries
mapfile -t packages < <(scripts/setup.sh --libraries)

fetch_libraries() {
  local folder=$1 package options
  mkdir -p "$folder"/apt/{lists,archives}/partial
  touch "$folder/apt/installed"
  options=(-q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User="$(id -un)"
    -o Debug::NoLocking=true -o Dir::State::Lists="$PWD/$folder/apt/lists" -o Dir::State::status="$PWD/$folder/apt/installed"
    -o Dir::State::extended_states="$PWD/$folder/apt/extended" -o Dir::Cache="$PWD/$folder/apt"
    -o Dir::Cache::archives="$PWD/$folder/apt/archives")
  apt-get "${options[@]}" update </dev/null || return
  apt-get "${options[@]}" install --download-only -y --no-install-recommends "${packages[@]}" </dev/null || return
  for package in "$folder"/apt/archives/*.deb; do
    case ${package##*/} in
      # The cross compiler has these itself.
      libc6* | libc-dev-bin* | libgcc-s1* | libstdc++* | gcc-* | linux-libc-dev*) ;;
      *) dpkg-deb --extract "$package" "$folder" || return ;;
    esac
  done
  rm -rf "$folder/apt"
}

if [ "$(cat "$libraries/packages" 2>/dev/null)" != "${packages[*]}" ]; then
  say "fetching ${packages[*]} for ARM64"
  rm -rf "$libraries"
  fetch_libraries "$libraries" || skip "apt-get cannot fetch the libraries for ARM64, as the lines above say"
  echo "${packages[*]}" >"$libraries/packages"
fi

# --- the build ---
started=$SECONDS
say "left out: CUDA, hwloc, UCX, verbs, MPI, libnccl, libtutti_parallel, PyTorch, examples, the bench's peers"
scripts/build.sh arm64
built=$SECONDS
say "built in $((built - started)) s"
[ -z "$only_build" ] || exit 0

# --- the tool, and the tests ---
emulator=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
"${emulator[@]}" build/arm64/tools/tutti topo
say "not run:"
not_run | sed 's/^/[arm64]   /'
pattern=$(not_run | sed 's/ | .*//' | paste -sd '|')
log=build/arm64/Testing/Temporary
say "ctest --preset arm64 (the quick tests), without these"
# The second run needs the same selection: with another one, ctest numbers the tests anew.
selection=(--preset arm64 --exclude-regex "$pattern" "$@")
status=0
rm -f "$log/LastTestsFailed.log"
ctest "${selection[@]}" --parallel "$(nproc)" </dev/null || status=$?
# Tests of kernels print such a line. Without them there is none.
grep -h '^SIMD targets tested' "$log/LastTest.log" | sort -u | sed 's/^/[arm64] /' || true
if [ "$status" -ne 0 ] && [ -s "$log/LastTestsFailed.log" ]; then
  # As in scripts/test.sh: a test that fails beside others is run again alone.
  say "once more, alone: $(cut -d: -f2- "$log/LastTestsFailed.log" | paste -sd' ')"
  status=0
  ctest "${selection[@]}" --rerun-failed --parallel 1 </dev/null || status=$?
fi
[ "$status" -eq 0 ] && verdict=passed || verdict=FAILED
say "$verdict; build $((built - started)) s, tests $((SECONDS - built)) s"
exit "$status"
