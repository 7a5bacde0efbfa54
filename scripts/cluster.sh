#!/usr/bin/env bash
# Runs a cluster on one machine, for tests and benchmarks between hosts. Every host is a set of namespaces (network,
# host name, processes, IPC, /dev/shm, /sys). One bridge per rail connects the hosts, optionally at a limited bandwidth.
#
#   scripts/cluster.sh [OPTIONS] [--] COMMAND ARGS...       runs COMMAND on every rank
#     --hosts N             hosts, called host0, host1, ...; default: 2
#     --ranks-per-host N    default: 1
#     --nics N              interfaces per host, eth0, eth1, ..., each on its own rail (bridge and subnets); default: 1
#     --bandwidth RATE      of every interface in each direction, such as 1gbit or 500mbit; default: unlimited
#     --mtu BYTES           default: 9000
#     --each-host           one process per host; COMMAND sets RANK and the ranks' other variables
#     --launcher PROGRAM    starts COMMAND with the mpirun of Open MPI, or the mpiexec.hydra of MPICH or Intel MPI (a name or
#                           path); options of the launcher may precede COMMAND
#     --prefix              puts [rank] in front of every output line
#     --grace SECONDS       time for which other ranks may still run after a rank has failed; default: 30
#     --name NAME           name of this cluster, for --control; default: this script's process ID
#
#   scripts/cluster.sh [--name NAME] --control VERB ...      from COMMAND or from outside the cluster
#     power-off HOST          takes its links down, then sends SIGKILL to all its processes, so no FIN or RST gets out
#     link-down HOST [NIC]    unplugs the cables of all its interfaces, or of one (0, 1, ...)
#     link-up HOST [NIC]      plugs the cables in again
#     partition HOST,...      lets these hosts reach only one another; repeat with other hosts for a third part
#     heal                    undoes partition and link-down
#     traffic HOST [NIC]      prints the bytes that the host sent and received, including headers
#   Without --name, it controls the caller's cluster, or else the only one. It waits up to 5 s for a starting cluster.
#
# The environment of COMMAND has RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT as from
# torchrun; HOSTS and HOST_INDEX; TUTTI_CLUSTER, for --control; and unless already set, a random TUTTI_SECRET and, with
# --bandwidth, TUTTI_SOCKET_SPEED. On rail R, host I has the addresses 10.77.R.(I+1) and fd74:7574:7469:R::(I+1) (in
# hex), both named hostI-railR; the name hostI is its IPv4 address on rail 0. Hosts share all files except those in
# /dev/shm. Standard input is empty.
#
# Exit status: that of the first rank to fail, else 0. Ranks of a powered-off host do not count as failed. 77: this
# machine cannot run a cluster; the reason is printed. A cluster needs iproute2, util-linux, and root or unprivileged
# user namespaces. However the script ends, even by SIGKILL, nothing is left: the kernel removes processes and
# namespaces when the topmost process is gone.
set -euo pipefail

# This script starts the switch, a process in separate namespaces, which has the bridges, keeps the state and starts the
# commands. Each host is a child of the switch: a process 1 that only waits. Both run this script again, as --inside and
# --hold-host, with cluster_switch.sh.

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/cluster.sh
shared=/dev/shm/cluster  # in the cluster, on all hosts: a folder of the switch
namespaces=(--mount --net --uts --ipc --pid --fork --kill-child)

usage() { sed -n '2,/^set/p' "$self" | sed '/^set/d; s/^# \{0,1\}//'; }
say() { echo "[cluster] $*" >&2; }
refuse() { echo "$0: $*" >&2; exit 2; }
cannot() { say "not on this machine: $*"; exit 77; }

# ---- Running clusters, seen from outside

