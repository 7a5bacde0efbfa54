"""Calls of SGLang's groups on CPUs, which SGLang makes with the backend of its platform: the entry point's, Tutti.

    torchrun --nproc-per-node RANKS sglang_groups.py [--gloo]

It goes as far as SGLang's packages on PyPI go without a GPU: its engine needs kernels for CPUs, which they lack. --gloo:
with SGLang's own platform. Prints the backend; exits with 1 if a result is wrong.
"""

import os
import sys

import torch
import torch.distributed as dist

os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
if "--gloo" in sys.argv:
    os.environ["SGLANG_PLUGINS"] = "none"
from sglang.srt.distributed import parallel_state  # noqa: E402

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
backend = parallel_state.get_default_distributed_backend("cpu")
parallel_state.init_distributed_environment(ranks, rank, "env://", int(os.environ["LOCAL_RANK"]), backend)
group = parallel_state.get_world_group()
assert dist.get_backend(group.device_group) == backend
for dtype in (torch.float32, torch.bfloat16):
    for shape in ((1, 8), (4, 512), (64, 4096)):
        tensor = torch.full(shape, rank + 1, dtype=dtype)
        assert torch.equal(group.all_reduce(tensor.clone()), torch.full(shape, ranks * (ranks + 1) / 2, dtype=dtype)), shape
        gathered = group.all_gather(tensor, dim=-1)
        assert torch.equal(gathered, torch.cat([torch.full(shape, one + 1, dtype=dtype) for one in range(ranks)], -1)), shape
group.barrier()
if rank == 0:
    print(f"SGLang's groups: {backend}, {ranks} ranks, the results are right", flush=True)
