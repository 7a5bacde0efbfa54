"""The class Stream."""

from __future__ import annotations

import atexit

from . import _core


class Stream(_core.Stream):
    """A thread that runs calls one after the other, in the order given. `with` closes it at the end.

    A stream that is dropped runs the calls that it has.
    """

    def __init__(self) -> None:
        super().__init__()
        _tails[:] = [tail for tail in _tails if not tail.ended] + [self._tail()]

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# The threads of this process's streams, which must not want the GIL when Python ends.
_tails: list[_core.Tail] = []


@atexit.register
def _detach() -> None:
    for tail in _tails:
        tail.detach()