find_cluster() {  # find_cluster NAME: sets `folder`, the path of `shared` from outside; NAME empty: the only cluster
  local process words
  local -A found=()
  for process in /proc/[0-9]*; do
    { mapfile -d '' -t words <"$process/cmdline"; } 2>/dev/null || continue
    [[ ${words[1]:-} == */cluster.sh && ${words[2]:-} == --inside && (-z $1 || ${words[3]:-} == "$1") ]] || continue
    [ ! -p "$process/root$shared/events" ] || found[${words[3]}]=$process/root$shared
  done
  [ ${#found[@]} -le 1 ] || refuse "several clusters are running (${!found[*]}): say which one with --name"
  folder=${found[*]:-}
  [ -n "$folder" ]
}

send_control() {  # send_control NAME VERB ARGS...
  local folder='' reply answer channel try
  for ((try = 0; try < 50; try++)); do
    if [ -z "$1" ] && [ -n "${TUTTI_CLUSTER:-}" ]; then folder=$TUTTI_CLUSTER; else find_cluster "$1" || true; fi
    [ ! -e "$folder/ready" ] || break
    sleep 0.1
  done
  [ -e "$folder/ready" ] || refuse "no cluster${1:+ $1} is running"
  reply=$(mktemp -u "$folder/reply.XXXXXX")
  mkfifo "$reply"
  exec {channel}<>"$reply"  # open in both directions, so that neither side waits for the other to open it
  echo "control ${reply##*/} ${*:2}" 1<>"$folder/events"
  read -r -t 30 answer <&"$channel" || answer="no: the cluster does not answer"
  rm -f "$reply"
  [[ $answer == ok* ]] || refuse "${*:2}: $answer"
  [ "$answer" = ok ] || echo "${answer#ok }"
}

# ---- The cluster of this call

set_bits() {  # set_bits RATE: sets `bits`, in bits per second
  [[ $1 =~ ^([1-9][0-9]{0,5})(|k|m|g)bit$ ]] || refuse "--bandwidth takes a rate such as 1gbit or 500mbit, not '$1'"
  local -A unit=([k]=1000 [m]=1000000 [g]=1000000000)
  bits=$((BASH_REMATCH[1] * ${unit[${BASH_REMATCH[2]:-}]:-1}))
}

run_cluster() {  # run_cluster ARGS: the arguments of this script
  local tool top as_user=() signal='' stopped='' folder='' result
  for tool in ip tc hostname unshare nsenter setpriv setsid mount; do
    command -v "$tool" >/dev/null ||
      cannot "there is no $tool (packages: iproute2 has ip and tc; hostname; util-linux has the others)"
  done
  if ! unshare "${namespaces[@]}" --mount-proc true 2>/dev/null; then
    as_user=(--user --map-root-user)
    unshare "${as_user[@]}" "${namespaces[@]}" --mount-proc true || cannot "no namespaces. It takes root with all" \
      "capabilities (containers: --privileged), or user namespaces for everybody (sysctl user.max_user_namespaces," \
      "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
  fi
  ! find_cluster "$name" || refuse "a cluster called $name is running already"
  # The kernel kills the switch when this script ends (--pdeathsig). The check of PPID covers a script that ended before
  # that was set. In its own session, the switch gets only the signals that this script passes on.
  # shellcheck disable=SC2016
  setpriv --pdeathsig KILL setsid sh -c '[ "$PPID" = "$0" ] && exec "$@"' $$ \
    unshare "${as_user[@]}" "${namespaces[@]}" --mount-proc "$BASH" "$self" --inside "$name" "$@" &
  top=$!
  # Traps only set a variable: bash handles functions in traps wrongly if a signal comes twice, as it does from timeout.
  trap 'signal=${signal:-1}' HUP
  trap 'signal=${signal:-2}' INT
  trap 'signal=${signal:-15}' TERM
  while :; do
    wait "$top" && result=0 || result=$?
    kill -0 "$top" 2>/dev/null || break
    [ -n "$signal" ] && [ -z "$stopped" ] || continue
    stopped=yes
    # If the message cannot be sent, the cluster is still starting or has already ended. Opening a fifo in both
    # directions never waits for a reader.
    { find_cluster "$name" && echo "stop $((128 + signal))" 1<>"$folder/events"; } 2>/dev/null || kill -KILL "$top" || true
  done
  [ -z "$signal" ] || result=$((128 + signal))
  exit "$result"
}

hosts=2 ranks_per_host=1 nics=1 bandwidth='' mtu=9000 each_host='' launcher='' prefix='' grace=30 name=''
inside=''
# shellcheck source=scripts/cluster_switch.sh
case ${1:-} in
  --hold-host | --agent | --inside) . "$(dirname "$self")/cluster_switch.sh" ;;&
  --hold-host) hold_host "$2" ;;
  --agent) shift && agent "$@" && exit 0 || exit $? ;;
  --inside) inside=yes name=$2 && shift 2 ;;
esac
arguments=("$@")
number() {  # number OPTION VALUE LEAST MOST
  [[ $2 =~ ^(0|[1-9][0-9]{0,5})$ && $2 -ge $3 && $2 -le $4 ]] || refuse "$1 takes a number from $3 to $4, not '$2'"
}
while [ $# -gt 0 ]; do
  case $1 in
    --hosts | --ranks-per-host | --nics | --bandwidth | --mtu | --launcher | --grace | --name | --control)
      [ $# -ge 2 ] || { usage >&2; exit 2; } ;;&
    --hosts) number "$1" "$2" 1 253 && hosts=$2 && shift ;;
    --ranks-per-host) number "$1" "$2" 1 1024 && ranks_per_host=$2 && shift ;;
    --nics) number "$1" "$2" 1 64 && nics=$2 && shift ;;
    --bandwidth) set_bits "$2" && bandwidth=$2 && shift ;;
    --mtu) number "$1" "$2" 1280 65535 && mtu=$2 && shift ;;
    --each-host) each_host=yes ;;
    --launcher) launcher=$2 && shift ;;
    --prefix) prefix=yes ;;
    --grace) number "$1" "$2" 0 999999 && grace=$2 && shift ;;
    --name) [ -n "$inside" ] || name=$2; shift ;;
    --control) send_control "$name" "${@:2}" && exit 0 ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    -*) echo "$0: unknown argument $1" >&2; usage >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
[ $# -gt 0 ] || { usage >&2; exit 2; }
[ -z "$each_host" ] || { ranks_per_host=1; [ -z "$launcher" ] || refuse "--each-host and --launcher exclude each other"; }
[ -z "$launcher" ] || command -v "$launcher" >/dev/null || refuse "there is no $launcher"
name=${name:-$$}
[[ $name =~ ^[A-Za-z0-9._-]+$ ]] || refuse "--name takes letters, digits, '.', '_' and '-'"
if [ -n "$inside" ]; then run_switch "$@"; else run_cluster "${arguments[@]}"; fi
