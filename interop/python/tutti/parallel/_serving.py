"""Inference by replicas of a model: a front gives each request to one of them; those with common experts keep step."""

from __future__ import annotations

import array
import time

from .. import _parallel
from .._communicator import Communicator
from .._errors import InvalidUsageError, RemoteError
from .._interrupts import WATCHER
from ._state import current

_PAUSE = 50e-6  # seconds between polls of a front that has nothing else to do


class ReplicaError(RemoteError):
    """A replica is gone.

    replica      its place in router.replicas
    outstanding  the ids of the requests that it has not answered, which submit() may give to the others
    """

    def __init__(self, message: str, replica: int, outstanding: list[int]) -> None:
        super().__init__(message)
        self.replica, self.outstanding = replica, outstanding

    def __reduce__(self) -> tuple[type[ReplicaError], tuple[str, int, list[int]]]:  # type: ignore[override]
        return type(self), (self.message, self.replica, self.outstanding)


def _meet(comm: Communicator, replica: int | None) -> tuple[int, list[list[int]]]:
    """The front, and the ranks of each replica. replica: this rank's; None: it is the front."""
    of_ranks: list[int | None] = comm.all_gather_object(replica)
    fronts = [rank for rank, number in enumerate(of_ranks) if number is None]
    if len(fronts) != 1:
        raise InvalidUsageError(f"{len(fronts)} ranks make a ReplicaRouter, and the others a Replica: one rank must be the "
                                "front")
    numbers = sorted(number for number in set(of_ranks) if number is not None)
    return fronts[0], [[rank for rank, number in enumerate(of_ranks) if number == one] for one in numbers]


class _Interruptible:
    """Ctrl-C ends its calls."""

    def _interrupt(self) -> None:
        _parallel.interrupt()


class ReplicaRouter(_parallel.ReplicaRouter, _Interruptible):
    """The front's side: gives each request to one of the replicas, and takes their replies in whatever order they come.

        router = ReplicaRouter(comm)                      the rank that is in no replica; the others make a Replica
        number = router.submit(prompt, cost=tokens)       bytes, without a meaning here
        reply = router.wait()                             or poll(), which does not wait: reply.id, .bytes, .replica: its place in router.replicas
        router.stop()

    comm: of the front and all ranks of the replicas; self.replicas has the ranks of each. policy: "least_outstanding", to
    the replica with the least cost under way, or "round_robin".
    """

    def __init__(self, comm: Communicator, *, policy: str = "least_outstanding") -> None:
        front, self.replicas = _meet(comm, None)
        WATCHER.add(self)
        super().__init__(comm, front, self.replicas, policy)

    def wait(self) -> _parallel.Reply:
        """The next reply. Raises InvalidUsageError if none is outstanding, and as poll()."""
        while True:
            if self.outstanding == 0:
                raise InvalidUsageError("wait() was called while 0 requests are outstanding: submit() one first")
            reply = self.poll()
            if reply is not None:
                return reply
            time.sleep(_PAUSE)


class Replica(_parallel.Replica, _Interruptible):
    """A replica's side, on each of its ranks, which may have several requests under way.

        replica = Replica(comm)                           comm: the ReplicaRouter's
        while not replica.stopped:
            request = replica.poll()                      None: none has come; else request.id, .bytes
            ...
            replica.reply(request.id, text)

    number: the replica's; None: that of current(), whose replicas are its data-parallel ones.
    """

    def __init__(self, comm: Communicator, *, number: int | None = None) -> None:
        front, replicas = _meet(comm, current().data.rank if number is None else number)
        WATCHER.add(self)
        super().__init__(comm, front, replicas)


def any_replica_has_work(has_work: bool) -> bool:
    """Whether this replica, or one that shares experts with it, has work.

    Tokens travel to their experts only if all ranks that share them make a pass. So ask before each pass: a replica
    without work then makes one without tokens while another works. All of the replicas' ranks call it, equally often. Where
    no replica shares experts with this one, it returns has_work, and no rank waits for another.
    """
    parallel = current()
    if not parallel.experts_join_replicas:
        return has_work
    flag = array.array("i", [has_work])
    parallel.expert.all_reduce(flag, flag, "max")
    return bool(flag[0])
