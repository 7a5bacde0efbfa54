#!/usr/bin/env bash
# Runs a program with RDMA devices and two NUMA nodes, in a small virtual machine whose kernel emulates the devices in
# software (soft-RoCE).
#   run-in-guest.sh PROGRAM [ARGUMENT...]
# The guest sees this machine's files, but its writes are discarded. This script prints the program's output and exits
# with its status. There are two devices, rxe0 (10.88.0.1) and rxe1 (10.88.0.2), at the ends of one virtual cable
# (rnic0, rnic1). GID index 0 is the IPv6 link-local address, 1 the IPv4 address. Each of the two processors is a socket
# and a NUMA node with 1 GB.
#   TUTTI_GUEST_SECONDS  time limit for the program (500); after that, the status is 124
#   TUTTI_GUEST_CACHE    folder for the guest's kernel (~/.cache/tutti/rdma-guest; about 70 MB)
# The processor is emulated, so times measured in the guest are meaningless.
# Status 77: the program was not run; the last line of output gives the reason.
set -euo pipefail

seconds=${TUTTI_GUEST_SECONDS:-500}
cache=${TUTTI_GUEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tutti/rdma-guest}
boot_seconds=180 # a busy machine takes half a minute

skip() {
  echo "skipped: $*"
  exit 77
}
[ $# -gt 0 ] || { echo "usage: $0 PROGRAM [ARGUMENT...]" >&2; exit 2; }
[ "$(uname -m)" = x86_64 ] || skip "the guest is an x86_64 machine, and this is $(uname -m)"
command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "the guest's kernel is Debian's, and there is no apt-get"

# --- required packages, installed if this user may ---
needed=()
require() { command -v "$1" >/dev/null || needed+=("$2"); }
require qemu-system-x86_64 qemu-system-x86
require cpio cpio
require depmod kmod
require ip iproute2
require python3 python3-minimal
[ -e /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1 || needed+=(busybox-static)
compgen -G '/usr/lib/x86_64-linux-gnu/libibverbs/librxe-*.so' >/dev/null || needed+=(ibverbs-providers)
if [ ${#needed[@]} -gt 0 ]; then
  [ "$(id -u)" -eq 0 ] || skip "please have root install ${needed[*]}"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${needed[@]}"; } \
    >/dev/null 2>&1 </dev/null || skip "apt-get cannot install ${needed[*]}"
fi

# --- the guest's kernel and the minimal system that it boots ---
prepare() {
  local package work version
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: *\(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
  [ -n "$package" ] || skip "apt knows no linux-image-amd64 (apt-get update as root may help)"
  work=$(mktemp -d "$cache/new.XXXXXX")
  (cd "$work" && apt-get download -qq "$package" >/dev/null 2>&1) || skip "apt-get cannot download $package"
  dpkg -x "$work"/linux-image-*.deb "$work/kernel"
  version=$(basename "$work"/kernel/lib/modules/*)
  depmod -b "$work/kernel" "$version"
  # Unpacks the kernel here once. On the emulated processor, this would take longer than everything else together.
  python3 -c '
import lzma, sys
packed = open(sys.argv[1], "rb").read()
start = packed.index(b"\xfd7zXZ\0")
open(sys.argv[2], "wb").write(lzma.LZMADecompressor().decompress(packed[start:]))
' "$work/kernel/boot/vmlinuz-$version" "$work/vmlinux"

  mkdir -p "$work"/tree/{bin,modules,proc,sys,dev,host,scratch,root}
  cp /bin/busybox "$work/tree/bin/busybox"
  local module
  for module in virtio_pci virtio_console 9pnet_virtio 9p overlay veth crc32_generic ib_uverbs rdma_rxe; do
    modprobe -d "$work/kernel" -S "$version" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
  done | awk '!known[$0]++' >"$work/list"
  local number=100
  while read -r module; do # the file names give the order of loading
    cp "$module" "$work/tree/modules/$((number++))-$(basename "$module")"
  done <"$work/list"
  write_init >"$work/tree/init"
  chmod +x "$work/tree/init"
  (cd "$work/tree" && find . | cpio -o -H newc --quiet -R 0:0) >"$work/initramfs"
  mv "$work/vmlinux" "$work/initramfs" "$cache/"
  sha256sum <"$0" >"$cache/made-by"
  rm -rf "$work"
}

# The guest's first program. It mounts this machine's files as the root file system, below a layer that is discarded.
write_init() {
  cat <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
fail() { echo "guest: $* failed"; $b poweroff -f; }
$b mount -t proc none /proc; $b mount -t sysfs none /sys; $b mount -t devtmpfs none /dev
for module in /modules/*; do $b insmod $module || fail "loading $module"; done
options=trans=virtio,version=9p2000.L,msize=262144
$b mount -t 9p -o $options,ro,cache=loose files /host || fail "reaching the files"
$b mount -t tmpfs none /scratch
$b mkdir /scratch/upper /scratch/work
$b mount -t overlay -o lowerdir=/host,upperdir=/scratch/upper,workdir=/scratch/work none /root || fail "overlay"
for folder in proc sys dev; do $b mkdir -p /root/$folder; $b mount --move /$folder /root/$folder; done
$b mkdir -p /root/dev/shm; $b mount -t tmpfs -o mode=1777 none /root/dev/shm
$b mkdir -p /root/run/job
$b mount -t 9p -o $options,cache=none job /root/run/job || fail "reaching the job"
$b chroot /root /bin/bash /run/job/inside
$b sync
$b poweroff -f
INIT
}

# The commands that bash runs in the guest. Packets between the two devices must go over the cable, although both
# addresses are local. So the rule for local addresses comes last, and earlier rules match the packets sent here.
write_inside() {
  cat <<'INSIDE'
source /run/job/settings
exec >"/dev/$(basename "$(grep -lx output /sys/class/virtio-ports/*/name | xargs dirname)")" 2>&1
ulimit -l unlimited
for knob in rp_filter=0 accept_local=1; do
  for where in all default; do echo "${knob#*=}" >"/proc/sys/net/ipv4/conf/$where/${knob%=*}"; done
done
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
ip link set lo up
ip link add rnic0 mtu 4200 type veth peer name rnic1 mtu 4200
ip rule add pref 200 lookup local && ip rule del pref 0
for i in 0 1; do
  ip link set "rnic$i" up
  ip addr add "10.88.0.$((i + 1))/24" dev "rnic$i"
done
for i in 0 1; do
  other=$((1 - i))
  ip neigh replace "10.88.0.$((other + 1))" lladdr "$(cat "/sys/class/net/rnic$other/address")" dev "rnic$i" nud permanent
  ip route add 10.88.0.0/24 dev "rnic$i" table "$((50 + i))"
  ip rule add pref 100 iif lo from "10.88.0.$((i + 1))" to "10.88.0.$((other + 1))" lookup "$((50 + i))"
  rdma link add "rxe$i" type rxe netdev "rnic$i" || echo "guest: no device rxe$i"
done
echo started >/run/job/state
cd "$folder"
timeout --kill-after=5 "$seconds" "${command[@]}" </dev/null
echo "status $?" >/run/job/state
INSIDE
}

mkdir -p "$cache" 2>/dev/null || skip "$cache cannot be made (TUTTI_GUEST_CACHE names another place)"
exec 9>"$cache/lock"
flock 9
[ "$(cat "$cache/made-by" 2>/dev/null)" = "$(sha256sum <"$0")" ] || prepare
flock -u 9

# --- the run ---
job=$(mktemp -d "${TMPDIR:-/tmp}/tutti-guest.XXXXXX")
trap 'rm -rf "$job"' EXIT
mkdir "$job/shared"
write_inside >"$job/shared/inside"
{
  declare -p PATH
  command=("$@") folder=$PWD
  declare -p command folder seconds
  while IFS= read -r name; do declare -px "$name"; done < <(compgen -e | grep -E '^(TUTTI|GTEST|ASAN|UBSAN|TSAN|LD_LIBRARY_PATH)' || true)
} >"$job/shared/settings"
echo booting >"$job/shared/state"

# The processor is always emulated, because /dev/kvm may exist but not work. Page tables of five levels (la57) would
# only slow it down.
accelerator=(-accel "tcg,thread=multi" -cpu max,la57=off)
nodes=(-smp "2,sockets=2" -m 2G)
for i in 0 1; do
  nodes+=(-object "memory-backend-ram,id=ram$i,size=1G" -numa "node,nodeid=$i,cpus=$i,memdev=ram$i")
done
mkfifo "$job/output"
cat "$job/output" & # cat appends it to this script's output
printer=$!
timeout --kill-after=5 "$((seconds + boot_seconds))" qemu-system-x86_64 -M pc "${accelerator[@]}" "${nodes[@]}" \
  -nodefaults -display none -no-reboot -kernel "$cache/vmlinux" -initrd "$cache/initramfs" \
  -append "console=ttyS0 quiet panic=-1 nokaslr mitigations=off tsc=reliable random.trust_cpu=on" \
  -serial "file:$job/console" -device virtio-serial-pci \
  -chardev "file,id=output,path=$job/output,append=on" -device virtserialport,chardev=output,name=output \
  -virtfs "local,path=/,mount_tag=files,security_model=none,readonly=on,multidevs=remap" \
  -virtfs "local,path=$job/shared,mount_tag=job,security_model=none" \
  </dev/null >"$job/qemu" 2>&1 9>&- || true
: 8<>"$job/output" # lets cat end if qemu has never opened the fifo
wait "$printer"
state=$(cat "$job/shared/state")
case $state in
  status*) exit "${state#status }" ;;
  started)
    echo "the guest did not end within $((seconds + boot_seconds)) s"
    exit 124
    ;;
esac
# If the guest does not start, the program has not failed.
tail -n 20 "$job/qemu" "$job/console" || true
skip "the guest did not start"
