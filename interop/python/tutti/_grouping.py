"""Groups of calls."""

from __future__ import annotations

from types import TracebackType

from . import _core


class Group:
    """The calls made in a `with` block, which run together at its end (see group)."""

    work: _core.Work[None] | None = None

    def __init__(self, stream: _core.Stream | None) -> None:
        self._core = _core.Group()
        self._stream = stream

    def __enter__(self) -> Group:
        self._core.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if kind is not None:
            self._core.drop()
        else:
            self.work = self._core.end(self._stream)


def group(stream: _core.Stream | None = None) -> Group:
    """Collects the calls of a `with` block and runs them together at its end: none waits for an earlier one.

    Sends and receives in any order cannot block each other, nor can calls on several communicators of this process. The
    arrays that calls return are filled when the block has ended. With a stream the calls run there, and the group's `work`
    tells when they have ended. If the block raises, none of its calls runs. Groups may be nested; all run with the outermost.
    """
    return Group(stream)
