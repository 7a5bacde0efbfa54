# shellcheck shell=bash
# The second half of scripts/cluster.sh: the switch, the hosts, and the replacement for ssh. It runs in the namespaces
# that cluster.sh creates, and uses its variables and functions.

# ---- Hosts

hold_host() {  # hold_host INDEX: turns this process into process 1 of a host
  local pid
  exec 2>&9 9>&-
  read -r pid _ </proc/self/stat  # its process ID as the switch sees it: /proc is still the switch's
  hostname "host$1"
  mount -t proc proc /proc
  # A path covered by a new mount remains reachable through the working directory.
  cd "$shared"
  mount -t tmpfs -o mode=1777 shm /dev/shm
  mkdir "$shared"
  mount --no-canonicalize --bind . "$shared"
  # /sys/class/net shows the network namespace of the process that mounted it.
  cd /sys/fs/cgroup
  mount -t sysfs sysfs /sys
  mount --no-canonicalize --rbind . /sys/fs/cgroup
  cd /
  # Without duplicate detection, IPv6 addresses are usable at once.
  [ ! -e /proc/sys/net/ipv6 ] || echo 0 | tee /proc/sys/net/ipv6/conf/{all,default}/{accept_dad,disable_ipv6} >/dev/null
  echo "host $1 $pid" >"$shared/events"
  # Ignoring SIGCHLD makes the kernel reap orphans.
  exec env --ignore-signal=CHLD sleep infinity
}

set_entry() {  # set_entry HOST: sets `entry`, the prefix for a command that runs there, in this directory
  # Programs would otherwise inherit the signals that the switch ignores.
  entry=(env "--default-signal=HUP,INT,QUIT,TERM")
  # shellcheck disable=SC2016
  [ "$1" = - ] || entry=(nsenter --target "${init[$1]}" --mount --net --uts --ipc --pid --
    sh -c 'cd "$0" && exec "$@"' "$PWD" "${entry[@]}")
}

# agent [OPTIONS] HOST COMMAND...: replaces ssh for launchers.
agent() {
  local init entry
  while [[ ${1:-} == -* ]]; do shift; done
  mapfile -t init <"$shared/init"
  set_entry "${1#host}"
  "${entry[@]}" sh -c "${*:2}"
}

# ---- Network

# set_shaping MS QUEUE: sets `shaping`, the tc arguments for an interface with a bucket of MS milliseconds, and a queue of so many
# bytes, at `bits`. It uses tbf, not htb, because one queue and one bucket suffice.
set_shaping() {
  local peak_bucket
  # The bucket is large because on a busy machine both the timer that wakes tbf and the sending process run late, and
  # capacity beyond the bucket's size is lost. The bucket drains at 1.1 times the rate, so that a message after a pause
  # does not get the whole bucket at once. For this, tbf needs a second bucket, which must hold a packet as TCP hands it
  # over: 64 KB plus the headers of its packets on the wire. Otherwise tbf splits the packet, which takes CPU time.
  peak_bucket=$((bits / 8 / 4000))
  [ "$peak_bucket" -ge 131072 ] || peak_bucket=131072
  shaping="tbf rate ${bits}bit burst $((bits * $1 / 8000 + 131072)) limit $2"
  shaping+=" peakrate $((bits * 11 / 10))bit mtu $peak_bucket"
}

