#!/usr/bin/env bash
# Builds the library, the tutti tool and the tests for 64-bit ARM with Debian's cross compiler, and runs the quick tests
# under qemu-user. CONTRIBUTING.md says what this proves and what it does not. A test that the emulator cannot run is
# skipped and says why (testing/surroundings.h).
#   scripts/test/arm64.sh                     installs what is missing, builds, runs the tool and the tests
#   scripts/test/arm64.sh --build             only builds the library and the tests
#   scripts/test/arm64.sh ... -- CTEST-ARGS   e.g. -- -R Reduce
# The libraries for ARM64 are unpacked into build/arm64-libraries, so the system gets no second architecture. Outside
# this checkout it leaves only apt packages.
# Exit status 77: this machine cannot do it; the last line says why.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
say() { echo "[arm64] $*"; }
skip() {
  say "skipped: $*"
  exit 77
}

only_build=
while [ $# -gt 0 ]; do
  case $1 in
    --build) only_build=yes ;;
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
say "left out: CUDA, hwloc, UCX, verbs, MPI, libnccl, libtutti_parallel, PyTorch, examples, the bench's peers"
[ -z "$only_build" ] || exec scripts/build.sh arm64
scripts/build.sh arm64 -DTUTTI_BENCH=ON tutti tutti_tool tutti_unit_tests tutti_tests

# --- the tool, and the tests ---
qemu-aarch64 -L /usr/aarch64-linux-gnu build/arm64/tools/tutti topo
exec ctest --preset arm64 --parallel "$(nproc)" "$@" </dev/null
