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


def test_scatter_of_an_iterator(alone):
    assert alone.scatter_object(iter(["mine"])) == "mine"


def broken_iterator():
    yield 0
    raise LookupError("no more")


class BadText(Exception):
    def __str__(self):
        raise ValueError("no text")


class Raises:
    """Cannot be pickled, for a reason of one's own."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        raise self.error


# What the root gives to a scatter, what it raises, and what the others are told.
WRONG = {
    "a failing iterator": (broken_iterator, LookupError, "LookupError: no more"),
    "a number": (lambda: 3, TypeError, "not iterable"),
    "a mapping": (lambda: {0: "a", 1: "b"}, tutti.InvalidArgumentError, "got a dict"),
    "nothing": (lambda: None, tutti.InvalidArgumentError, "got None"),
    "an exception without text": (lambda: [0, Raises(BadText())], BadText, "its text cannot be had"),
    "text that UTF-8 lacks": (lambda: [0, Raises(ValueError("\udc80"))], ValueError, r"ValueError: \\udc80"),
    "no memory to pickle": (lambda: [0, Raises(MemoryError())], MemoryError, "MemoryError"),
}


def scatter_of_something_wrong(comm, wrong):
    make, kind, said = WRONG[wrong]
    if comm.rank == 0:
        with pytest.raises(kind):
            comm.scatter_object(make())
    else:
        with pytest.raises(tutti.InvalidUsageError, match=f"rank 0 could not pickle its object: .*{said}"):
            comm.scatter_object()
    return comm.all_gather_object(comm.rank)  # in step again


@pytest.mark.parametrize("wrong", WRONG)
def test_the_others_learn_what_is_wrong_with_the_objects_of_a_scatter(wrong):
    assert ranks.run(2, scatter_of_something_wrong, wrong) == [[0, 1]] * 2


def leave(comm, call, interrupt):
    """Rank 0 leaves a call in the middle: by Ctrl-C while it pickles, or for want of memory for what it receives."""
    mine = comm.rank
    if comm.rank == 0 and interrupt:
        mine = Raises(KeyboardInterrupt())
    elif comm.rank == 0:
        def no_memory(size):
            raise MemoryError
        tutti._objects.bytearray = no_memory
    calls = {
        "broadcast": lambda: comm.broadcast_object(mine, root=0 if interrupt else 1),
        "all_gather": lambda: comm.all_gather_object(mine),
        "gather": lambda: comm.gather_object(mine, root=0),
        "scatter": lambda: comm.scatter_object([mine, mine] if comm.rank == (0 if interrupt else 1) else None,
                                               root=0 if interrupt else 1),
        "message": lambda: (comm.send_object(mine, 1 - comm.rank) if (comm.rank == 0) == interrupt else
                            comm.recv_object(1 - comm.rank)),
    }
    if comm.rank == 0:
        with pytest.raises(KeyboardInterrupt if interrupt else MemoryError):
            calls[call]()
    else:
        with pytest.raises(tutti.RemoteError) as caught:
            calls[call]()
            comm.recv(bytearray(1), 0)  # where this rank's part of the call was complete
        assert caught.value.rank == 0
    tutti._objects.bytearray = bytearray
    return comm.shrink().all_gather_object(comm.rank)


@pytest.mark.parametrize("call", ["broadcast", "all_gather", "gather", "scatter", "message"])
@pytest.mark.parametrize("interrupt", [True, False], ids=["Ctrl-C", "no memory"])
def test_no_rank_waits_for_one_that_left(call, interrupt):
    assert ranks.run(2, leave, call, interrupt) == [[0, 1]] * 2


@pytest.mark.parametrize("call", ["broadcast_object", "gather_object", "scatter_object", "send_object"])
def test_a_root_that_is_no_number_leaves_the_communicator(alone, call):
    with pytest.raises(TypeError):
        getattr(alone, call)([1], "root")
    alone.barrier()
