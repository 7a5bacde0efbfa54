#!/usr/bin/env bash
# Measures how long it takes from a Debian with nothing but its base system to a first result, with the files that
# scripts/release.sh made: for who uses Python, PyTorch, MPI and C. Each has a root of his own, which debootstrap makes; that
# does not count. Prints the seconds of each command, and fails with the first that does.
#   scripts/release/first_success.sh FILES [USER...]    USER: python, pytorch, mpi or c; default: all
# Needs root, debootstrap, and in TMPDIR a GB, for PyTorch 6. Roots use this machine's settings of apt, pip and the network.
set -euo pipefail
[[ $# -ge 1 && $1 != -* ]] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 2; }
# shellcheck source=scripts/release/shared.sh
. "$(dirname "$0")/shared.sh"
files=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- python pytorch mpi c
command -v debootstrap >/dev/null || { say "there is no debootstrap" && exit 2; }
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
quietly "$work/log" debootstrap --variant=minbase bookworm "$work/base" \
  "$(apt-cache policy | awk '$3 == "bookworm/main" {print $2; exit}')"
for settings in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/resolv.conf /etc/hosts /etc/pip.conf; do
  [ ! -e "$settings" ] || { mkdir -p "$work/base$(dirname "$settings")" && cp -aLT "$settings" "$work/base$settings"; }
done
mkdir "$work/base/files"
# Installing packages there writes Debian's list of authorities anew, and this machine's may differ.
cp -L /etc/ssl/certs/ca-certificates.crt "$work/base/certificates.crt"

# What each does: a line is a command, timed. The programs are those of the documentation and of the tests.
declare -A commands=(
  [python]="packages python3-venv
python3 -m venv venv && venv/bin/pip install --quiet numpy /files/tutti-*.whl
venv/bin/tutti run -n 4 hello.py"
  [pytorch]="packages python3-venv
python3 -m venv venv && venv/bin/pip install --quiet torch numpy
venv/bin/pip install --quiet /files/tutti_torch-*.whl
venv/bin/torchrun --nproc-per-node 2 train.py"
  [mpi]="packages mpich
packages /files/tutti_*.deb /files/tutti-mpi_*.deb
mpiexec -n 4 env LD_PRELOAD=libtutti_pmpi_mpich.so TUTTI_MPI_REPORT=1 ./mpi_program 2>&1 | grep 'MPI_Allreduce *6 '"
  [c]="packages gcc libc6-dev pkg-config
tar -xzf /files/tutti-*.tar.gz && export PKG_CONFIG_PATH=\$(echo /job/tutti-*/lib/pkgconfig)
gcc all_reduce.c -o all_reduce \$(pkg-config --cflags --libs tutti)
tutti-*/bin/tutti run -n 4 ./all_reduce"
)
job=$work/job
mkdir "$job"
cp "$tree/examples/all_reduce.c" "$job"
mpicc.mpich "$tree/tests/packaging/consumer/mpi_program.c" -o "$job/mpi_program"
awk '/block: file: hello.py/ {found = 1} found && /^```$/ {exit} found && text {print} found && /^```python$/ {text = 1}' \
  "$tree/docs/tutorial_python.md" >"$job/hello.py"
cp "$tree/scripts/release/train.py" "$job"

cat >"$job/run.sh" <<'END'
set -euo pipefail
cd /job
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
user=$1
total=0
packages() { apt-get update -q && apt-get install -y -q --no-install-recommends "$@"; }
line() { printf '%s\t%d.%d s\t%s\n' "$user" $(($1 / 10)) $(($1 % 10)) "$2"; } # tenths of seconds
while IFS= read -r command; do
  began=$(date +%s%N)
  eval "$command" >log 2>&1 </dev/null || { cat log && exit 1; }
  took=$((($(date +%s%N) - began) / 100000000))
  total=$((total + took))
  line "$took" "$command"
done <commands
tail -n 3 log
line "$total" "in all"
END
mapfile -t of_pip < <(env | grep '^PIP_' | grep -v '^PIP_CERT=')
for user; do
  root=$work/$user
  cp -a "$work/base" "$root"
  cp -a "$job" "$root/job"
  echo "${commands[$user]}" >"$root/job/commands"
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --mount-proc="$root/proc" bash -c '
    mount --rbind /dev "$1/dev" && mount --bind -o ro /sys "$1/sys" && mount --bind "$2" "$1/files" &&
      exec env -i "${@:4}" PIP_CERT=/certificates.crt PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
      chroot "$1" bash /job/run.sh "$3"' - "$root" "$files" "$user" "${of_pip[@]}"
  rm -rf --one-file-system "$root"
done
