"""Groups, and the life of communicators: split, shrink, close."""

import os

import numpy as np
import pytest

import ranks
import tutti


def exchange(comm):
    """Every rank sends to all others before it receives: outside a group this would block."""
    got = [np.zeros(1000) for _ in range(comm.size)]
    with tutti.group():
        for peer in range(comm.size):
            comm.send(np.full(1000, 10.0 * comm.rank + peer), peer)  # the group keeps the array
            comm.recv(got[peer], peer)
    assert [float(one[0]) for one in got] == [10.0 * peer + comm.rank for peer in range(comm.size)]
    with tutti.group():
        total = comm.all_reduce(np.full(3, comm.rank + 1.0))
        with tutti.group():
            everyone = comm.all_gather(np.array([comm.rank]))
        assert not everyone.any() or comm.rank >= 0
    assert total.tolist() == [6.0] * 3 and everyone.tolist() == [0, 1, 2]
    with tutti.Stream() as stream:
        with tutti.group(stream) as group:
            total = comm.all_reduce(np.full(3, comm.rank + 1.0))
            comm.barrier()
        group.work.wait()
        assert total.tolist() == [6.0] * 3


def test_groups():
    ranks.run(3, exchange)


def test_a_group_that_raises_runs_nothing(alone):
    out = np.zeros(2)
    with pytest.raises(ZeroDivisionError):
        with tutti.group():
            alone.all_reduce(np.ones(2), out)
            1 / 0
    assert out.tolist() == [0, 0]
    assert alone.all_reduce(np.ones(2), out).tolist() == [1, 1]


def test_a_wrong_call_in_a_group(alone):
    with pytest.raises(tutti.InvalidArgumentError, match="root"):
        with tutti.group():
            alone.broadcast(np.ones(2), root=5)
            alone.barrier()
    alone.barrier()
    with pytest.raises(tutti.InvalidUsageError, match="outside groups"):
        with tutti.group():
            alone.split(0)
    with tutti.Stream() as stream, pytest.raises(tutti.InvalidUsageError, match="stream"):
        with tutti.group():
            alone.barrier(stream=stream)


def splits(comm):
    half = comm.split(comm.rank % 2, key=-comm.rank)
    assert half.size == 2 and half.rank == (0 if comm.rank >= 2 else 1)
    assert half.all_reduce(np.array([comm.rank])).tolist() == [2 if comm.rank % 2 == 0 else 4]
    assert comm.split(None if comm.rank else 0) is None or comm.rank == 0
    half.close()
    assert half.closed
    with pytest.raises(tutti.InvalidUsageError, match="closed"):
        half.barrier()
    half.close()
    comm.barrier()


def test_split():
    ranks.run(4, splits)


def shrinks(comm):
    if comm.rank == 1:
        os._exit(3)
    with pytest.raises(tutti.RemoteError) as caught:
        while True:
            comm.all_reduce(np.ones(5))
    assert caught.value.rank == 1 and caught.value.pid and caught.value.host
    with comm.shrink() as rest:
        assert rest.size == 2
        return rest.all_reduce(np.array([comm.rank])).tolist()


def test_shrink_after_a_death():
    ends = ranks.outcomes(3, shrinks)
    assert ends[1] == ("died", None)
    assert [ends[0], ends[2]] == [("value", [2])] * 2


def leaves_others_out(comm):
    if comm.rank == 2:
        return None
    rest = comm.shrink([2], abort=True)
    return rest.all_reduce(np.array([1])).tolist()


def test_shrink_without_a_living_rank():
    assert ranks.run(3, leaves_others_out) == [[2], [2], None]


def facts(comm):
    assert comm.hosts == [0, 0] and comm.device == -1
    comm.all_reduce(np.ones(3))
    assert comm.describe_last_operation().startswith("all_reduce")
    assert repr(comm) == f"<tutti.Communicator: rank {comm.rank} of 2>"


def test_facts():
    ranks.run(2, facts, name="facts")


def counts(comm):
    for _ in range(3):
        comm.all_reduce(np.ones(50_000))
    counters = comm.counters()
    assert counters["operations"] == 3 and sum(counters["operations_by_algorithm"].values()) == 3
    moved = sum(sum(by.values()) for by in counters["bytes_sent"].values())
    assert moved >= 3 * 50_000 * 8 / 2 and set(counters["bytes_sent"]) <= {"self", "shm", "direct", "cma"}
    assert set(counters["waits"]) == {"spins", "yields", "sleeps", "late", "lost_slices"}
    assert counters["waits"]["late"] == 0


def test_counters():
    ranks.run(2, counts)


def test_grow():
    """Two ranks, threads here, take a third one in."""
    import threading

    first, second = tutti.unique_id(), tutti.unique_id()
    results = [None] * 3

    def body(rank):
        if rank == 2:
            with tutti.init(2, 3, second) as comm:
                results[rank] = comm.all_reduce(np.array([rank])).tolist()
            return
        with tutti.init(rank, 2, first) as comm:
            with comm.grow(3, second if rank == 0 else None) as bigger:
                assert (bigger.rank, bigger.size) == (rank, 3)
                results[rank] = bigger.all_reduce(np.array([rank])).tolist()

    threads = [threading.Thread(target=body, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [[3]] * 3
    with tutti.init() as alone, pytest.raises(tutti.InvalidArgumentError, match="128"):
        alone.grow(2, b"short")


def test_with_aborts_after_an_exception(alone):
    with pytest.raises(KeyError):
        with alone:
            raise KeyError("x")
    assert alone.closed


def test_ranks_of_one_process():
    """Threads as ranks, by an id. The GIL is free while they wait for each other."""
    import threading

    id = tutti.unique_id()
    results = [None] * 3

    def body(rank):
        with tutti.init(rank, 3, id) as comm:
            results[rank] = comm.all_reduce(np.array([rank + 1])).tolist()

    threads = [threading.Thread(target=body, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [[6]] * 3


def test_init_takes_all_or_nothing():
    with pytest.raises(tutti.InvalidArgumentError, match="together"):
        tutti.init(0, 2)
    with pytest.raises(tutti.InvalidArgumentError, match="128"):
        tutti.init(0, 1, b"short")
    with pytest.raises(TypeError):
        tutti.init(colour="red")


def test_a_child_of_fork_makes_its_own(alone):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                alone.barrier()
            except tutti.InvalidUsageError:
                with tutti.init() as own:
                    status = 0 if own.all_reduce(np.ones(1)).tolist() == [1] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    alone.barrier()
