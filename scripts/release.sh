#!/usr/bin/env bash
# Makes the files of a release, and tries each in something empty (RELEASING.md):
#   tutti-*.whl              the Python package with the program tutti (scripts/release/wheels.sh)
#   tutti_torch-*.whl        the backend for the last four minor versions of PyTorch (scripts/release/torch_wheel.sh)
#   tutti*.deb               Debian packages (scripts/release/deb.sh)
#   tutti-*-linux-*.tar.gz   the C library, which works in any folder (scripts/release/tarball.sh)
#   sbom.cdx.json            the other projects inside, with versions and licences (scripts/release/sbom.py)
#   NOTES.md                 the newest section of CHANGELOG.md
#   SHA256SUMS               of all of them
#   scripts/release.sh [FOLDER]     default: build/release_files
# FOLDER is emptied first. It is refused if it has files, but no SHA256SUMS: then it is no version's.
# PYTHON names the Pythons to make wheels for, e.g. "python3.11 python3.12"; default: python3. PYTORCH names the versions of
# PyTorch; default: "2.12 2.13 2.14 2.15". Needs root, to try the Debian packages. Installs packages by apt, and from PyPI
# into build/release_work, which it empties at the end: each PyTorch takes 5 GB there.
set -euo pipefail
[[ ${1:-} != -* ]] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 2; }
# shellcheck source=scripts/release/shared.sh
. "$(dirname "$0")/release/shared.sh"
files=$(realpath -m -- "${1:-$tree/build/release_files}")
if [ -n "${1:-}" ] && [ -e "$files" ] && [ ! -e "$files/SHA256SUMS" ] && [ -n "$(ls -A -- "$files")" ]; then
  say "$files has other files than a version's; name a new or an empty folder" && exit 2
fi
cd "$tree"
work=$tree/build/release_work
rm -rf "$files" "$work"
mkdir -p "$files" "$work"
read -ra pythons <<<"${PYTHON:-python3}"
read -ra pytorches <<<"${PYTORCH-2.12 2.13 2.14 2.15}"

step() {
  local started=$SECONDS
  say "$*"
  "$@"
  say "$(basename "$1") took $(((SECONDS - started + 30) / 60)) min"
}

step scripts/setup.sh --for release
tests=()
[ -e build/release/CMakeCache.txt ] || tests=(-DTUTTI_TESTS=OFF)
step scripts/build.sh release "${tests[@]}" tutti_release
export BUILD=$tree/build/release
cache=build/release/CMakeCache.txt
if grep -q '^TUTTI_CUDA:.*=OFF' "$cache" || ! grep -q '^TUTTI_NVCC:FILEPATH=/' "$cache"; then
  say "the library was built without nvcc: the release has no device code, and takes host memory alone"
fi
step scripts/release/tarball.sh "$files"
step scripts/release/deb.sh "$BUILD"
cp "$BUILD"/deb/*.deb "$files"
PYTHON="${pythons[*]}" step scripts/release/wheels.sh "$work/wheels"
cp "$work/wheels/wheels"/*.whl "$files"
for python in "${pythons[@]}"; do
  with_pytorch=()
  for version in "${pytorches[@]}"; do
    environment=$work/$(basename "$python")-pytorch-$version
    PYTHON=$python step scripts/interop/install_pytorch.sh "$environment" "$version.*" numpy
    with_pytorch+=("$environment/bin/python")
  done
  [ ${#pytorches[@]} -gt 0 ] || continue
  step scripts/release/torch_wheel.sh "$work/torch" "${with_pytorch[@]}"
  cp "$work/torch/wheels"/*.whl "$files"
  rm -rf "$work"/*-pytorch-* "$work/torch"
done

tools=$(find "$work/wheels" -maxdepth 1 -name 'tools-*' | head -n 1)
"$tools/bin/pip" install --quiet --disable-pip-version-check 'cyclonedx-python-lib[json-validation]>=11'
"$tools/bin/python" scripts/release/sbom.py write "$files/sbom.cdx.json" "$BUILD" "$files"/*.whl "$files"/*.tar.gz
scripts/release/version.py notes >"$files/NOTES.md"
(cd "$files" && sha256sum -- * >SHA256SUMS)
rm -rf "$work"
say "$(cd "$files" && du -h -- * | sort -k 2)"
scripts/release/version.py check --release || say "this version cannot be published yet"
say "all files are in $files, after $(((SECONDS + 30) / 60)) min"
