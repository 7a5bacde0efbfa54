"""Collectives of Python objects, which travel pickled.

Unpickling runs what the sender's pickle says, so the ranks must trust each other. If an object cannot be pickled on one
rank, that rank raises what pickle raised, and every rank that waits for it raises InvalidUsageError and names the rank.
A rank that cannot even say that (Ctrl-C, no memory) revokes the communicator. So no rank waits for one that has left.
"""

from __future__ import annotations

import functools
import operator
import pickle
from array import array
from collections.abc import Mapping, Set
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence, TypeVar, cast

from ._errors import Error, InvalidArgumentError, InvalidUsageError

if TYPE_CHECKING:
    from ._communicator import Communicator

_T = TypeVar("_T")

# The header of an object: its size in bytes, and whether pickling failed; then the bytes are the reason, in UTF-8.
_HEADER = "q"
_WELL, _FAILED = 0, 1


class _Together:
    """The steps of a call that the ranks take together. A rank that leaves between two of them revokes the communicator."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        # After an error of the library the communicator is dead, or nothing was sent.
        if kind is not None and not issubclass(kind, Error):
            try:
                self._comm.revoke()
            except Error:  # it is dead already
                pass


def _reason(error: Exception) -> bytes:
    try:
        text = str(error)
    except Exception as worse:  # an exception of the program may raise even here
        text = f"its text cannot be had: {type(worse).__name__}"
    return f"{type(error).__name__}: {text}".encode(errors="backslashreplace")


class _Parcel:
    """An object, pickled, or the reason why it cannot be."""

    def __init__(self, thing: Any) -> None:
        self.error: Exception | None = None
        try:
            self.bytes = pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # pickle raises many kinds, and objects their own
            self.fail(error)

    def fail(self, error: Exception) -> None:
        self.error, self.bytes = error, _reason(error)

    @property
    def header(self) -> array[int]:
        return array(_HEADER, (len(self.bytes), _WELL if self.error is None else _FAILED))


def _opened(sender: int, failed: int, data: bytes | bytearray | memoryview) -> Any:
    if failed:
        raise InvalidUsageError(f"rank {sender} could not pickle its object: {bytes(data).decode(errors='replace')}")
    return pickle.loads(data)


def _no_header() -> array[int]:
    return array(_HEADER, (0, 0))


def broadcast_object(comm: Communicator, thing: _T | None, root: int) -> _T:
    root = operator.index(root)
    with _Together(comm):
        if comm.rank == root:
            parcel = _Parcel(thing)
            comm.broadcast(parcel.header, root=root)
            comm.broadcast(parcel.bytes, root=root)
        else:
            size, failed = comm.broadcast(_no_header(), root=root)
            data = comm.broadcast(bytearray(size), root=root)
    if comm.rank != root:
        return cast(_T, _opened(root, failed, data))
    if parcel.error is not None:
        raise parcel.error
    return cast(_T, thing)


def _all_headers(comm: Communicator, parcel: _Parcel) -> list[tuple[int, int]]:
    headers = comm.all_gather(parcel.header, array(_HEADER, bytes(2 * 8 * comm.size)))
    return list(zip(headers[::2], headers[1::2]))


def _all_opened(headers: Sequence[tuple[int, int]], parts: Sequence[Any], parcel: _Parcel) -> list[Any]:
    if parcel.error is not None:
        raise parcel.error
    for rank, ((_, failed), part) in enumerate(zip(headers, parts)):
        if failed:
            _opened(rank, failed, part)
    return [_opened(rank, failed, part) for rank, ((_, failed), part) in enumerate(zip(headers, parts))]


def all_gather_object(comm: Communicator, thing: _T) -> list[_T]:
    with _Together(comm):
        parcel = _Parcel(thing)
        headers = _all_headers(comm, parcel)
        counts = [size for size, _ in headers]
        gathered = memoryview(bytearray(sum(counts)))
        comm.all_gather_v(parcel.bytes, counts, gathered)
    parts, start = [], 0
    for count in counts:
        parts.append(gathered[start:start + count])
        start += count
    return _all_opened(headers, parts, parcel)


def gather_object(comm: Communicator, thing: _T, root: int) -> list[_T] | None:
    from . import group

    root = operator.index(root)
    with _Together(comm):
        parcel = _Parcel(thing)
        headers = _all_headers(comm, parcel)
        parts: list[Any] = []
        with group():
            if comm.rank != root:
                comm.send(parcel.bytes, root)
            else:
                parts = [bytearray(size) for size, _ in headers]
                parts[root] = parcel.bytes
                for rank in range(comm.size):
                    if rank != root:
                        comm.recv(parts[rank], rank)
    if comm.rank == root:
        return _all_opened(headers, parts, parcel)
    if parcel.error is not None:
        raise parcel.error
    return None


def _one_each(things: Iterable[Any] | None, size: int) -> list[Any]:
    """The root's objects, rank by rank. Raises whatever the program's iterator raises, too."""
    if things is None or isinstance(things, (Mapping, Set)):  # these have no order of ranks
        got = "None" if things is None else f"a {type(things).__name__}"
    else:
        listed = list(things)
        if len(listed) == size:
            return listed
        got = str(len(listed))
    raise InvalidArgumentError(f"scatter_object takes a list of {size} objects on the root, one for each rank, and got {got}")


def _parcels(things: Iterable[Any] | None, size: int) -> tuple[list[Any], list[_Parcel]]:
    """What the root keeps of its objects, by rank, and their parcels: if one fails, all do, and so do all ranks."""
    error: Exception | None = None
    try:
        listed = _one_each(things, size)
    except Exception as failure:
        listed, error = [None] * size, failure
    parcels = [_Parcel(thing) for thing in listed]
    error = error or next((parcel.error for parcel in parcels if parcel.error is not None), None)
    if error is not None:
        for parcel in parcels:
            parcel.fail(error)
    return listed, parcels


def scatter_object(comm: Communicator, things: Iterable[_T] | None, root: int) -> _T:
    from . import group

    root = operator.index(root)
    with _Together(comm):
        headers = array(_HEADER, bytes(2 * 8 * comm.size))
        if comm.rank != root:
            comm.broadcast(headers, root=root)
            size, failed = headers[2 * comm.rank], headers[2 * comm.rank + 1]
            data = comm.recv(bytearray(size), root)
        else:
            listed, parcels = _parcels(things, comm.size)
            for rank, parcel in enumerate(parcels):
                headers[2 * rank:2 * rank + 2] = parcel.header
            comm.broadcast(headers, root=root)
            with group():
                for rank, parcel in enumerate(parcels):
                    if rank != root:
                        comm.send(parcel.bytes, rank)
    if comm.rank != root:
        return cast(_T, _opened(root, failed, data))
    if (error := parcels[root].error) is not None:
        raise error
    return cast(_T, listed[root])


def send_object(comm: Communicator, thing: Any, peer: int) -> None:
    peer = operator.index(peer)
    with _Together(comm):
        parcel = _Parcel(thing)
        comm.send(parcel.header, peer)
        comm.send(parcel.bytes, peer)
    if parcel.error is not None:
        raise parcel.error


def recv_object(comm: Communicator, peer: int) -> Any:
    peer = operator.index(peer)
    with _Together(comm):
        size, failed = comm.recv(_no_header(), peer)
        data = comm.recv(bytearray(size), peer)
    return _opened(peer, failed, data)


def all_reduce_object(comm: Communicator, thing: _T, op: Callable[[_T, _T], _T] = operator.add) -> _T:
    return functools.reduce(op, all_gather_object(comm, thing))
