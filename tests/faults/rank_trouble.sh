#!/usr/bin/env bash
# Causes a fault in ranks of a cluster (scripts/cluster.sh) from outside. It finds the ranks by their environment.
#
#   tests/faults/rank_trouble.sh RUN RANK,... kill|stop|continue|strangers      to all these ranks at once
#   tests/faults/rank_trouble.sh RUN RANK flood SECONDS SEED                    starts campaign/flood.py on its host
#
# RUN is the value of FAULT_RUN in the environment in which the cluster was started. Waits up to 5 s for a starting
# rank.
set -euo pipefail

run=$1 ranks=$2 trouble=$3

# find_rank RANK: prints its process ID. The process's parent outside the cluster (nsenter) has no RANK.
find_rank() {
  local place try
  for ((try = 0; try < 50; try++)); do
    for place in $(grep -lxz "FAULT_RUN=$run" /proc/[0-9]*/environ 2>/dev/null); do
      ! grep -qxz "RANK=$1" "$place" 2>/dev/null || { basename "${place%/environ}"; return; }
    done
    sleep 0.1
  done
  echo "$0: rank $1 of $run is not there" >&2
  return 1
}

# Opens many connections to every listening port; some send random data, some hang up.
send_strangers() {
  nsenter --net --target "$1" python3 - <<'PYTHON'
import os, socket, time
sockets = []
for line in open("/proc/net/tcp"):
    fields = line.split()
    if len(fields) < 4 or fields[3] != "0A":
        continue
    address, port = fields[1].split(":")
    ip = ".".join(str(b) for b in reversed(bytes.fromhex(address)))
    for i in range(40):
        s = socket.create_connection((ip, int(port, 16)), timeout=5)
        if i % 3 == 0:
            s.send(os.urandom(200))
        if i % 3 == 1:
            s.close()
        else:
            sockets.append(s)
assert len(sockets) > 40, "nobody listens"
time.sleep(1)
PYTHON
}

processes=()
for rank in ${ranks//,/ }; do
  process=$(find_rank "$rank")
  processes+=("$process")
  # The parent outside the cluster (nsenter) stops with the rank, but needs a separate SIGCONT.
  [ "$trouble" != continue ] || processes+=("$(ps -o ppid= -p "$process" | tr -d ' ')")
done
case $trouble in
  kill) kill -KILL "${processes[@]}" ;;
  stop) kill -STOP "${processes[@]}" ;;
  continue) kill -CONT "${processes[@]}" ;;
  strangers) for process in "${processes[@]}"; do send_strangers "$process"; done ;;
  flood)
    flood=$(dirname "$0")/campaign/flood.py
    # The pause gives the flood time to fill the queues.
    nsenter --net --target "${processes[0]}" setsid -f "$flood" "$4" "$5" >/dev/null 2>&1 </dev/null
    sleep 0.5 ;;
  *) echo "$0: '$trouble' is not known" >&2; exit 2 ;;
esac
