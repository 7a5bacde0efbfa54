"""A program that only type checkers read (types_test.py): what the
stubs say about calls with and without a stream."""

from array import array

import numpy
import tutti
from numpy.typing import NDArray
from typing_extensions import assert_type


def train(comm: tutti.Communicator, gradient: bytearray) -> None:
    comm.all_reduce(gradient, gradient, op=tutti.Op.AVG)
    with tutti.Stream() as stream:
        work = comm.all_reduce(gradient, stream=stream)
        work.add_done_callback(lambda ended: print(ended.done()))
        work.wait(timeout=1.5)


def arrays(comm: tutti.Communicator, x: NDArray[numpy.float32], stream: tutti.Stream) -> None:
    """Calls keep the type of an array."""
    assert_type(comm.all_reduce(x, op="avg"), NDArray[numpy.float32])
    assert_type(comm.all_reduce(x, x, stream=stream), tutti.Work[NDArray[numpy.float32]])
    assert_type(comm.all_reduce(x, stream=stream).wait(), NDArray[numpy.float32])
    assert_type(comm.all_gather(x), NDArray[numpy.float32])
    assert_type(comm.reduce(x, root=1), NDArray[numpy.float32] | None)
    assert_type(comm.broadcast(x if comm.rank == 0 else None, x), NDArray[numpy.float32])
    assert_type(comm.scatter(None, x), NDArray[numpy.float32])
    assert_type(comm.all_to_all_v(x, [1, 2], [2, 1]), NDArray[numpy.float32])
    assert_type(comm.recv(x, peer=0), NDArray[numpy.float32])


class Tensor:
    """As PyTorch's: it lends its memory by DLPack alone."""

    def __dlpack__(self, *, stream: int | None = -1, max_version: tuple[int, int] | None = None) -> object: ...


class CudaStream:
    """As PyTorch's."""

    cuda_stream: int = 0


def tensors(comm: tutti.Communicator, x: Tensor) -> None:
    assert_type(comm.reduce_scatter(x, op="max"), Tensor)
    assert_type(comm.all_reduce(x, x, stream=CudaStream()), Tensor)


def buffers(comm: tutti.Communicator, x: "array[int]") -> None:
    assert_type(comm.all_gather(x), "memoryview[int]")
    assert_type(comm.all_gather(b"bytes", x), "array[int]")
    assert_type(comm.broadcast(x), "array[int]")


def objects(comm: tutti.Communicator) -> None:
    assert_type(comm.all_gather_object("a rank"), list[str])
    assert_type(comm.broadcast_object("a rank" if comm.rank == 0 else None), str)
    assert_type(comm.scatter_object([1, 2] if comm.rank == 0 else None), int)
    assert_type(comm.all_reduce_object(comm.rank, max), int)


async def wait(comm: tutti.Communicator, stream: tutti.Stream) -> None:
    assert_type(await comm.barrier(stream=stream), None)
    with tutti.group(stream) as calls:
        comm.send(b"to the right", (comm.rank + 1) % comm.size)
    if calls.work is not None:
        await calls.work


def survive(comm: tutti.Communicator) -> tutti.Communicator:
    try:
        comm.barrier()
    except tutti.RemoteError as error:
        rank: int | None = error.rank
        print(rank, error.host, error.named[0].pid, error.code is tutti.Result.REMOTE_ERROR)
        return comm.shrink(timeout=1.5)
    part: tutti.Communicator | None = comm.split(comm.rank % 2, name="half")
    return part if part is not None else comm


def wrong(comm: tutti.Communicator, stream: tutti.Stream, x: NDArray[numpy.float32]) -> None:
    # Each of these is an error of types. If one is none, the checker says that it ignores nothing.
    comm.all_reduce()  # type: ignore[call-overload]
    comm.all_reduce(x, op="summ")  # type: ignore[call-overload]
    comm.all_reduce(x, inplace=True)  # type: ignore[call-overload]
    comm.all_reduce([1, 2])  # type: ignore[call-overload]
    comm.barrier(stream="one")  # type: ignore[call-overload]
    tutti.init(timout=5)  # type: ignore[call-arg]
    comm.split(0, channels="two")  # type: ignore[arg-type]
    done: bool = comm.all_reduce(x, stream=stream)  # type: ignore[assignment]
    comm.rank = 3  # type: ignore[misc]
    print(done)
