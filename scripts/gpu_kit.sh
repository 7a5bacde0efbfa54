#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, in one folder that runs on a machine that has one, without this source tree, a
# compiler or a network: tests, measurements, and the comparison with NCCL.
#
#   scripts/gpu_kit.sh pack [--arch SM] [--build DIR] [--out DIR] [--nccl FILE] [--older FILE]   makes the folder
#     --arch SM     the GPU's compute capability without the dot; default: 90 (H100, H200)
#     --build DIR   an existing build with GPU kernels; default: builds build/gpu_kit for that architecture
#     --out DIR     default: build/gpu_kit/kit
#     --nccl FILE   the libnccl.so.2 to compare with; none: no comparison; default: fetches one from PyPI (nccl.py)
#     --older FILE  an older libtutti.so, whose small calls are measured, too
#   scripts/gpu_kit.sh rehearse [--kit DIR] [--out DIR]   runs the packed folder in an empty root over the fake GPU, with
#                                                         tiny sizes: is the kit complete, and are its steps right?
#   .../kit/gpu_kit.sh run [OPTIONS]            on the machine with the GPU: gpu_kit/run.sh
#   scripts/gpu_kit.sh keep RESULTS             adds results to docs/data/gpu; scripts/docs.sh makes tables and pictures
# The folder has at most 64 MiB.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$here/gpu_kit.sh"; }

verb=${1:-}
[ $# -eq 0 ] || shift
case $verb in
  run) exec "$here/gpu_kit/run.sh" "$@" ;;
  pack | rehearse | keep) ;;
  -h | --help) usage && exit 0 ;;
  *) usage >&2 && exit 2 ;;
esac
cd "$here/.."
[ -f CMakePresets.json ] || { echo "$0: $verb needs Tutti's source tree; here is only a packed kit" >&2 && exit 2; }

if [ "$verb" = keep ]; then
  exec python3 -B scripts/gpu_kit/results.py keep "$@"
fi

architecture=90
build=
out=
nccl=pypi
older=
kit=build/gpu_kit/kit
while [ $# -gt 0 ]; do
  case $1 in
    --arch | --build | --out | --nccl | --older | --kit) [ $# -ge 2 ] || { usage >&2 && exit 2; } ;;&
    --arch) architecture=$2 ;;
    --build) build=$2 ;;
    --out) out=$2 ;;
    --nccl) nccl=$2 ;;
    --older) older=$2 ;;
    --kit) kit=$2 ;;
    *) echo "$0: unknown argument $1" >&2 && usage >&2 && exit 2 ;;
  esac
  shift 2
done

# A hash of the sources in these folders and files.
sources() {
  find "$@" -type f \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o -name 'CMakeLists.txt' -o -name '*.cmake' \) \
    ! -name '*_test.cc' -print0 | sort -z | xargs -0 cat | sha256sum | cut -c1-16
}

