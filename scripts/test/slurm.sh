#!/usr/bin/env bash
# Runs a command in a private Slurm: two nodes, node1 and node2, on this machine's loopback.
#   scripts/test/slurm.sh COMMAND ARGS...     e.g. srun -N 2 -n 4 build/release/bench/tutti-bench all_reduce
# It takes Debian's packages slurmctld, slurmd, slurm-client and munge, but none of their services or files in /etc. The
# host of a cluster (scripts/cluster.sh) keeps the daemons apart from the machine's network and processes. However the
# script ends, nothing is left.
# Times measured here mean nothing: each node is a session of its own, and Linux may give sessions whole time slices.
# Exit status: COMMAND's. 77: this machine cannot do it; the last line says why.
set -euo pipefail

say() { echo "[slurm] $*" >&2; }
skip() {
  say "skipped: $*"
  exit 77
}

if [ $# -eq 0 ]; then
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit 2
fi
export PATH=$PATH:/usr/sbin:/sbin # where Debian has the daemons
for program in munged slurmctld slurmd srun sinfo; do
  command -v "$program" >/dev/null ||
    skip "there is no $program (Debian's packages: slurmctld, slurmd, slurm-client and munge)"
done
if [ -z "${TUTTI_CLUSTER:-}" ]; then
  [ "$(id -u)" -eq 0 ] || skip "Slurm's daemons set their groups, which takes root (in a user namespace, too)"
  exec "$(dirname "$0")/../cluster.sh" --hosts 1 --each-host -- "$BASH" "$(realpath "$0")" "$@"
fi

folder=$(mktemp -d -p /dev/shm) # the cluster's, which ends with it
daemons=()
# The daemons report the end of their work to each other, so munged, which signs this, ends last.
# shellcheck disable=SC2317 # called by the trap
stop() {
  local index
  for ((index = ${#daemons[@]} - 1; index >= 0; index--)); do
    kill "${daemons[index]}" 2>/dev/null || true
    wait "${daemons[index]}" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap stop EXIT
trap 'exit 1' HUP INT TERM

# The cluster's variables would tell the ranks where to meet. Slurm's shall.
unset MASTER_ADDR MASTER_PORT HOSTS HOST_INDEX
host=$(hostname)
echo "127.0.0.1 localhost $host node1 node2" >"$folder/hosts"
mount --bind "$folder/hosts" /etc/hosts
export SLURM_CONF=$folder/slurm.conf
mkdir "$folder"/{state,node1,node2}
chmod 755 "$folder" # munged refuses clients a socket in a closed folder
(umask 077 && head -c 128 /dev/urandom >"$folder/key")

# More processors than the machine has, because the ranks only test. No cgroups, because a container may have none.
user=$(id -un)
cat >"$SLURM_CONF" <<CONFIGURATION
ClusterName=private
SlurmctldHost=$host(127.0.0.1)
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket=$folder/munge
SlurmUser=$user
SlurmdUser=$user
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
NodeName=node1 NodeHostname=$host Port=7001 CPUs=4
NodeName=node2 NodeHostname=$host Port=7002 CPUs=4
PartitionName=all Nodes=ALL Default=YES
CONFIGURATION

# start NAME COMMAND...: a daemon in the foreground, so that its process is this shell's child
start() {
  "${@:2}" >>"$folder/$1.out" 2>&1 &
  daemons+=($!)
}

# --force: the folder of temporary files may be open to all.
start munged munged --foreground --force --num-threads=10 --key-file="$folder/key" --socket="$folder/munge" \
  --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" --seed-file="$folder/seed"
start slurmctld slurmctld -D
start node1 slurmd -D -N node1
start node2 slurmd -D -N node2

seconds=60
until [ "$(sinfo --noheader --states=idle --format=%D 2>/dev/null)" = 2 ]; do
  for daemon in "${daemons[@]}"; do
    kill -0 "$daemon" 2>/dev/null || seconds=0
  done
  if [ "$seconds" -le 0 ]; then
    tail -n 20 "$folder"/*.out >&2
    say "Slurm does not start: its daemons' last lines are above"
    exit 1
  fi
  sleep 1
  seconds=$((seconds - 1))
done
status=0
"$@" </dev/null || status=$?
exit "$status"