build_network() {
  local host rail id net shaping bits buffer control='' batch=$shared/batch  # a file of commands, faster than many processes
  # Use cubic even if the machine has another default: results must be comparable between machines, and bbr takes more
  # CPU time. It is set for each route, because the default of a network namespace cannot always be set.
  ! grep -qw cubic /proc/sys/net/ipv4/tcp_available_congestion_control || control="congctl cubic"
  [ -z "$bandwidth" ] || set_bits "$bandwidth"
  ip link set lo up
  for ((rail = 0; rail < nics; rail++)); do
    echo "link add rail$rail mtu $mtu type bridge stp_state 0 mcast_snooping 0"
    echo "addr add 10.77.$rail.254/24 dev rail$rail"  # for launchers
    echo "link set rail$rail up"
    for ((host = 0; host < hosts; host++)); do
      echo "link add host${host}eth$rail mtu $mtu type veth peer name eth$rail mtu $mtu netns ${init[host]}"
      echo "link set host${host}eth$rail master rail$rail up"
    done
  done >"$batch"
  ip -batch "$batch" || cannot "ip cannot make bridges, or pairs of veth"
  for ((host = 0; host < hosts; host++)); do
    for ((rail = 0; rail < nics; rail++)); do
      echo "link set eth$rail up"
      echo "addr add 10.77.$rail.$((host + 1))/24 dev eth$rail noprefixroute"
      echo "route add 10.77.$rail.0/24 dev eth$rail src 10.77.$rail.$((host + 1)) $control"
      [ -e /proc/net/if_inet6 ] || continue
      printf -v net 'fd74:7574:7469:%x::' "$rail"
      printf -v id '%x' $((host + 1))
      echo "addr add $net$id/64 dev eth$rail nodad noprefixroute"
      echo "route add $net/64 dev eth$rail src $net$id $control"
    done >"$batch"
    # shellcheck disable=SC2016
    nsenter --target "${init[host]}" --net sh -c 'ip link set lo up && ip -batch "$0"' "$batch"
    [ -n "$bandwidth" ] || continue
    # As many bytes as a thousand packets of TCP, which is a system's own limit. TCP does not notice at once what its own system
    # drops, and sends it again after 200 ms.
    set_shaping 2 $((1000 * 65536))
    for ((rail = 0; rail < nics; rail++)); do echo "qdisc add dev eth$rail root $shaping"; done >"$batch"
    # A switch with small buffers: 5 ms, but at least 1 MB. Several hosts that send to one host can fill it. The bucket is twice
    # as large as the host's, so that data is not throttled a second time there.
    buffer=$((bits / 8 / 200))
    set_shaping 4 $((buffer > 1048576 ? buffer : 1048576))
    for ((rail = 0; rail < nics; rail++)); do echo "qdisc add dev host${host}eth$rail root $shaping"; done >"$batch.bridge"
    { nsenter --target "${init[host]}" --net tc -batch "$batch" && tc -batch "$batch.bridge"; } ||
      cannot "tc cannot shape with tbf (kernel module sch_tbf, CONFIG_NET_SCH_TBF)"
  done
}

name_hosts() {
  local host rail
  echo "127.0.0.1 localhost"
  echo "::1 localhost"
  echo "10.77.0.254 switch"
  for ((host = 0; host < hosts; host++)); do
    echo "10.77.0.$((host + 1)) host$host"
    for ((rail = 0; rail < nics; rail++)); do
      echo "10.77.$rail.$((host + 1)) host$host-rail$rail"
      printf 'fd74:7574:7469:%x::%x host%d-rail%d\n' "$rail" $((host + 1)) "$host" "$rail"
    done
  done
}

# ---- Commands in the cluster; each reports its end to the switch by a line in the fifo `events`

start() {  # start ID HOST COMMAND...; HOST -: on the switch
  local entry
  set_entry "$2"
  running=$((running + 1))
  pending=$((pending + 1))
  (
    status=0
    if [ -n "$prefix" ]; then
      exec 8>&- {out}> >(exec sed -u "s/^/[$1] /") {err}> >(exec sed -u "s/^/[$1] /" >&2)
    else
      exec 8>&- {out}>&1 {err}>&2
    fi
    exec 2>/dev/null  # where this shell would report processes killed by a signal
    "${entry[@]}" "${@:3}" >&"$out" 2>&"$err" {out}>&- {err}>&- || status=$?
    exec {out}>&- {err}>&-
    echo "exit $1 $2 $status" >"$shared/events"
    wait  # for the processes that write prefixes
    echo "written" >"$shared/events"
  ) &
}

start_ranks() {
  local host slot rank variables
  for ((rank = 0; rank < hosts * ranks_per_host; rank++)); do
    host=$((rank / ranks_per_host)) slot=$((rank % ranks_per_host))
    variables=("HOST_INDEX=$host")
    [ -n "$each_host" ] || variables+=("RANK=$rank" "WORLD_SIZE=$((hosts * ranks_per_host))" "LOCAL_RANK=$slot"
      "LOCAL_WORLD_SIZE=$ranks_per_host")
    start "$rank" "$host" env "${variables[@]}" "$@"
  done
}

