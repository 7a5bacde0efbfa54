#!/usr/bin/env bash
# Runs Tutti over net plug-ins that others have written (docs/running.md), with ranks as on two hosts: two processes, two
# threads of one process, and two processes of two threads. It fetches nothing: the sources come from the caller, and
# what it builds of them lies in build/net_plugins.
#   scripts/interop/net_plugins.sh --nccl NCCL       NCCL's example plug-in, of a source tree of NCCL
#   scripts/interop/net_plugins.sh --ofi OFI --libfabric FABRIC [--cuda CUDA]
#                                                    aws-ofi-nccl over libfabric's tcp, of two source trees; needs CUDA's
#                                                    headers, autoconf, automake, libtool and hwloc
#   scripts/interop/net_plugins.sh --plugin FILE     any built plug-in, with the environment as it is
# BUILD (build/release) is a folder with a build of Tutti. aws-ofi-nccl wants a CUDA runtime although it is to carry host
# memory; where there is no GPU, the one of tests/transports/plugin refuses what it is asked.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$PWD/${BUILD:-build/release}
made=$PWD/build/net_plugins
bench=$build/bench/tutti-bench
nccl="" ofi="" libfabric="" plugin="" cuda=/usr/local/cuda
while [ $# -gt 0 ]; do
  case $1 in
    --nccl | --ofi | --libfabric | --plugin | --cuda) declare "${1#--}=$2" && shift 2 ;;
    *) sed -n '2,/^set /{/^set /!p}' "$0" >&2 && exit 2 ;;
  esac
done
[ -x "$bench" ] || { echo "$0: there is no $bench; build it first" >&2 && exit 1; }
[ -n "$nccl$ofi$plugin" ] || { echo "$0: name a plug-in: --nccl, --ofi or --plugin" >&2 && exit 2; }
mkdir -p "$made"
log=$made/log

# run PLUGIN COLLECTIVE BENCH-ARGS: ranks on two virtual hosts, every result checked; $log has all that they print.
run() {
  TUTTI_VIRTUAL_HOSTS=2 TUTTI_NET_PLUGIN=$1 TUTTI_DEBUG=init,transport timeout 300 \
    "$bench" "${@:2}" -f 8 >"$log" 2>&1
}
# works PLUGIN WORDS: the ranks compute over it, and report these words of it.
works() {
  for collective in all_reduce all_gather all_to_all; do
    for ranks in "--ranks 2 -b 8 -e 16M" "--ranks 2 -t 2 -b 8 -e 1M" "--ranks 4 -t 2 -b 8 -e 1M"; do
      # shellcheck disable=SC2086 # several words
      run "$1" "$collective" $ranks || { cat "$log" && echo "$0: $1 failed in $collective $ranks" >&2 && exit 1; }
      grep -qF "$2" "$log" || { cat "$log" && echo "$0: $1 was not used as \"$2\"" >&2 && exit 1; }
      echo "== $collective $ranks over $2"
      grep -E '^ +[0-9]|Out of bounds' "$log"
    done
  done
}

if [ -n "$nccl" ]; then
  gcc -shared -fPIC -I"$nccl/plugins/net/example/nccl" "$nccl/plugins/net/example/plugin.c" \
    -o "$made/libnccl-net-example.so"
  ! run "$made/libnccl-net-example.so" all_reduce --ranks 2 -b 8 -e 8 || { echo "$0: the example has no device, and yet was used" >&2 && exit 1; }
  echo "== NCCL's example plug-in"
  grep -m1 'cannot use it' "$log"
  grep -q 'finds no device' "$log" || { cat "$log" && echo "$0: that was to be about its devices" >&2 && exit 1; }
fi

if [ -n "$ofi" ]; then
  [ -n "$libfabric" ] || { echo "$0: --ofi needs --libfabric" >&2 && exit 2; }
  if [ ! -f "$made/lib/libnccl-net-ofi.so" ]; then
    rm -rf "$made/libfabric" "$made/ofi"
    cp -r "$libfabric" "$made/libfabric"
    cp -r "$ofi" "$made/ofi"
    [ -e "$made/ofi/.release_version" ] || echo source >"$made/ofi/.release_version"
    (cd "$made/libfabric" && ./autogen.sh && ./configure --prefix="$made" --disable-static --disable-verbs --disable-efa \
      --disable-psm2 --disable-psm3 --disable-opx --disable-usnic --disable-ucx --enable-tcp=yes --enable-rxm=yes &&
      make -j"$(nproc)" && make install) >"$made/libfabric.log" 2>&1 || { tail -20 "$made/libfabric.log" && exit 1; }
    (cd "$made/ofi" && ./autogen.sh && ./configure --prefix="$made" --with-libfabric="$made" --with-cuda="$cuda" \
      --enable-cudart-dynamic --disable-tests --disable-nvtx --enable-platform-aws=no &&
      make -j"$(nproc)" && make install) >"$made/ofi.log" 2>&1 || { tail -20 "$made/ofi.log" && exit 1; }
  fi
  export FI_PROVIDER=${FI_PROVIDER:-tcp} LD_LIBRARY_PATH=$made/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  if [ ! -e /dev/nvidiactl ]; then
    export TUTTI_GPU=0 LD_LIBRARY_PATH=$build/tests/transports/plugin/without_gpu:$LD_LIBRARY_PATH
  fi
  # Each table in turn, by a plug-in that has that one alone.
  export ONE_TABLE_OF=$made/lib/libnccl-net-ofi.so
  for version in 11 10 9 8; do
    gcc -shared -fPIC "-DTABLE=ncclNetPlugin_v$version" tests/transports/plugin/one_table.c \
      -o "$made/libnccl-net-ofi$version.so"
    works "$made/libnccl-net-ofi$version.so" "net plug-in Libfabric ($made/libnccl-net-ofi$version.so, v$version)"
  done
fi

if [ -n "$plugin" ]; then works "$plugin" "net plug-in"; fi
