"""The class Communicator, and the functions that make the first one."""

from __future__ import annotations

import itertools
import operator
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterable, TypeVar

from . import _core, _objects
from ._errors import InvalidArgumentError
from ._interrupts import WATCHER
from ._options import Options, config, mistyped, unique, whole

if TYPE_CHECKING:
    from typing_extensions import Unpack

_T = TypeVar("_T")

_NO_COLOR = -1  # TUTTI_SPLIT_NOCOLOR
_MEETINGS_OF_TORCH = itertools.count()  # all ranks count alike


class Communicator(_core.Communicator):
    """The ranks of a job, or some of them, as one rank sees them. Made by init, split and shrink.

    Every rank calls the same collectives in the same order. A call takes arrays of contiguous memory of one type, in host
    memory or on a CUDA device; all ranks pass as many elements of the same type. `stream=` queues the call and returns a
    Work.

    Types: reductions take integers of 8, 16, 32 and 64 bits, float16, bfloat16, float32, float64, float8_e4m3fn and
    float8_e5m2; sum and avg also complex, prod, max and min also bool. The other calls take every plain number.

    Shapes: only the number of elements matters. `recv=None` makes an array of NumPy, PyTorch or CuPy, as send is one;
    for other objects a memoryview.

    Errors of every call: InvalidArgumentError, a ValueError, and TypeError for what is wrong here, such as an array that
    is not contiguous, has the wrong number of elements or overlaps the other, or a root that is no rank; nothing was
    sent. InvalidUsageError if the communicator is closed, or the ranks' calls do not match; RemoteError if another rank
    died, aborted, left or failed; TimeoutError if nothing moved for the time allowed. After these three, but not after a
    call on a closed communicator, it is dead.

    `with` closes the communicator at the end, or aborts it if an exception comes through.
    """

    def __init__(self) -> None:
        super().__init__()
        WATCHER.add(self)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __repr__(self) -> str:
        return f"<tutti.Communicator: {'closed' if self.closed else f'rank {self.rank} of {self.size}'}>"

    def split(self, color: int | None, key: int = 0, **options: Unpack[Options]) -> Communicator | None:
        """Makes a communicator of the ranks with the same color (>= 0), ordered by key, then by rank.

        All ranks call it. None as color: takes part, and returns None. The options are those of init; without them the
        new communicator has this one's.
        """
        if color is None:
            color = _NO_COLOR
        elif whole("split", "color", color) < 0:
            raise InvalidArgumentError(f"split(): color is {color}, but takes 0 and more, or None")
        child = Communicator()
        return child if child._split_from(self, int(color), whole("split", "key", key), config("split", options)) else None

    def shrink(self, exclude: Iterable[int] = (), *, abort: bool = False, **options: Unpack[Options]) -> Communicator:
        """Makes a communicator of the ranks that live, except those in exclude, in the order of their old ranks.

        All of them call it, with the same exclude. This communicator may have failed; it must still be closed. abort: ends
        what runs on it first.
        """
        if not isinstance(abort, bool):
            raise mistyped("shrink", "abort", abort, "True or False")
        leaving = [whole("shrink", "a rank of exclude", rank) for rank in exclude]
        if strangers := [rank for rank in leaving if not 0 <= rank < self.size]:
            raise InvalidArgumentError(f"shrink(): exclude has rank {strangers[0]}; the ranks are 0 to {self.size - 1}")
        if len(leaving) >= self.size:
            raise InvalidArgumentError(f"shrink(): exclude has {len(leaving)} of {self.size} ranks, but at least one must stay")
        child = Communicator()
        child._shrink_from(self, leaving, abort, config("shrink", options))
        return child

    def grow(self, size: int, id: bytes | None = None, **options: Unpack[Options]) -> Communicator:
        """Makes a communicator of size ranks: those of this one, which keep their numbers, and new ones.

        All ranks call it. One of them passes the id that it got from unique_id() and has given to the new ranks, which
        call init(rank, size, id). The options are those of init; without them the new communicator has this one's.
        """
        child = Communicator()
        given = None if id is None else unique("grow", id)
        child._grow_from(self, whole("grow", "size", size), given, config("grow", options))
        return child

    def broadcast_object(self, obj: _T | None = None, root: int = 0) -> _T:
        """Returns root's object on every rank."""
        return _objects.broadcast_object(self, obj, root)

    def all_gather_object(self, obj: _T) -> list[_T]:
        """Returns the objects of all ranks, rank by rank, on every rank."""
        return _objects.all_gather_object(self, obj)

    def gather_object(self, obj: _T, root: int = 0) -> list[_T] | None:
        """Returns the objects of all ranks, rank by rank, on root; None elsewhere."""
        return _objects.gather_object(self, obj, root)

    def scatter_object(self, objs: Iterable[_T] | None = None, root: int = 0) -> _T:
        """Returns the r-th of root's objects on rank r. objs: one for each rank, on root only."""
        return _objects.scatter_object(self, objs, root)

    def send_object(self, obj: object, peer: int) -> None:
        """Sends an object to rank peer."""
        _objects.send_object(self, obj, peer)

    def recv_object(self, peer: int) -> Any:
        """Returns the object that rank peer sends."""
        return _objects.recv_object(self, peer)

    def all_reduce_object(self, obj: _T, op: Callable[[_T, _T], _T] = operator.add) -> _T:
        """Returns op(... op(op(rank 0's, rank 1's), rank 2's) ...) on every rank, which computes it itself."""
        return _objects.all_reduce_object(self, obj, op)


def _from_torch() -> tuple[int | None, int | None, bytes | None]:
    """Rank, size and id where torch.distributed has joined the job already, else None each. Its store may have MASTER_PORT,
    so the ranks do not meet there."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None, None, None
    rank = distributed.get_rank()
    # Not by a broadcast of objects, which needs a NumPy that fits PyTorch, and a device where the group takes no host memory.
    store = distributed.distributed_c10d._get_default_store()
    key = f"tutti/id/{next(_MEETINGS_OF_TORCH)}"
    if rank == 0:
        store.set(key, _core.unique_id())
    return rank, distributed.get_world_size(), store.get(key)


def init(rank: int | None = None, size: int | None = None, id: bytes | None = None, **options: Unpack[Options]) -> Communicator:
    """Joins the job and returns its communicator, once all ranks have come.

    Without arguments: rank, size and meeting place come from the launcher's variables: torchrun's (RANK, WORLD_SIZE,
    MASTER_ADDR, MASTER_PORT), srun's or mpirun's. After torch.distributed's init_process_group they are those of its
    default group, all of whose ranks call init. Without a launcher it is a job of one rank. With arguments: rank of size, and
    the id that one rank got from unique_id() and passed to the others.

    Options, which override the TUTTI_* settings: name, for messages; algorithm; channels; threads; deterministic; device,
    the CUDA device, -1 for host memory only; init_timeout, how long to wait for all ranks, and timeout, how long a call
    may make no progress, in seconds, 0 for ever.

    Raises TimeoutError if not all ranks come, InvalidUsageError if the ranks or variables do not fit.
    """
    wanted = config("init", options)
    communicator = Communicator()
    if (rank, size, id) == (None, None, None):
        rank, size, id = _from_torch()
    if (rank, size, id) == (None, None, None):
        communicator._join_environment(wanted)
    elif rank is None or size is None or id is None:
        raise InvalidArgumentError("init takes rank, size and id together, or none of them")
    else:
        communicator._join(whole("init", "size", size), unique("init", id), whole("init", "rank", rank), wanted)
    return communicator