# The launcher runs on the switch, as on a login node, so that it starts the ranks of all hosts the same way.
start_launcher() {
  local n=$((hosts * ranks_per_host)) slots='' subnets='' devices='' i more=()
  printf '#!/bin/sh\nexec "%s" "%s" --agent "$@"\n' "$BASH" "$self" >"$shared/agent"
  chmod +x "$shared/agent"
  for ((i = 0; i < hosts; i++)); do slots+=,host$i:$ranks_per_host; done
  for ((i = 0; i < nics; i++)); do subnets+=,10.77.$i.0/24 devices+=,eth$i; done
  case $("$launcher" --version 2>&1) in
    *"Open MPI"* | *OpenRTE*)
      # Folder: one in /tmp would outlive the cluster, and two clusters could use the same one.
      more=(--mca plm rsh --mca plm_rsh_agent "$shared/agent" --mca plm_rsh_no_tree_spawn 1 --mca orte_tmpdir_base /dev/shm
        --mca oob_tcp_if_include 10.77.0.0/24 --mca btl self,vader,tcp)
      # Since Open MPI 5, the launcher's runtime has options of its own.
      [[ "$("$launcher" --version 2>&1)" != *"Open MPI) 5"* ]] ||
        more=(--prtemca plm ssh --prtemca plm_ssh_agent "$shared/agent" --prtemca plm_ssh_no_tree_spawn 1
          --prtemca prte_tmpdir_base /dev/shm --mca btl self,sm,tcp)
      # Open MPI counts all processors on each host, so it does not notice oversubscription by itself.
      [ "$n" -le "$(nproc)" ] || more+=(--mca mpi_yield_when_idle 1)
      # A variable rather than an option, so that the user can override it on the command line.
      export OMPI_MCA_pml=${OMPI_MCA_pml:-ob1}
      start "$launcher" - "$launcher" --allow-run-as-root -n "$n" --host "${slots#,}" --map-by slot --bind-to none \
        "${more[@]}" --mca btl_tcp_if_include "${subnets#,}" "$@"
      ;;
    *HYDRA*)
      start "$launcher" - "$launcher" -launcher ssh -launcher-exec "$shared/agent" -hosts "${slots#,}" -n "$n" \
        -bind-to none -genv UCX_TLS tcp,sm,self -genv UCX_NET_DEVICES "${devices#,}" "$@"
      ;;
    *"Intel(R) MPI"*)
      [ "$n" -le "$(nproc)" ] || more=(-genv I_MPI_THREAD_YIELD 2)
      start "$launcher" - "$launcher" -bootstrap ssh -bootstrap-exec "$shared/agent" -hosts "${slots#,}" -n "$n" \
        -ppn "$ranks_per_host" -genv I_MPI_PIN 0 -genv I_MPI_FABRICS shm:ofi -genv FI_PROVIDER tcp \
        -genv FI_TCP_IFACE eth0 "${more[@]}" "$@"
      ;;
    *) refuse "$launcher is neither Open MPI's mpirun nor the mpiexec.hydra of MPICH or Intel MPI" ;;
  esac
}

# ---- Control: faults on request

answer_control() {  # answer_control VERB ARGS...: obeys and sets `answer`; runs in the switch, which keeps the state
  local verb=$1 members=() rails host rail name in out sum_in=0 sum_out=0
  mapfile -t rails < <(seq 0 $((nics - 1)))
  [ "$verb" = heal ] || [ -n "${2:-}" ] || { answer="no: $verb takes a host"; return; }
  for host in ${2//,/ }; do
    [[ $host =~ ^host(0|[1-9][0-9]{0,3})$ && ${host#host} -lt $hosts ]] || { answer="no: there is no host '$host'"; return; }
    host=${host#host}
    [ -n "${init[host]}" ] || { answer="no: host$host is powered off"; return; }
    members+=("$host")
  done
  if [ -n "${3:-}" ]; then
    [[ $3 =~ ^(0|[1-9][0-9]{0,2})$ && $3 -lt $nics ]] || { answer="no: there is no interface '$3'"; return; }
    rails=("$3")
  fi
  host=${members[0]:-}
  answer=ok
  case $verb in
    power-off)
      for rail in "${rails[@]}"; do ip link set "host${host}eth$rail" down; done
      kill -KILL "${init[host]}"
      wait "${holders[host]}" 2>/dev/null || true  # ends when all of the host's processes have ended
      init[host]=
      ;;
    link-down | link-up) for rail in "${rails[@]}"; do ip link set "host${host}eth$rail" "${verb#link-}"; done ;;
    partition)
      parts=$((parts + 1))
      for rail in "${rails[@]}"; do
        ip link add "rail${rail}part$parts" mtu "$mtu" type bridge stp_state 0 mcast_snooping 0
        ip link set "rail${rail}part$parts" up
        for host in "${members[@]}"; do ip link set "host${host}eth$rail" master "rail${rail}part$parts"; done
      done
      ;;
    heal)
      for rail in "${rails[@]}"; do
        for ((host = 0; host < hosts; host++)); do
          [ -z "${init[host]}" ] || ip link set "host${host}eth$rail" master "rail$rail" up
        done
        for ((; parts > 0; parts--)); do ip link del "rail${rail}part$parts"; done
      done
      ;;
    traffic)
      # The bridge's end of the link receives what the host sends.
      while IFS=' :' read -r name out _ _ _ _ _ _ _ in _; do
        for rail in "${rails[@]}"; do
          [ "$name" != "host${host}eth$rail" ] || sum_out=$((sum_out + out)) sum_in=$((sum_in + in))
        done
      done < <(tail -n +3 /proc/net/dev)
      answer="ok sent $sum_out received $sum_in"
      ;;
    *) answer="no: '$verb' is not known" ;;
  esac
}

