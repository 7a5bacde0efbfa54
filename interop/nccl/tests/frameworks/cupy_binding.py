"""CuPy's NCCL binding, from its wheel, on memory of the fake GPU.

CuPy's arrays need NVIDIA's runtime, which is part of its wheel and does not work on the fake GPU's driver. So the calls
get addresses of memory that the fake GPU's own runtime gave.
"""
import cupy
from cupy.cuda import nccl

from device_memory import Floats, new_stream, set_device, share, synchronize
from steps import Steps, check, library_is_ours, rank_and_ranks

rank, ranks = rank_and_ranks()
every = range(ranks)
sum_of_ranks = float(sum(every))


class Job:
    """The communicator and a stream, as they come into being."""


job = Job()


def load():
    check(nccl.available, True)
    print("NCCL", nccl.get_version(), "built with", nccl.get_build_version())


def init():
    set_device(rank)
    job.comm = nccl.NcclCommunicator(ranks, share("unique-id", nccl.get_unique_id), rank)
    job.stream = new_stream()
    check((job.comm.rank_id(), job.comm.size(), job.comm.device_id()), (rank, ranks, rank))


def all_reduce():
    data, result = Floats([rank, 1.0]), Floats(2)
    job.comm.allReduce(data.address, result.address, 2, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, job.stream)
    synchronize(job.stream)
    check(result.tolist(), [sum_of_ranks, ranks])


def broadcast_and_reduce():
    data, result = Floats([float(rank)]), Floats(1)
    job.comm.bcast(data.address, 1, nccl.NCCL_FLOAT32, ranks - 1, job.stream)
    job.comm.broadcast(data.address, data.address, 1, nccl.NCCL_FLOAT32, ranks - 1, job.stream)
    job.comm.reduce(data.address, result.address, 1, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, 0, job.stream)
    synchronize(job.stream)
    check(data.tolist(), [ranks - 1])
    if rank == 0:
        check(result.tolist(), [ranks * (ranks - 1)])


def all_gather_and_reduce_scatter():
    data, gathered, scattered = Floats([float(rank)]), Floats(ranks), Floats(1)
    job.comm.allGather(data.address, gathered.address, 1, nccl.NCCL_FLOAT32, job.stream)
    job.comm.reduceScatter(gathered.address, scattered.address, 1, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, job.stream)
    synchronize(job.stream)
    check(gathered.tolist(), [float(each) for each in every])
    check(scattered.tolist(), [ranks * rank])


def send_and_receive():
    data, result = Floats([float(rank)]), Floats(1)
    nccl.groupStart()
    job.comm.send(data.address, 1, nccl.NCCL_FLOAT32, (rank + 1) % ranks, job.stream)
    job.comm.recv(result.address, 1, nccl.NCCL_FLOAT32, (rank - 1) % ranks, job.stream)
    nccl.groupEnd()
    synchronize(job.stream)
    check(result.tolist(), [(rank - 1) % ranks])


def split():
    # Two colours, so that each half is a communicator; its ranks are in the other order.
    half = job.comm.commSplit(rank % 2, -rank)
    check(half.size(), len([each for each in every if each % 2 == rank % 2]))
    data = Floats([float(rank)])
    half.allReduce(data.address, data.address, 1, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, job.stream)
    synchronize(job.stream)
    check(data.tolist(), [float(sum(each for each in every if each % 2 == rank % 2))])
    half.destroy()


def all_ranks_in_one_process():
    # Each rank of the test has its own two communicators.
    comms = nccl.NcclCommunicator.initAll(2)
    streams, data = [], []
    for device in range(2):
        set_device(device)
        streams.append(new_stream())
        data.append(Floats([device + 1.0]))
    nccl.groupStart()
    for comm, values, stream in zip(comms, data, streams):
        set_device(comm.device_id())
        comm.allReduce(values.address, values.address, 1, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream)
    nccl.groupEnd()
    for values, stream in zip(data, streams):
        synchronize(stream)
        check(values.tolist(), [3.0])
    for comm in comms:
        comm.destroy()
    set_device(rank)


def refuse_no_memory():
    try:
        job.comm.allReduce(0, 0, 1, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, job.stream)
    except nccl.NcclError as error:
        check("NCCL_ERROR_INVALID_ARGUMENT" in str(error), True)
        return
    raise AssertionError("an all_reduce of no memory succeeded")


def asynchronous_error():
    job.comm.check_async_error()


def array():
    cupy.zeros(4)


def destroy():
    job.comm.destroy()


steps = Steps()
steps.run(load, library_is_ours, init, all_reduce, broadcast_and_reduce, all_gather_and_reduce_scatter,
          send_and_receive, split, all_ranks_in_one_process, refuse_no_memory, asynchronous_error)
steps.beyond(r"CUDARuntimeError: cudaError\w+", array)
steps.run(destroy)
steps.end()
