#!/usr/bin/env bash
# Ray on a cluster of two hosts, which are sets of namespaces with a network between them: a group of four actors over
# Tutti, and what the others learn of an actor's death on the other host.
#   ray_hosts.sh PYTHON     one that has the packages tutti, ray and numpy
# Exit status 77: this machine cannot run such a cluster.
set -euo pipefail
python=$(realpath -s "$1")
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
port=6379  # Ray's usual one; the host has a network of its own

if [ "${HOST_INDEX:-}" = "" ]; then
  export RAY_FOLDER
  RAY_FOLDER=$(mktemp -d /tmp/tutti-ray.XXXXXX)  # short: Ray puts sockets there
  trap 'rm -rf "$RAY_FOLDER"' EXIT
  "$tests/../../../scripts/cluster.sh" --hosts 2 --each-host --grace 5 -- "$tests/ray_hosts.sh" "$python"
  exit
fi
# Whether Ray asks for a token depends on what other programs of this user have left; nobody else reaches this network.
export RAY_AUTH_MODE=disabled
address=10.77.0.$((HOST_INDEX + 1))
ray() { "$python" -m ray.scripts.scripts "$@" >"$RAY_FOLDER/ray.$HOST_INDEX" 2>&1 || { cat "$RAY_FOLDER/ray.$HOST_INDEX"; return 1; }; }
common=(--node-ip-address "$address" --num-cpus 2 --object-store-memory 80000000 --disable-usage-stats)
# The programs of a host end with it.
if [ "$HOST_INDEX" = 0 ]; then
  ray start --head --port "$port" --temp-dir "$RAY_FOLDER/$HOST_INDEX" --include-dashboard false "${common[@]}"
  # What cluster.sh sets is for ranks that it starts itself.
  env -u RANK -u WORLD_SIZE -u MASTER_ADDR -u MASTER_PORT "$python" "$tests/ray_hosts.py" "$address:$port"
  touch "$RAY_FOLDER/done"
else
  until ray start --address "10.77.0.1:$port" "${common[@]}"; do sleep 0.5; done
  until [ -e "$RAY_FOLDER/done" ]; do sleep 0.2; done
fi
