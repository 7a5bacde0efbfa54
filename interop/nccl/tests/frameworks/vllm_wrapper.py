"""vLLM's ctypes wrapper of NCCL, as its package has it, on memory of the fake GPU.

    vllm_wrapper.py PATH-OF-pynccl_wrapper.py

The wrapper is loaded alone. What it imports of vLLM - settings, a logger, the platform - are modules made here, with
the few names that it uses. The library is the one that VLLM_NCCL_SO_PATH names.
"""
import importlib.util
import logging
import os
import sys
import types

import torch

from device_memory import Floats, new_stream, set_device, share, synchronize
from steps import Steps, check, library_is_ours, rank_and_ranks


rank, ranks = rank_and_ranks()
every = range(ranks)
sum_of_ranks = float(sum(every))


def module(name, **names):
    made = types.ModuleType(name)
    made.__dict__.update(names)
    sys.modules[name] = made
    return made


def load_wrapper(path):
    platform = types.SimpleNamespace(is_rocm=lambda: False, is_cuda=lambda: True, fp8_dtype=lambda: torch.float8_e4m3fn)
    settings = module("vllm.envs", VLLM_USE_NCCL_SYMM_MEM=True)
    module("vllm", envs=settings)
    logger = logging.getLogger("vllm")
    logger.warning_once = logger.warning
    module("vllm.logger", init_logger=lambda name: logger)
    module("vllm.platforms", current_platform=platform)
    module("vllm.utils")
    module("vllm.utils.nccl", find_nccl_library=lambda: os.environ["VLLM_NCCL_SO_PATH"])
    spec = importlib.util.spec_from_file_location("pynccl_wrapper", path)
    wrapper = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = wrapper  # its dataclasses look for their module
    spec.loader.exec_module(wrapper)
    return wrapper


class Job:
    """The library, a communicator, and a stream, as they come into being."""


job = Job()


def load():
    job.wrapper = load_wrapper(sys.argv[1])
    job.nccl = job.wrapper.NCCLLibrary()
    job.float = job.wrapper.ncclDataTypeEnum.from_torch(torch.float32)
    job.sum = job.wrapper.ncclRedOpTypeEnum.from_torch(torch.distributed.ReduceOp.SUM)


def version():
    raw = job.nccl.ncclGetRawVersion()
    print("NCCL", job.nccl.ncclGetVersion())
    check(raw > 22700, True)  # the first with windows, which vLLM uses


def init():
    set_device(rank)
    data = share("unique-id", lambda: bytes(job.nccl.ncclGetUniqueId().internal))
    job.comm = job.nccl.ncclCommInitRank(ranks, job.nccl.unique_id_from_bytes(data), rank)
    job.stream = new_stream()


def all_reduce():
    data, result = Floats([rank, 1.0]), Floats(2)
    job.nccl.ncclAllReduce(data.address, result.address, 2, job.float, job.sum, job.comm, job.stream)
    synchronize(job.stream)
    check(result.tolist(), [sum_of_ranks, ranks])


def reduce():
    data, result = Floats([rank, 1.0]), Floats(2)
    job.nccl.ncclReduce(data.address, result.address, 2, job.float, job.sum, 0, job.comm, job.stream)
    synchronize(job.stream)
    if rank == 0:
        check(result.tolist(), [sum_of_ranks, ranks])


def broadcast():
    data = Floats([float(rank)])
    job.nccl.ncclBroadcast(data.address, data.address, 1, job.float, ranks - 1, job.comm, job.stream)
    synchronize(job.stream)
    check(data.tolist(), [ranks - 1])


def all_gather():
    data, result = Floats([float(rank)]), Floats(ranks)
    job.nccl.ncclAllGather(data.address, result.address, 1, job.float, job.comm, job.stream)
    synchronize(job.stream)
    check(result.tolist(), [float(each) for each in every])


def reduce_scatter():
    data, result = Floats([float(each) for each in every]), Floats(1)
    job.nccl.ncclReduceScatter(data.address, result.address, 1, job.float, job.sum, job.comm, job.stream)
    synchronize(job.stream)
    check(result.tolist(), [ranks * rank])


def send_and_receive():
    data, result = Floats([float(rank)]), Floats(1)
    job.nccl.ncclGroupStart()
    job.nccl.ncclSend(data.address, 1, job.float, (rank + 1) % ranks, job.comm, job.stream)
    job.nccl.ncclRecv(result.address, 1, job.float, (rank - 1) % ranks, job.comm, job.stream)
    job.nccl.ncclGroupEnd()
    synchronize(job.stream)
    check(result.tolist(), [(rank - 1) % ranks])


def refuse_a_wrong_rank():
    nowhere = ranks  # no rank has this number
    try:
        job.nccl.ncclSend(Floats([1.0]).address, 1, job.float, nowhere, job.comm, job.stream)
    except RuntimeError as error:
        check("invalid argument" in str(error) and "Last error" in str(error), True)
        return
    raise AssertionError("a send to a rank that does not exist succeeded")


def register_window():
    symmetric = 1  # NCCL_WIN_COLL_SYMMETRIC
    data = Floats(1 << 20)
    window = job.nccl.ncclCommWindowRegister(job.comm, data.address, data.bytes, symmetric)
    job.nccl.ncclCommWindowDeregister(job.comm, window)


def suspend_and_resume():
    job.nccl.ncclCommSuspend(job.comm, 1)
    job.nccl.ncclCommResume(job.comm)


def all_reduce_again():
    all_reduce()


def destroy():
    job.nccl.ncclCommDestroy(job.comm)


steps = Steps()
steps.run(load, library_is_ours, version, init, all_reduce, reduce, broadcast, all_gather, reduce_scatter,
          send_and_receive, refuse_a_wrong_rank)
steps.beyond(r"Last error: *.+", register_window, suspend_and_resume)
steps.run(all_reduce_again, destroy)
steps.end()
