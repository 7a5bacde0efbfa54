#!/usr/bin/env bash
# vLLM's engine on several hosts, which are sets of namespaces with a network between them: generate.py on host 0, which
# prints its result, and workers on the others.
#   hosts.sh PYTHON HOSTS MODEL RANKS DTYPE [OPTIONS OF generate.py]
# Exit status 77: this machine cannot run such a cluster.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ -z "${HOST_INDEX:-}" ]; then
  VLLM_DONE=$(mktemp -u)
  export VLLM_DONE
  trap 'rm -f "$VLLM_DONE"' EXIT
  "$here/../../../../scripts/cluster.sh" --hosts "$2" --each-host --grace 5 -- "$here/hosts.sh" "$@"
  exit
fi
# What cluster.sh sets is for ranks that it starts itself.
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
export VLLM_HOST_IP=10.77.0.$((HOST_INDEX + 1)) GLOO_SOCKET_IFNAME=eth0
command=("$1" "$here/generate.py" "${@:3}" --hosts "$2" --host "$HOST_INDEX" --head 10.77.0.1)
if [ "$HOST_INDEX" = 0 ]; then
  trap 'touch "$VLLM_DONE"' EXIT
  "${command[@]}"
else
  "${command[@]}" >&2 &
  workers=$!
  until [ -e "$VLLM_DONE" ] || ! kill -0 "$workers" 2>/dev/null; do sleep 0.2; done
  kill "$workers" 2>/dev/null || true
fi