# ---- The switch

kill_all() {  # asks all processes to end; the kernel kills the rest when this process ends
  phase=killing deadline=$((SECONDS + 2))
  kill -TERM -- -1  # all processes but this one, including those in hosts, which may end cleanly
}

run_switch() {
  local init=() holders=() parts=0 host kind id where what rest answer
  local running=0 pending=0 phase=running deadline='' result=0
  trap '' INT QUIT TERM HUP
  mount -t tmpfs -o mode=755 cluster /dev/shm
  mkdir "$shared"
  mkfifo "$shared/events"
  exec 8<>"$shared/events"
  hostname switch
  name_hosts >"$shared/hosts"
  [ ! -e /etc/hosts ] || mount --bind "$shared/hosts" /etc/hosts
  for ((host = 0; host < hosts; host++)); do
    # Suppresses stderr, because some versions of unshare complain when their child is killed.
    { unshare "${namespaces[@]}" "$BASH" "$self" --hold-host "$host" || echo "lost $host" >"$shared/events"; } \
      8>&- 9>&2 2>/dev/null &
    holders[host]=$!
  done
  while [ ${#init[@]} -lt "$hosts" ]; do
    read -r -t 30 kind id where <&8 || kind=
    [ "$kind" != stop ] || exit "$id"
    [ "$kind" = host ] || cannot "the namespaces of a host cannot be set up"
    init[id]=$where
  done
  for ((host = 0; host < hosts; host++)); do echo "${init[host]}"; done >"$shared/init"
  build_network

  export MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 HOSTS=$hosts TUTTI_CLUSTER=$shared
  export TUTTI_SECRET=${TUTTI_SECRET:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
  # Tutti cannot read the shaped rate from an interface.
  if [ -n "$bandwidth" ]; then
    set_bits "$bandwidth"
    export TUTTI_SOCKET_SPEED=${TUTTI_SOCKET_SPEED:-$(((bits + 999999) / 1000000))}  # in Mbit/s
  fi
  if [ -n "$launcher" ]; then start_launcher "$@"; else start_ranks "$@"; fi
  : >"$shared/ready"

  while [ "$pending" -gt 0 ]; do
    if [ -n "$deadline" ] && [ "$SECONDS" -ge "$deadline" ]; then
      [ "$phase" = grace ] || break
      say "killing the ranks that are still running: $running"
      kill_all
    fi
    read -r -t $((${deadline:-SECONDS + 60} - SECONDS)) kind id where what rest <&8 || continue
    case $kind in
      exit)
        running=$((running - 1))
        if [ "$what" -ne 0 ] && [ "$phase" = running ] && { [ "$where" = - ] || [ -n "${init[where]}" ]; }; then
          result=$what phase=grace deadline=$((SECONDS + grace))
          [ "$where" = - ] || id="rank $id on host$where"
          [ "$running" -eq 0 ] || what+="; ranks still running: $running, for at most $grace s"
          say "$id ended with status $what"
        fi
        # Once all ranks have ended, waits at most 1 s for processes that still hold a pipe to a prefix writer.
        [ "$running" -gt 0 ] || phase=over deadline=$((SECONDS + 1))
        ;;
      written) pending=$((pending - 1)) ;;
      stop) result=$id && kill_all ;;
      control)
        # shellcheck disable=SC2086
        answer_control "$where" "$what" $rest
        [ ! -p "$shared/$id" ] || echo "$answer" 1<>"$shared/$id"
        ;;
    esac
  done
  exit "$result"
}
