"""Waits for a Work in an event loop of asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Generator, TypeVar

if TYPE_CHECKING:
    from ._core import Work


_T = TypeVar("_T")


def steps(work: Work[_T]) -> Generator[Any, None, _T]:
    """The steps of `await work`. If the waiting task is cancelled, the call goes on."""
    if not work.done():
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def end() -> None:
            if not ended.done():
                ended.set_result(None)

        def tell(_: Work[_T]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(end)

        work.add_done_callback(tell)
        yield from ended
    return work.wait()
