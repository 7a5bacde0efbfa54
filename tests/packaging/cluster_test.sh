#!/usr/bin/env bash
# Checks that scripts/cluster.sh creates the hosts that it describes, breaks them on request, and leaves nothing behind.
#   cluster_test.sh SOURCE_DIR
# Exit status 77: this machine cannot make namespaces, or has no python3.
set -euo pipefail
cluster=$(cd "$1" && pwd)/scripts/cluster.sh
work=$(mktemp -d)
started=()
cleanup() {
  for process in "${started[@]}"; do kill -KILL "$process" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
failures=0
unset TUTTI_CLUSTER TUTTI_SECRET
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1

check() {  # check WHAT COMMAND...
  local what=$1
  shift
  if "$@" >"$work/said" 2>&1; then
    echo "ok: $what"
  else
    echo "FAILED: $what"
    sed 's/^/    /' "$work/said"
    failures=$((failures + 1))
  fi
}

ends_with() {  # ends_with STATUS COMMAND...
  local status=0
  "${@:2}" || status=$?
  [ "$status" -eq "$1" ] || { echo "status $status instead of $1: ${*:2}"; return 1; }
}

command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }
status=0
"$cluster" --hosts 2 --bandwidth 1gbit -- true || status=$?
if [ "$status" -eq 77 ]; then
  echo "skipped: this machine makes no cluster"
  exit 77
fi
check "a cluster is made" [ "$status" -eq 0 ]

# ---- The environment of a rank

# Every rank listens on both families, sends its number to every other rank, and receives theirs.
cat >"$work/meet.py" <<'END'
import os, socket, sys, threading, time
rank, size, local = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
listener = socket.socket(socket.AF_INET6)
listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
listener.bind(("::", 6000 + rank))
listener.listen(64)
heard = []
def hear():
    while len(heard) < 2 * size:
        heard.append(int(listener.accept()[0].recv(16)))
hearing = threading.Thread(target=hear, daemon=True)
hearing.start()
for other in range(size):
    host = other // local
    for address in (f"host{host}", f"fd74:7574:7469::{host + 1:x}"):
        for attempt in range(200):
            try:
                with socket.create_connection((address, 6000 + other), 5) as connection:
                    connection.send(b"%d" % rank)
                break
            except OSError as error:
                time.sleep(0.05)  # it may not be listening yet
        else:
            sys.exit(f"rank {rank} cannot reach {address}: {error}")
hearing.join(20)
assert sorted(heard) == sorted(2 * list(range(size))), heard
line = [rank, os.environ["LOCAL_RANK"], os.environ["HOST_INDEX"], socket.gethostname(),
        os.readlink("/proc/self/ns/net"), size, local, os.environ["HOSTS"], os.environ["MASTER_ADDR"],
        os.environ["MASTER_PORT"],
        os.environ["TUTTI_SECRET"], ",".join(sorted(os.listdir("/sys/class/net")))]
os.write(1, (" ".join(map(str, line)) + "\n").encode())  # in one write, because other ranks write there, too
END
ranks_are_placed() {
  "$cluster" --hosts 3 --ranks-per-host 2 --nics 2 -- python3 "$work/meet.py" >"$work/met" || return 1
  sort -n "$work/met"
  local rank=0 r slot index host network size per_host hosts address port secret interfaces
  local -A network_of=() secrets=()
  while read -r r slot index host network size per_host hosts address port secret interfaces; do
    [ "$r $slot $index $host" = "$rank $((rank % 2)) $((rank / 2)) host$((rank / 2))" ] || return 1
    [ "$size $per_host $hosts $address $port $interfaces" = "6 2 3 10.77.0.1 29500 eth0,eth1,lo" ] || return 1
    [ "${network_of[$host]:-$network}" = "$network" ] || return 1
    network_of[$host]=$network
    secrets[$secret]=1
    rank=$((rank + 1))
  done < <(sort -n "$work/met")
  [ "$rank" -eq 6 ] && [ "${#network_of[@]}" -eq 3 ] && [ "${#secrets[@]}" -eq 1 ] &&
    [ "$(printf '%s\n' "${network_of[@]}" "$(readlink /proc/self/ns/net)" | sort -u | wc -l)" -eq 4 ]
}
check "ranks are on their hosts, know each other's addresses, and reach all others" ranks_are_placed

