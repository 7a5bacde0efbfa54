"""Collectives of all types and operators, with awkward counts, beside NumPy."""

import ml_dtypes
import numpy as np
import pytest

import ranks

RANKS = 3
COUNTS = (0, 1, 2, 7, 1023, 65537)
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
FLOATS = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
MOVED_ONLY = (np.bool_, np.complex64, np.complex128, np.longdouble)
OPS = ("sum", "prod", "max", "min", "avg")


def sample(dtype, rank, count):
    """Numbers that every rank can compute for every other; small, so that sums are exact in each type."""
    base = (np.arange(count) * 7 + rank * 3) % 4
    return (base % 2 if dtype == np.bool_ else base).astype(dtype)


def expected(dtype, op, count):
    everything = [sample(dtype, rank, count) for rank in range(RANKS)]
    if op == "avg":
        if np.issubdtype(dtype, np.integer):
            return (sum(one.astype(np.int64) for one in everything) // RANKS).astype(dtype)
        return (sum(one.astype(np.float64) for one in everything) / RANKS).astype(dtype)
    wide = np.stack([one.astype(np.float64) for one in everything])
    return {"sum": wide.sum(0), "prod": wide.prod(0), "max": wide.max(initial=0, axis=0),
            "min": wide.min(initial=4, axis=0)}[op].astype(dtype)


def same(left, right):
    """Equal in every bit, except for the padding of a long double."""
    assert left.dtype == right.dtype and left.shape == right.shape, (left.dtype, right.dtype, left.shape, right.shape)
    equal = np.array_equal(left, right) if left.dtype == np.longdouble else left.tobytes() == right.tobytes()
    assert equal, (left, right)


def reductions(comm, dtype):
    for count in COUNTS:
        mine = sample(dtype, comm.rank, count)
        for op in OPS:
            right = expected(dtype, op, count)
            same(comm.all_reduce(mine, op=op), right)
            same(mine, sample(dtype, comm.rank, count))  # the input is unchanged
            given = np.zeros(count, dtype)
            assert comm.all_reduce(mine, given, op) is given
            same(given, right)
            place = mine.copy()
            assert comm.all_reduce(place, place, op) is place
            same(place, right)
            root = count % RANKS
            reduced = comm.reduce(mine, op=op, root=root)
            if comm.rank == root:
                same(reduced, right)
            else:
                assert reduced is None
        # Every rank's part of a longer array.
        whole = np.concatenate([sample(dtype, comm.rank + part, count) for part in range(RANKS)])
        part = sum(sample(dtype, rank + comm.rank, count).astype(np.float64) for rank in range(RANKS)).astype(dtype)
        same(comm.reduce_scatter(whole), part)
        into = whole[comm.rank * count:(comm.rank + 1) * count]
        if count:
            same(comm.reduce_scatter(whole, into), part)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=lambda dtype: np.dtype(dtype).name)
def test_reductions(dtype):
    ranks.run(RANKS, reductions, dtype)


def movements(comm, dtype):
    for count in COUNTS:
        mine = sample(dtype, comm.rank, count)
        everything = [sample(dtype, rank, count) for rank in range(RANKS)]
        joined = np.concatenate(everything)
        same(comm.all_gather(mine), joined)
        place = np.zeros(RANKS * count, dtype)
        own = place[comm.rank * count:(comm.rank + 1) * count]
        own[:] = mine
        same(comm.all_gather(own, place), joined)
        for root in range(RANKS):
            gathered = comm.gather(mine, root=root)
            if comm.rank == root:
                same(gathered, joined)
            else:
                assert gathered is None
            part = comm.scatter(joined if comm.rank == root else None,
                                None if comm.rank == root else np.zeros(count, dtype), root)
            same(part, mine)
            data = mine.copy()
            assert comm.broadcast(data, root=root) is data
            same(data, everything[root])
            data = np.zeros(count, dtype)
            same(comm.broadcast(mine if comm.rank == root else None, data, root), everything[root])
        same(comm.all_to_all(joined), np.concatenate([everything[comm.rank]] * RANKS))
        place = joined.copy()
        comm.all_to_all(place, place)
        same(place, np.concatenate([everything[comm.rank]] * RANKS))
        ring = np.zeros(count, dtype)
        after, before = (comm.rank + 1) % RANKS, (comm.rank - 1) % RANKS
        if comm.rank == 0:
            comm.send(mine, after)
            comm.recv(ring, before)
        else:
            comm.recv(ring, before)
            comm.send(mine, after)
        same(ring, everything[before])


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS + MOVED_ONLY, ids=lambda dtype: np.dtype(dtype).name)
def test_movements(dtype):
    ranks.run(RANKS, movements, dtype)


