#!/usr/bin/env bash
# Trains on Tutti with the newest PyTorch and torchft while ranks are killed at random moments (docs/pytorch.md): jobs that
# torchrun restarts, replicas of torchft that come back, and groups that are reconfigured.
#   scripts/interop/pytorch_kills.sh FOLDER [KILLS [SEED]]      e.g. /tmp/pytorch 20 1; default: 20 kills, seed 1
# Creates a virtual environment in FOLDER (6 GB), or takes that of pytorch_tests.sh there, and builds this tree's backend.
# BUILD names the build to use; default: build/release, which is built if it is missing. Each test prints what it did. Takes some
# minutes on two cores.
set -euo pipefail
# shellcheck source=scripts/interop/shared.sh
. "$(dirname "$0")/shared.sh"
take_folder "$@"
"$tree/scripts/interop/install_pytorch.sh" "$folder/python" "" numpy setuptools ninja
"$python" -m pip install --quiet --disable-pip-version-check torchft ||
  echo "torchft cannot be installed from PyPI for this Python: its test is skipped"
# The tests start hundreds of processes that import these, and none of them keeps what it compiles.
"$python" -W ignore -c 'import torch.distributed.run'
build=${BUILD:-$tree/build/release}
[ -e "$build/libtutti.so" ] || (cd "$tree" && scripts/build.sh release tutti)
TUTTI_TEST_KILLS=${2:-20} TUTTI_TEST_SEED=${3:-1} exec "$tree/interop/torch/tests/run.sh" "$python" "$build" \
  "$folder/package" -v -k Kills -k Torchft -k Reconfigure