pack() {
  if [ -z "$build" ]; then
    build=build/gpu_kit
    cmake --preset release -B "$build" -DTUTTI_CUDA=ON -DTUTTI_CUDA_ARCHITECTURES="$architecture" -DTUTTI_TOOLS=OFF >/dev/null
    cmake --build "$build" --target tutti-bench tutti-peer-nccl tutti_tests train_lm
    # Only where there is cuBLAS.
    cmake --build "$build" --target train_lm_cuda || echo "[kit] without train_lm_cuda"
  fi
  build=$(cd "$build" && pwd)
  local to=${out:-build/gpu_kit/kit} architectures
  architectures=$(sed -n 's/^TUTTI_CUDA_ARCHITECTURES:[^=]*=//p' "$build/CMakeCache.txt" | tr ';' ' ')
  rm -rf "$to"
  mkdir -p "$to/bin" "$to/lib" "$to/gpu_kit"
  cp scripts/gpu_kit.sh "$to/"
  cp scripts/gpu_kit/run.sh scripts/gpu_kit/steps.sh "$to/gpu_kit/"
  cp examples/run.sh "$build/bench/tutti-bench" "$build/bench/tutti-peer-nccl" "$build/tests/tutti_tests" "$build/tests/litmus.fatbin" "$to/bin/"
  local program nvcc code=() probes=(limits scheduling fences abilities devices)
  nvcc=$(sed -n 's/^TUTTI_NVCC:[^=]*=//p' "$build/CMakeCache.txt")
  for program in $architectures; do code+=(-gencode "arch=compute_$program,code=sm_$program"); done
  for program in "${probes[@]}"; do
    "$nvcc" -O3 -std=c++20 "${code[@]}" -cudart static -o "$to/bin/gpu_$program" "scripts/gpu_kit/$program.cu" -lcuda \
      -L"$(dirname "$nvcc")/../lib64/stubs"
  done
  # The language model on the host is trained here: there its mathematics would take most of the kit.
  local models=$build/examples/train_lm
  if [ -x "$models/train_lm_cuda" ]; then
    cp "$models/train_lm_cuda" examples/train_lm/compare_losses.sh "$to/bin/"
    "$models/train_lm" --steps 50 --losses "$to/gpu_kit/host_losses" >/dev/null
  fi
  # The libraries that the programs need, except the C library's own and CUDA's, which the machine has.
  local library
  for program in "$to"/bin/*; do
    LD_LIBRARY_PATH=$build ldd "$program" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' || true
  done | sort -u | grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*|libcuda|libcudart|libcublas|libcublasLt)\.so' |
    while read -r library; do cp -L "$library" "$to/lib/"; done
  if [ -n "$older" ]; then
    mkdir "$to/older"
    cp -L "$older" "$to/older/$(basename "$to"/lib/libtutti.so.*)"
  fi
  strip --strip-unneeded "$to"/lib/*.so* "$to"/older/*.so* "$to"/bin/* 2>/dev/null || true
  [ "$nccl" = none ] || LD_LIBRARY_PATH=$to/lib scripts/gpu_kit/nccl.py "$nccl" "$architectures" "$to/gpu_kit/libnccl.so.2.gz"
  local tutti=(include base net topology transports algorithms selection executors src cmake)
  {
    echo "commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)$([ -z "$(git status --porcelain 2>/dev/null)" ] || echo +)"
    echo "architectures=$architectures"
    echo "tests_sources=$(sources "${tutti[@]}" tests/gpu testing)"
    echo "bench_sources=$(sources "${tutti[@]}" bench)"
    echo "models_sources=$(sources "${tutti[@]}" parallel examples/train_lm)"
    for program in "${probes[@]}"; do echo "${program}_sources=$(sources "scripts/gpu_kit/$program.cu" scripts/gpu_kit/probe.cuh)"; done
    for library in "nccl $to/gpu_kit/libnccl.so.2.gz" "older $to/older/libtutti.so.*"; do
      echo "${library%% *}_sources=$(cat ${library#* } 2>/dev/null | sha256sum | cut -c1-16)"
    done
  } | sed 's/=\(.*\)/="\1"/' >"$to/gpu_kit/packed"
  python3 -B scripts/gpu_kit/results.py settled >"$to/gpu_kit/settled"
  local bytes
  bytes=$(du -sb "$to" | cut -f1)
  echo "[kit] $to: $((bytes / 1000)) KB, for sm_${architectures// /, sm_}"
  [ "$bytes" -le $((64 << 20)) ] || { echo "$0: that is more than 64 MiB" >&2 && exit 1; }
}

# A root with a shell, its tools, the C library, and the fake GPU in the place of the GPU's driver: nothing else.
rehearse() {
  local fake_gpu=${FAKE_GPU:-build/gpu_kit/testing/fake_gpu} root name file
  [ -d "$kit" ] || { echo "$0: there is no $kit: pack it first" >&2 && exit 2; }
  # NCCL's place is taken by Tutti's own libnccl, to see that the comparison is made. Empty: by the one that was packed.
  local nccl=${NCCL-build/gpu_kit/interop/nccl/lib/libnccl.so.2}
  [ -n "${FAKE_GPU:-}" ] || cmake --build build/gpu_kit --target tutti_fake_gpu_driver tutti_nccl
  root=$(mktemp -d)
  trap "rm -rf '$root'" EXIT
  mkdir -p "$root"/{bin,lib64,usr/lib/driver,proc,dev/shm,tmp,kit}
  ln -s ../bin "$root/usr/bin"
  for name in bash sh sed awk grep tr cut sort uniq tail head cat cp mv rm mkdir mktemp date timeout sleep dirname basename \
    paste ls find env uname nproc df wc seq readlink touch sha256sum gzip; do
    file=$(command -v "$name") || continue
    cp -L "$file" "$root/bin/$name"
  done
  for file in "$root"/bin/* "$fake_gpu/libcuda.so.1" "$fake_gpu/tutti-fake-gpu-processor"; do
    ldd "$file" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' || true
  done | sort -u | while read -r file; do
    case $file in /lib64/*) cp -L "$file" "$root/lib64/" ;; *) cp -L "$file" "$root/usr/lib/" ;; esac
  done
  for name in libc.so.6 libm.so.6 libresolv.so.2; do cp -L "$(ldconfig -p | awk -v n="$name" '$1 == n { print $NF; exit }')" "$root/usr/lib/"; done
  cp -L "$fake_gpu/libcuda.so.1" "$fake_gpu/tutti-fake-gpu-processor" "$root/usr/lib/driver/"
  cp -r "$kit/." "$root/kit/"
  # The daemon of MPS, which the fake GPU does without.
  printf '#!/bin/sh\n' >"$root/bin/nvidia-cuda-mps-control"
  chmod +x "$root/bin/nvidia-cuda-mps-control"
  [ -z "$nccl" ] || cp -L "$nccl" "$root/usr/lib/driver/libnccl.so.2"
  local inside='mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev/shm" && for d in null zero random urandom; do
      : >"$0/dev/$d" && mount --bind /dev/$d "$0/dev/$d" || exit 1; done
      exec chroot "$0" /bin/env -i PATH=/bin HOME=/tmp LD_LIBRARY_PATH=/usr/lib/driver:/usr/lib "${@}"'
  local status=0 as=()
  [ "$(id -u)" -eq 0 ] || as=(--map-root-user)
  unshare "${as[@]}" --mount --pid --fork --kill-child bash -c "$inside" "$root" REHEARSAL=1 \
    ${FAKE_GPU_DEVICES:+TUTTI_FAKE_GPU_DEVICES=$FAKE_GPU_DEVICES} ${nccl:+NCCL=/usr/lib/driver/libnccl.so.2} \
    /kit/gpu_kit.sh run --results /tmp/results || status=$?
  [ -z "$out" ] || { mkdir -p "$out" && cp -r "$root/tmp/results/." "$out/"; }
  return "$status"
}

"$verb"