def v_forms(comm, dtype):
    counts = [5, 0, 1026]
    mine = sample(dtype, comm.rank, counts[comm.rank])
    everything = [sample(dtype, rank, counts[rank]) for rank in range(RANKS)]
    same(comm.all_gather_v(mine, counts), np.concatenate(everything))
    same(comm.all_gather_v(mine, np.array(counts)), np.concatenate(everything))
    places = [1030, 2, 3]
    spread = np.zeros(1040, dtype)
    comm.all_gather_v(mine, counts, spread, places)
    for rank, place in enumerate(places):
        same(spread[place:place + counts[rank]], everything[rank])
    own = places[comm.rank]
    in_place = np.zeros(1040, dtype)
    in_place[own:own + counts[comm.rank]] = mine
    comm.all_gather_v(in_place, counts, in_place, places)
    same(in_place, spread)
    # Rank i sends i + j elements to rank j.
    sends = [comm.rank + peer for peer in range(RANKS)]
    out = np.concatenate([sample(dtype, 10 * comm.rank + peer, sends[peer]) for peer in range(RANKS)])
    right = np.concatenate([sample(dtype, 10 * peer + comm.rank, sends[peer]) for peer in range(RANKS)])
    same(comm.all_to_all_v(out, sends, sends), right)
    backwards = [sum(sends[peer + 1:]) for peer in range(RANKS)]
    reverse = comm.all_to_all_v(out, sends, sends, recv_displacements=backwards)
    for peer in range(RANKS):
        same(reverse[backwards[peer]:backwards[peer] + sends[peer]], sample(dtype, 10 * peer + comm.rank, sends[peer]))


@pytest.mark.parametrize("dtype", (np.float32, np.int16, np.complex128, ml_dtypes.bfloat16),
                         ids=lambda dtype: np.dtype(dtype).name)
def test_v_forms(dtype):
    ranks.run(RANKS, v_forms, dtype)


def reduce_scatter_v(comm):
    counts = [3, 0, 1000]
    whole = sample(np.float32, comm.rank, sum(counts))
    start = sum(counts[:comm.rank])
    right = sum(sample(np.float32, rank, sum(counts)) for rank in range(RANKS))[start:start + counts[comm.rank]]
    same(comm.reduce_scatter_v(whole, counts), right)
    same(comm.reduce_scatter_v(whole, counts, np.zeros(counts[comm.rank], np.float32), op="sum"), right)


def test_reduce_scatter_v():
    ranks.run(RANKS, reduce_scatter_v)


def complex_and_bool(comm):
    numbers = (np.arange(5) + 1j * comm.rank).astype(np.complex64)
    same(comm.all_reduce(numbers), (3 * np.arange(5) + 3j).astype(np.complex64))
    same(comm.all_reduce(numbers, op="avg"), (np.arange(5) + 1j).astype(np.complex64))
    flags = np.array([comm.rank == 0, True, False])
    same(comm.all_reduce(flags, op="max"), np.array([True, True, False]))
    same(comm.all_reduce(flags, op="min"), np.array([False, True, False]))
    same(comm.all_reduce(flags, op="prod"), np.array([False, True, False]))


def test_complex_numbers_and_flags():
    ranks.run(RANKS, complex_and_bool)


def shapes(comm):
    block = np.full((2, 3), comm.rank, np.int32)
    assert comm.all_reduce(block).shape == (2, 3)
    assert comm.all_gather(block).shape == (2 * RANKS, 3)
    assert comm.all_gather(np.array(1.0)).shape == (RANKS,)
    assert comm.all_reduce(np.array(1.0)).shape == ()
    assert comm.reduce_scatter(np.zeros((RANKS * 2, 3))).shape == (2, 3)
    assert comm.all_to_all(np.zeros((RANKS, 3))).shape == (RANKS, 3)
    comm.barrier()


def test_shapes_of_new_arrays():
    ranks.run(RANKS, shapes)


def many_kinds(comm):
    from array import array

    mine = array("i", [comm.rank, 2])
    result = comm.all_reduce(mine)
    assert isinstance(result, memoryview) and result.format == "i" and result.tolist() == [3, 6]
    assert comm.all_gather(bytes([comm.rank])).tobytes() == b"\0\1\2"
    target = bytearray(3)
    assert comm.all_gather(memoryview(bytes([comm.rank])), target) is target
    assert target == b"\0\1\2"
    text = bytearray(b"rank%d" % comm.rank)
    comm.broadcast(b"rank0" if comm.rank == 0 else text)
    assert comm.rank == 0 or text == b"rank0"


def test_buffers_without_numpy():
    ranks.run(RANKS, many_kinds)
