"""A program that only type checkers read (`mypy --strict typed_example.py`): what the
stubs say about calls with and without a stream."""

import tutti


def train(comm: tutti.Communicator, gradient: bytearray) -> None:
    comm.all_reduce(gradient, gradient, op=tutti.Op.AVG)
    names: list[str] = comm.all_gather_object("a rank")
    print(names)
    with tutti.Stream() as stream:
        work: tutti.Work = comm.all_reduce(gradient, stream=stream)
        work.add_done_callback(lambda ended: print(ended.done()))
        work.wait(timeout=1.5)


async def wait(comm: tutti.Communicator, stream: tutti.Stream) -> None:
    await comm.barrier(stream=stream)
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
        return comm.shrink()
    part: tutti.Communicator | None = comm.split(comm.rank % 2)
    return part if part is not None else comm


def wrong(comm: tutti.Communicator, stream: tutti.Stream) -> None:
    # Each of these is an error of types. If one is none, `warn_unused_ignores` of --strict says so.
    comm.all_reduce()  # type: ignore[call-overload]
    comm.barrier(stream="one")  # type: ignore[call-overload]
    done: bool = comm.all_reduce(b"", stream=stream)  # type: ignore[assignment]
    comm.rank = 3  # type: ignore[misc]
    print(done)
