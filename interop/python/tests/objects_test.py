"""Pickled objects."""

import threading

import numpy as np
import pytest

import ranks
import tutti


def objects(comm):
    thing = {"rank": comm.rank, "array": np.arange(comm.rank * 1000)}
    for root in range(comm.size):
        got = comm.broadcast_object(thing if comm.rank == root else None, root)
        assert got["rank"] == root and len(got["array"]) == root * 1000
        gathered = comm.gather_object((comm.rank, "x" * comm.rank), root)
        right = [(rank, "x" * rank) for rank in range(comm.size)]
        assert gathered == (right if comm.rank == root else None)
        things = [[rank] * rank for rank in range(comm.size)]
        assert comm.scatter_object(things if comm.rank == root else None, root) == [comm.rank] * comm.rank
    assert comm.all_gather_object(comm.rank) == list(range(comm.size))
    assert comm.all_gather_object(None) == [None] * comm.size
    assert comm.all_reduce_object([comm.rank]) == list(range(comm.size))
    assert comm.all_reduce_object(comm.rank, max) == comm.size - 1
    if comm.rank == 0:
        comm.send_object(thing, 1)
        comm.send_object(b"", 1)
    elif comm.rank == 1:
        assert comm.recv_object(0)["rank"] == 0
        assert comm.recv_object(0) == b""


@pytest.mark.parametrize("size", [1, 3])
def test_objects(size):
    if size == 1:
        with tutti.init() as comm:
            assert comm.broadcast_object("x") == "x"
            assert comm.gather_object(1) == [1] and comm.scatter_object([2]) == 2
    else:
        ranks.run(size, objects)


def unpicklable(comm, call):
    bad = threading.Lock()
    mine = bad if comm.rank == 1 else comm.rank
    calls = {
        "broadcast": lambda: comm.broadcast_object(mine, root=1),
        "all_gather": lambda: comm.all_gather_object(mine),
        "gather": lambda: comm.gather_object(mine, root=2),
        "scatter": lambda: comm.scatter_object([0, bad, 2] if comm.rank == 1 else None, root=1),
        "message": lambda: comm.send_object(mine, 0) if comm.rank == 1 else comm.recv_object(1) if comm.rank == 0 else None,
    }
    try:
        calls[call]()
        said = "nothing"
    except TypeError as error:
        said = f"TypeError: {error}"
    except tutti.InvalidUsageError as error:
        assert error.rank == 1
        said = str(error)
    # Nothing is out of step: the next call is right.
    assert comm.all_gather_object(comm.rank) == list(range(comm.size))
    return said


@pytest.mark.parametrize("call, silent", [("broadcast", ()), ("all_gather", ()), ("gather", (0,)), ("scatter", ()),
                                          ("message", (2,))])
def test_objects_that_cannot_be_pickled(call, silent):
    said = ranks.run(3, unpicklable, call)
    for rank, words in enumerate(said):
        if rank == 1:
            assert words.startswith("TypeError: cannot pickle")
        elif rank in silent:
            assert words == "nothing"
        else:
            assert words.startswith("rank 1 could not pickle its object: TypeError: cannot pickle")


def scatter_of_too_few(comm):
    with pytest.raises(tutti.InvalidArgumentError if comm.rank == 0 else tutti.InvalidUsageError, match="2 objects"):
        comm.scatter_object([1] if comm.rank == 0 else None)
    comm.barrier()


def test_scatter_of_too_few():
    ranks.run(2, scatter_of_too_few)
