#!/usr/bin/env bash
# Installs a build into an empty prefix, moves the prefix, and uses it (try.sh). Then compiles the header alone as C99 and
# as C++11.
#   run.sh BUILD_DIR WORK_DIR     WORK_DIR is emptied first
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1
work=$2

[ -w "$build" ] || {
  echo "skipped: this user may not write to $build, and installing leaves a list there"
  exit 77
}
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/first" --component tutti
cmake --install "$build" --prefix "$work/first" --component tutti_mpi
# Installed files must not depend on the path where they were first installed.
mv "$work/first" "$work/prefix"
prefix=$work/prefix

"$here/try.sh" "$prefix" "$work"
pc=$(find "$prefix" -name tutti.pc)
version=$(PKG_CONFIG_LIBDIR=${pc%/*} pkg-config --modversion tutti)
grep -q "set(PACKAGE_VERSION \"$version\")" "${pc%/pkgconfig/tutti.pc}/cmake/tutti/tuttiConfigVersion.cmake"

echo "--- the header alone"
for header in "$prefix"/include/tutti/{tutti,extension}.h; do
  "${CC:-cc}" -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" "$header"
  "${CXX:-c++}" -x c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" "$header"
done
