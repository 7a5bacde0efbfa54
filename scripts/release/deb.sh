#!/usr/bin/env bash
# Makes Debian packages of a build: tutti (the libraries, their headers, the files for find_package and pkg-config),
# tutti-tools, tutti-nccl, and tutti-mpi, which has what MPI programs preload. Then installs them into an empty root, uses
# them, and removes them again.
#   scripts/release/deb.sh [BUILD_DIR]      default: build/release, which is built if it is not there
# The packages lie in BUILD_DIR/deb. Install them with `apt install BUILD_DIR/deb/*.deb`, which fetches what they need.
# Status 77: there is no dpkg here, or this user may not install.
set -euo pipefail
[[ ${1:-} != -h && ${1:-} != --help ]] || { sed -n '2,/^set/p' "$0" | sed '/^set/d; s/^# \{0,1\}//'; exit 0; }
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
for tool in dpkg dpkg-deb dpkg-shlibdeps cpack; do
  command -v "$tool" >/dev/null || { echo "$0: there is no $tool" >&2 && exit 77; }
done
[[ $(id -u) == 0 ]] || { echo "$0: installing into a root needs root" >&2 && exit 77; }
[[ -f $build/CPackConfig.cmake ]] || "$root/scripts/build.sh" release
build=$(cd "$build" && pwd)

packages=$build/deb
rm -rf "$packages"
# Two packers at the same time need their own folders.
(cd "$build" && cpack -G DEB -B "$packages" --config CPackConfig.cmake) | grep -vE '^CPack: (Create|Install|- Install|-  )' || true
rm -rf "$packages/_CPack_Packages"
mapfile -t debs < <(find "$packages" -name '*.deb' | sort)
[[ ${#debs[@]} -gt 0 ]] || { echo "$0: cpack made no package" >&2 && exit 1; }
for deb in "${debs[@]}"; do
  printf '%s\t%s\n' "$(basename "$deb")" "$(dpkg-deb --field "$deb" Depends)"
done

# An empty root has none of the libraries that the packages depend on, so dpkg is told not to ask for them; programs below
# use this machine's. The packages' scripts, which only run ldconfig, run outside the root, which has no shell.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root/var/lib/dpkg/"{info,updates,triggers}
touch "$work/root/var/lib/dpkg/"{status,available}
package() { dpkg --root="$work/root" --log="$work/log" --force-depends --force-script-chrootless "$@" >"$work/said" 2>&1 || { cat "$work/said" >&2 && exit 1; }; }
files() { (cd "$work/root" && find . -path ./var -prune -o \( -type f -o -type l \) -print | sort); }
[[ -z $(files) ]] || { echo "$0: the root is not empty" >&2 && exit 1; }
package --install "${debs[@]}"
prefix=$work/root/usr

# The loader searches no root but its own.
LD_LIBRARY_PATH=$(dirname "$(find "$prefix" -name libtutti.so)")
export LD_LIBRARY_PATH
"$root/tests/packaging/consumer/try.sh" "$prefix" "$work"
if [[ -x $prefix/bin/tutti ]]; then
  echo "--- tutti run"
  "$prefix/bin/tutti" --version
  "$prefix/bin/tutti" run -n 2 "$prefix/bin/tutti-bench" all_reduce -b 8 -e 8 --cell-ms 5 | tail -n 3
  ! command -v man >/dev/null || man -l "$prefix/share/man/man1/tutti.1" >/dev/null
fi

mapfile -t names < <(for deb in "${debs[@]}"; do dpkg-deb --field "$deb" Package; done)
package --purge "${names[@]}"
left=$(files)
[[ -z $left ]] || { echo "$0: removed packages left $left" >&2 && exit 1; }
echo "${#debs[@]} packages in $packages: installed, used, and removed without a trace"
