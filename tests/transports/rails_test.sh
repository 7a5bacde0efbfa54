#!/usr/bin/env bash
# Checks that hosts with two interfaces send about half of the traffic over each rail: by the two-level algorithm with
# two ranks per host, and by the direct algorithm with one rank per host.
#
#   tests/transports/rails_test.sh SOURCE_DIR BUILD_DIR
#
# Exit status 77: this machine cannot run such a cluster.
set -euo pipefail

cluster=$1/scripts/cluster.sh program=$2/tests/tutti_host_rank
export cluster program
least_share=35  # percent of a host's bytes, on each interface

status=0
for ranks_per_host in 2 1; do
  export TUTTI_ALGO=direct
  [ $ranks_per_host -eq 1 ] || TUTTI_ALGO=two_level
  # The links are slow because a second link is only used if data would otherwise wait.
  traffic=$("$cluster" --hosts 2 --ranks-per-host $ranks_per_host --nics 2 --bandwidth 200mbit -- bash -c '
    "$program" 2 4000000 >&2
    [ "$RANK" != 0 ] || for nic in 0 1; do "$cluster" --control traffic host0 $nic; done') || status=$?
  [ "$status" -eq 0 ] || exit "$status"
  echo "$TUTTI_ALGO, ranks a host: $ranks_per_host; on each interface:" $traffic
  read -r _ sent0 _ _ _ sent1 _ < <(echo $traffic)
  for sent in "$sent0" "$sent1"; do
    [ $((100 * sent)) -ge $((least_share * (sent0 + sent1))) ] || { echo "FAILED: not used by half"; status=1; }
  done
done
exit "$status"
