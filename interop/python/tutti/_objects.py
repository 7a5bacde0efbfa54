"""Collectives of Python objects, which travel pickled.

Unpickling runs what the sender's pickle says, so the ranks must trust each other. If an object cannot be pickled on one
rank, that rank raises what pickle raised, and every rank that waits for it raises InvalidUsageError and names the rank.
"""

from __future__ import annotations

import functools
import operator
import pickle
from array import array
from typing import TYPE_CHECKING, Any, Callable, Sequence

from ._errors import InvalidArgumentError, InvalidUsageError

if TYPE_CHECKING:
    from ._communicator import Communicator

# The header of an object: its size in bytes, and whether pickling failed; then the bytes are the reason, in UTF-8.
_HEADER = "q"
_WELL, _FAILED = 0, 1


class _Parcel:
    """An object, pickled, or the reason why it cannot be."""

    def __init__(self, thing: Any) -> None:
        self.error: BaseException | None = None
        try:
            self.bytes = pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # pickle raises many kinds, and objects their own
            self.error = error
            self.bytes = f"{type(error).__name__}: {error}".encode()

    @property
    def header(self) -> array[int]:
        return array(_HEADER, (len(self.bytes), _WELL if self.error is None else _FAILED))


def _opened(sender: int, failed: int, data: bytes | bytearray | memoryview) -> Any:
    if failed:
        raise InvalidUsageError(f"rank {sender} could not pickle its object: {bytes(data).decode(errors='replace')}")
    return pickle.loads(data)


def _no_header() -> array[int]:
    return array(_HEADER, (0, 0))


def broadcast_object(comm: Communicator, thing: Any, root: int) -> Any:
    if comm.rank == root:
        parcel = _Parcel(thing)
        comm.broadcast(parcel.header, root=root)
        comm.broadcast(parcel.bytes, root=root)
        if parcel.error is not None:
            raise parcel.error
        return thing
    size, failed = comm.broadcast(_no_header(), root=root)
    return _opened(root, failed, comm.broadcast(bytearray(size), root=root))


def _all_headers(comm: Communicator, parcel: _Parcel) -> list[tuple[int, int]]:
    headers = comm.all_gather(parcel.header, array(_HEADER, bytes(2 * 8 * comm.size)))
    return list(zip(headers[::2], headers[1::2]))


def _all_opened(headers: Sequence[tuple[int, int]], parts: Sequence[Any], own: int, parcel: _Parcel) -> list[Any]:
    if parcel.error is not None:
        raise parcel.error
    for rank, ((_, failed), part) in enumerate(zip(headers, parts)):
        if failed:
            _opened(rank, failed, part)
    return [_opened(rank, failed, part) for rank, ((_, failed), part) in enumerate(zip(headers, parts))]


def all_gather_object(comm: Communicator, thing: Any) -> list[Any]:
    parcel = _Parcel(thing)
    headers = _all_headers(comm, parcel)
    counts = [size for size, _ in headers]
    gathered = memoryview(bytearray(sum(counts)))
    comm.all_gather_v(parcel.bytes, counts, gathered)
    parts, start = [], 0
    for count in counts:
        parts.append(gathered[start:start + count])
        start += count
    return _all_opened(headers, parts, comm.rank, parcel)


def gather_object(comm: Communicator, thing: Any, root: int) -> list[Any] | None:
    from . import group

    parcel = _Parcel(thing)
    headers = _all_headers(comm, parcel)
    parts: list[Any] = [bytearray(size) for size, _ in headers]
    with group():
        if comm.rank != root:
            comm.send(parcel.bytes, root)
        else:
            parts[root] = parcel.bytes
            for rank in range(comm.size):
                if rank != root:
                    comm.recv(parts[rank], rank)
    if comm.rank == root:
        return _all_opened(headers, parts, comm.rank, parcel)
    if parcel.error is not None:
        raise parcel.error
    return None


def scatter_object(comm: Communicator, things: Sequence[Any] | None, root: int) -> Any:
    from . import group

    headers = array(_HEADER, bytes(2 * 8 * comm.size))
    if comm.rank != root:
        comm.broadcast(headers, root=root)
        size, failed = headers[2 * comm.rank], headers[2 * comm.rank + 1]
        return _opened(root, failed, comm.recv(bytearray(size), root))
    error: BaseException | None
    if things is None or len(things) != comm.size:
        error = InvalidArgumentError(f"scatter_object takes a list of {comm.size} objects on the root, one for each "
                                     f"rank, and got {'None' if things is None else len(things)}")
        parcels = [_Parcel(None)] * comm.size
    else:
        parcels = [_Parcel(thing) for thing in things]
        error = next((parcel.error for parcel in parcels if parcel.error is not None), None)
    if error is not None:  # all ranks fail, not only those whose object could not be pickled
        reason = f"{type(error).__name__}: {error}".encode()
        for parcel in parcels:
            parcel.error, parcel.bytes = error, reason
    for rank, parcel in enumerate(parcels):
        headers[2 * rank:2 * rank + 2] = parcel.header
    comm.broadcast(headers, root=root)
    with group():
        for rank, parcel in enumerate(parcels):
            if rank != root:
                comm.send(parcel.bytes, rank)
    if error is not None:
        raise error
    return things[root]  # type: ignore[index]


def send_object(comm: Communicator, thing: Any, peer: int) -> None:
    parcel = _Parcel(thing)
    comm.send(parcel.header, peer)
    comm.send(parcel.bytes, peer)
    if parcel.error is not None:
        raise parcel.error


def recv_object(comm: Communicator, peer: int) -> Any:
    size, failed = comm.recv(_no_header(), peer)
    return _opened(peer, failed, comm.recv(bytearray(size), peer))


def all_reduce_object(comm: Communicator, thing: Any, op: Callable[[Any, Any], Any] = operator.add) -> Any:
    return functools.reduce(op, all_gather_object(comm, thing))