each_host_has_one() {
  # shellcheck disable=SC2016
  [ "$("$cluster" --hosts 3 --each-host --prefix -- sh -c 'echo $HOST_INDEX ${RANK-none}' | sort)" = \
    $'[0] 0 none\n[1] 1 none\n[2] 2 none' ]
}
check "--each-host starts one process a host, --prefix says which" each_host_has_one

# The only property of time that holds even on a busy machine: nothing is faster than the interfaces.
cat >"$work/stream.py" <<'END'
import os, socket, threading, time
mine, other = int(os.environ["RANK"]), 1 - int(os.environ["RANK"])
amount = 8 << 20
listener = socket.create_server(("", 6000))
def send():
    for attempt in range(200):
        try:
            connection = socket.create_connection((f"host{other}", 6000))
            break
        except OSError:
            time.sleep(0.05)
    connection.sendall(bytes(amount))
    connection.close()
sending = threading.Thread(target=send)
sending.start()
connection, got, begun = listener.accept()[0], 0, time.monotonic()
while piece := connection.recv(1 << 20):
    got += len(piece)
rate = got * 8 / (time.monotonic() - begun)
sending.join()
print(f"rank {mine} received {got} bytes at {rate / 1e6:.0f} Mbit/s")
assert got == amount and rate < 2 * 200e6
END
check "what is sent at once in both directions is no faster than --bandwidth" \
  "$cluster" --bandwidth 200mbit -- python3 "$work/stream.py"

# ---- Exit statuses

# shellcheck disable=SC2016
check "the status of the first rank to fail is the cluster's" ends_with 7 "$cluster" --hosts 3 --grace 20 -- \
  sh -c '[ $RANK -ne 1 ] || exit 7; sleep 1; exit 9'
# shellcheck disable=SC2016
check "after the grace the others are killed" ends_with 5 timeout 60 "$cluster" --grace 1 -- \
  sh -c '[ $RANK -eq 0 ] && exit 5; exec sleep 1000'
check "a command that is not there" ends_with 127 "$cluster" -- "$work/nothing"
check "a wrong number of hosts" ends_with 2 "$cluster" --hosts 0 -- true
check "no command" ends_with 2 "$cluster" --hosts 2

# ---- Faults, caused by rank 0; the other ranks answer every connection, and rank 1 ends on request

cat >"$work/faults.py" <<'END'
import os, socket, subprocess, sys, time
cluster, rank = sys.argv[1], int(os.environ["RANK"])
def control(*words, right=True):
    done = subprocess.run([cluster, "--control", *words], capture_output=True, text=True)
    assert (done.returncode == 0) == right, (words, done.stdout, done.stderr)
    return done.stdout
def connect(host):
    connection = socket.create_connection((host, 6000), 0.4)
    connection.settimeout(0.4)
    assert connection.recv(1) == b"!"
    return connection
def reach(host, expected):
    for attempt in range(100 if expected else 1):  # the host may be starting, or the kernel may still consider it lost
        if attempt:
            time.sleep(0.1)
        try:
            connect(host).close()
            reached = True
            break
        except OSError:
            reached = False
    assert reached == expected, f"{host} {'is' if reached else 'cannot be'} reached"
if rank != 0:
    listener = socket.create_server(("", 6000))
    while True:
        connection = listener.accept()[0]
        connection.send(b"!")
        if rank == 1 and connection.recv(16) == b"end":
            sys.exit(0)
        kept = connection  # still open when the power fails, when the kernel tries to close it
