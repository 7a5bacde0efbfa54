#!/usr/bin/env bash
# Installs a build into an empty prefix, moves the prefix, and builds an external C program against it with
# find_package(tutti) and with pkg-config. Then compiles the header alone as C99 and as C++11.
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
# Installed files must not depend on the path where they were first installed.
mv "$work/first" "$work/prefix"
prefix=$work/prefix

echo "--- find_package"
cmake -S "$here" -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/cmake"
"$work/cmake/consumer"

echo "--- pkg-config"
pc=$(find "$prefix" -name tutti.pc)
export PKG_CONFIG_PATH=${pc%/*}
cc=${CC:-cc}
# shellcheck disable=SC2046  # pkg-config's answer is several words
"$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror "$here/consumer.c" -o "$work/consumer" $(pkg-config --cflags --libs tutti)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tutti) "$work/consumer"
version=$(pkg-config --modversion tutti)
grep -q "set(PACKAGE_VERSION \"$version\")" "${pc%/pkgconfig/tutti.pc}/cmake/tutti/tuttiConfigVersion.cmake"

echo "--- the header alone"
for header in "$prefix"/include/tutti/{tutti,extension}.h; do
  "$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" "$header"
  "${CXX:-c++}" -x c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" "$header"
done
