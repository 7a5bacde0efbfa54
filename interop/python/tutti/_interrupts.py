"""Lets Ctrl-C end a call that waits in the library.

Python runs handlers of signals between its own instructions, so not while the main thread waits in a call of the library.
A thread therefore watches for SIGINT. If Python's own handler would raise KeyboardInterrupt, and the main thread is inside
a call on a communicator, the thread revokes that communicator. The call then ends, and the handler runs.

Python tells the thread about signals through the file descriptor of signal.set_wakeup_fd. If the program uses that itself
(asyncio does while its loop has signal handlers), Ctrl-C waits until the call ends.
"""

from __future__ import annotations

import os
import signal
import threading
import weakref
from typing import Protocol


class _Interrupted(Protocol):
    """What has calls in which the main thread may wait."""

    def _interrupt(self) -> None: ...


class Watcher:
    """The watching thread of one process. It starts with the first communicator that the main thread makes."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._waiting: weakref.WeakSet[_Interrupted] = weakref.WeakSet()
        self._pipe: tuple[int, int] | None = None

    def add(self, one: _Interrupted) -> None:
        self._waiting.add(one)
        if threading.current_thread() is threading.main_thread():
            self._listen()

    def forget_all(self) -> None:
        """In a child of fork(), which has neither the thread nor the parent's communicators."""
        if self._pipe is not None:
            previous = signal.set_wakeup_fd(-1)
            if previous not in (-1, self._pipe[1]):
                signal.set_wakeup_fd(previous)
            for end in self._pipe:
                os.close(end)
        self._reset()

    def _listen(self) -> None:
        """Also when it has listened before: an event loop of asyncio that has handled signals stops that at its end."""
        readable, writable = self._pipe or os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writable, False)
        previous = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        if previous not in (-1, writable):  # the program's own
            signal.set_wakeup_fd(previous)
        if self._pipe is None:
            self._pipe = readable, writable
            threading.Thread(target=self._watch, args=(readable,), name="tutti signals", daemon=True).start()

    def _watch(self, readable: int) -> None:
        while signals := os.read(readable, 1):
            if signals[0] == signal.SIGINT and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                for one in list(self._waiting):
                    one._interrupt()


WATCHER = Watcher()
os.register_at_fork(after_in_child=WATCHER.forget_all)
