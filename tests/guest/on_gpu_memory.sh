#!/usr/bin/env bash
# Runs a program whose ranks have fake GPUs, with a stand-in for what NICs do with a GPU's memory (testing/dma_buf_standin).
#   on_gpu_memory.sh FAKE_GPU_FOLDER STANDIN PROGRAM [ARGUMENT]...
set -euo pipefail
export LD_LIBRARY_PATH=$1 LD_PRELOAD=$2
shift 2
exec "$@"