reach("host1", True), reach("host2", True)
control("link-down", "host1"); reach("host1", False), reach("host2", True)
control("link-up", "host1"); reach("host1", True)
control("partition", "host0,host1"); reach("host1", True), reach("host2", False)
control("heal"); reach("host2", True), reach("host1", True)
control("link-down", "host1", "0"); reach("host1", False); control("heal"); reach("host1", True)
control("link-down", "host3", right=False)
control("explode", "host1", right=False)
control("link-down", "host1", "7", right=False)
sent, received = (int(word) for word in control("traffic", "host2").split()[1::2])
assert sent > 0 and received > 0
before = connect("host2")
control("power-off", "host2")
try:
    sys.exit(f"host2 said good-bye: {before.recv(1)}")
except TimeoutError:
    pass
reach("host2", False), reach("host1", True)
control("link-up", "host2", right=False)
last = connect("host1")
last.send(b"end")
END
check "links, partitions and power fail and return as told, and a host without power is no failure" \
  timeout 100 "$cluster" --hosts 3 --grace 1 -- python3 "$work/faults.py" "$cluster"

# ---- Nothing is left

# Nothing of the cluster is visible outside it, neither while it runs nor afterwards.
nothing_shows() {
  ! ip -o link | grep -E ': (host[0-9]+eth|rail)[0-9]' && ! grep -wF -e "$work" -e /dev/shm/cluster /proc/self/mounts &&
    ! ls -d /dev/shm/cluster 2>/dev/null && ! ls /run/netns/*host[0-9]* 2>/dev/null
}
processes() { pgrep -f -x "$1" || true; }
wait_until() {  # wait_until COMMAND...: waits at most 10 s until it succeeds
  local try
  for ((try = 0; try < 100; try++)); do
    if "$@"; then return; fi
    sleep 0.1
  done
  echo "still not: $*"
  return 1
}
are_gone() { [ -z "$(processes "sleep $1")" ]; }
are_there() { [ "$(processes "sleep $1" | wc -l)" -eq "$2" ]; }
networks_are_gone() {
  local network
  for network in "$@"; do ! grep -qxF "$network" <(readlink /proc/[0-9]*/ns/net 2>/dev/null) || return 1; done
}

killed_leaves_nothing() {  # killed_leaves_nothing SIGNAL STATUS
  local one=$((RANDOM + 100000)) other=$((RANDOM + 200000)) script second status=0 networks process
  "$cluster" --name "a$one" --hosts 2 --ranks-per-host 2 -- sleep "$one" &
  script=$!
  "$cluster" --name "b$other" -- sleep "$other" &
  second=$!
  started+=("$script" "$second")
  "$cluster" --name "a$one" --control traffic host1 && "$cluster" --name "b$other" --control traffic host1 || return 1
  wait_until are_there "$one" 4 && wait_until are_there "$other" 2 || return 1
  mapfile -t networks < <(for process in $(processes "sleep $one"); do readlink "/proc/$process/ns/net"; done | sort -u)
  [ "${#networks[@]}" -eq 2 ] || { echo "${#networks[@]} network namespaces"; return 1; }
  nothing_shows || return 1
  kill "-$1" "$script"
  wait "$script" || status=$?
  [ "$status" -eq "$2" ] || { echo "status $status"; return 1; }
  wait_until are_gone "$one" && wait_until networks_are_gone "${networks[@]}" || return 1
  are_there "$other" 2 || { echo "the other cluster was hit too"; return 1; }
  # Ends this cluster from outside: its last host is gone, but none of its ranks failed.
  "$cluster" --name "b$other" --control power-off host0 && "$cluster" --name "b$other" --control power-off host1 &&
    ends_with 0 wait "$second" && wait_until are_gone "$other" || return 1
  nothing_shows
}
check "killed by SIGKILL, nothing is left of it, and another cluster goes on" killed_leaves_nothing KILL 137
check "ended by SIGTERM, nothing is left of it, and another cluster goes on" killed_leaves_nothing TERM 143

[ "$failures" -eq 0 ]
