"""The exceptions of the package, one for each result code of the library."""

from __future__ import annotations

import builtins
import enum
import re
from typing import NamedTuple


class Result(enum.IntEnum):
    """The library's result codes (tuttiResult_t)."""

    SUCCESS = 0
    UNHANDLED_CUDA_ERROR = 1
    SYSTEM_ERROR = 2
    INTERNAL_ERROR = 3
    INVALID_ARGUMENT = 4
    INVALID_USAGE = 5
    REMOTE_ERROR = 6
    IN_PROGRESS = 7
    TIMEOUT_ERROR = 8


# How the library names a rank in a message. A host's name may hold any character.
_RANK = re.compile(r"rank (\d+) \(host (.*?), pid (\d+)\)")
# A timeout's message begins with the rank that waited.
_AWAITED = re.compile(r"which waits for " + _RANK.pattern)
# A rank of which only the number is known.
_NUMBER = re.compile(r"rank (\d+) ")
# Here either rank may be wrong.
_MISMATCH = "the ranks' calls do not match"


class Rank(NamedTuple):
    """A rank that a message names."""

    rank: int
    host: str
    pid: int


class Error(Exception):
    """A call failed.

    code     the library's result code
    message  the sentence that says what happened
    rank     the rank at fault, if the sentence names one; None: it names none, or calls of two ranks that do not match
    host     that rank's host, or None
    pid      that rank's process, or None
    named    all ranks that the sentence names
    """

    code = Result.INTERNAL_ERROR

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.named = tuple(Rank(int(rank), host, int(pid)) for rank, host, pid in _RANK.findall(message))
        self.rank: int | None = None
        self.host: str | None = None
        self.pid: int | None = None
        if awaited := _AWAITED.search(message):
            self.rank, self.host, self.pid = int(awaited[1]), awaited[2], int(awaited[3])
        elif self.named and _MISMATCH not in message:
            self.rank, self.host, self.pid = self.named[0]
        elif numbered := _NUMBER.match(message):
            self.rank = int(numbered[1])

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[type[Error], tuple[str]]:
        return type(self), (self.message,)


class CudaError(Error):
    """A call of CUDA failed. The communicator is dead."""

    code = Result.UNHANDLED_CUDA_ERROR


class OperatingSystemError(Error):
    """The operating system refused something. The communicator is dead."""

    code = Result.SYSTEM_ERROR


class InternalError(Error):
    """A fault of the library. The communicator is dead."""

    code = Result.INTERNAL_ERROR


class InvalidArgumentError(Error, ValueError):
    """An argument is wrong on its own. Nothing was sent; the communicator lives."""

    code = Result.INVALID_ARGUMENT


class InvalidUsageError(Error):
    """The call does not fit the state, or the ranks' calls do not fit each other (the communicator is then dead)."""

    code = Result.INVALID_USAGE


class RemoteError(Error):
    """Another rank died, aborted, left or failed. The communicator is dead; shrink makes one of the ranks that live."""

    code = Result.REMOTE_ERROR


class TimeoutError(Error, builtins.TimeoutError):  # noqa: A001 the field's word
    """Nothing moved for the time allowed. The communicator is dead."""

    code = Result.TIMEOUT_ERROR


_CLASSES: dict[int, type[Error]] = {
    kind.code: kind
    for kind in (CudaError, OperatingSystemError, InternalError, InvalidArgumentError, InvalidUsageError, RemoteError,
                 TimeoutError)
}
for _kind in (Error, *_CLASSES.values()):
    _kind.__module__ = __package__  # tracebacks say tutti.RemoteError, as programs do


def of_code(code: int, message: str) -> Error:
    """The exception for a result code of the library."""
    return _CLASSES.get(code, InternalError)(message)
