#!/usr/bin/env bash
# Another user of the machine tries to take a rank's place in jobs that every launcher starts. Needs root, to be two users.
#   stranger_campaign.sh BUILD_DIR [TORCHRUN]
# Each job has two ranks and no secret of its user's making. Rank 1 comes late: meanwhile a stranger (user 65534) has its
# environment, except a secret that the launcher made, and joins as rank 1. It accepts peers of every user. Jobs run on
# a machine that has only loopback, and on one with two more addresses, from which the stranger calls; over each kind of
# transport between hosts, and inside one. TORCHRUN: PyTorch's launcher; without it, its jobs are left out.
# The last line counts the strangers who joined, and the jobs that did not go on with their own ranks. Status 1 if there
# is one. Before, as a check of the campaign itself, the same stranger joins a job whose ranks accept other users.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# --- A rank: `--rank FOLDER PROGRAM`. Rank 1 lends its environment to the stranger first.
if [ "${1:-}" = --rank ]; then
  folder=$2 program=$3
  case ${RANK-${OMPI_COMM_WORLD_RANK-${PMI_RANK-}}} in
    1)
      env --unset=TUTTI_SECRET --null >"$folder/environment.part"
      mv "$folder/environment.part" "$folder/environment"
      for ((i = 0; i < 1000; i++)); do
        [ -e "$folder/tried" ] && break
        sleep 0.02
      done
      ;;
  esac
  exec "$program" 0 65536
fi

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  sed -n '2,/^set/p' "$0" | sed '/^set/d; s/^# \{0,1\}//' >&2
  exit 2
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "it takes root to be two users" >&2
  exit 77
fi

# --- Everything happens in a network of its own.
if [ -z "${STRANGER_NETWORK:-}" ]; then
  exec env STRANGER_NETWORK=own unshare --net "$0" "$@"
fi
ip link set lo up

build=$(realpath "$1")
torchrun=${2:-}
program=$build/tests/tutti_host_rank
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 711 "$work"

rank=("$here/stranger_campaign.sh" --rank)
by_environment() {
  local job=$1 number
  for number in 0 1; do
    RANK=$number WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + jobs)) "${rank[@]}" "$job" "$program" &
  done
  wait
}
by_tutti_run() { "$build/tools/tutti" run -n 2 -- "${rank[@]}" "$1" "$program"; }
by_torchrun() {
  "$torchrun" --no-python --nproc-per-node 2 --master-addr 127.0.0.1 --master-port $((25000 + jobs)) "${rank[@]}" "$1" \
    "$program"
}
by_openmpi() {
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi \
    --mca oob_tcp_if_include lo --oversubscribe -n 2 "${rank[@]}" "$1" "$program"
}
by_mpich() { mpirun.mpich -n 2 "${rank[@]}" "$1" "$program"; }

launchers=(environment tutti_run)
[ -z "$torchrun" ] || launchers+=(torchrun)
for mpi in openmpi mpich; do
  if command -v "mpirun.$mpi" >/dev/null; then launchers+=("$mpi"); fi
done

# The stranger of a job: waits for the environment, and joins.
stranger() {
  local job=$1 i variables
  for ((i = 0; i < 1000; i++)); do
    [ -e "$job/environment" ] && break
    sleep 0.02
  done
  if [ ! -e "$job/environment" ]; then
    echo "rank 1 never started" >"$job/stranger"
    return
  fi
  mapfile -d '' variables <"$job/environment"
  setpriv --reuid=65534 --regid=65534 --clear-groups \
    env -i "${variables[@]}" HOME=/ TUTTI_ALLOW_OTHER_USERS=1 TUTTI_INIT_TIMEOUT_MS=1500 TUTTI_TIMEOUT_MS=3000 \
    timeout 20 "$program" 0 65536 >"$job/stranger" 2>&1 || true
  touch "$job/tried"
}

jobs=0 joined=0 ended=0
try() {
  local surroundings=$1 launcher=$2 transport=$3
  shift 3
  jobs=$((jobs + 1))
  local job=$work/$jobs
  mkdir "$job"
  chmod 711 "$job"
  stranger "$job" &
  local stranger=$!
  (
    local setting
    for setting in "$@" TUTTI_INIT_TIMEOUT_MS=60000; do declare -x "$setting"; done
    "by_$launcher" "$job"
  ) >"$job/ranks" 2>&1 || true
  wait "$stranger"
  local said what=refused
  said=$(grep -m 1 -aE "rank 1 (did not join|runs|failed|is done)" "$job/stranger" || tail -n 1 "$job/stranger")
  if grep -qaE "rank 1 (runs|failed|is done|has a wrong)" "$job/stranger"; then
    joined=$((joined + 1)) what=JOINED
  fi
  if [ "$(grep -caE "rank [01] is done" "$job/ranks")" -ne 2 ]; then
    ended=$((ended + 1)) what="$what, THE JOB ENDED"
    sed 's/^/    /' "$job/ranks"
  fi
  echo "$surroundings, $launcher, $transport: $what: ${said:0:160}"
}

# What the campaign finds must be there to be found.
try "other users accepted" environment TCP TUTTI_VIRTUAL_HOSTS=2 TUTTI_ALLOW_OTHER_USERS=1 >"$work/accepted"
if [ "$joined" -ne 1 ]; then
  cat "$work/accepted"
  echo "the stranger does not join even a job whose ranks accept other users: this campaign would show nothing"
  exit 1
fi
echo "a job whose ranks accept other users: the stranger joined"
rm -r "$work/1"
jobs=0 joined=0 ended=0

everywhere() {
  local launcher
  for launcher in "${launchers[@]}"; do
    try "$1" "$launcher" "one host"
    try "$1" "$launcher" TCP TUTTI_VIRTUAL_HOSTS=2
    try "$1" "$launcher" UCX TUTTI_VIRTUAL_HOSTS=2 TUTTI_NET=ucx UCX_TLS=tcp UCX_NET_DEVICES=lo
    try "$1" "$launcher" plug-in TUTTI_VIRTUAL_HOSTS=2 \
      TUTTI_NET_PLUGIN="$build/tests/transports/plugin/libnccl-net-testv11.so"
  done
}

everywhere loopback
ip addr add 10.77.0.1/24 dev lo
ip addr add 10.77.0.2/24 dev lo
ip route change local 127.0.0.1 dev lo table local src 10.77.0.2
ip route change local 10.77.0.1 dev lo table local src 10.77.0.2
everywhere "other addresses"
echo "$jobs jobs: $joined strangers joined, $ended jobs did not go on"
[ "$joined" -eq 0 ] && [ "$ended" -eq 0 ]
