"""Detects whether the machine stood still during a trial."""

import threading
import time

NAP_SECONDS = 0.02


class Standstill:
    """A context that measures how late a sleeping thread wakes up, because the machine did not run its process."""

    def __init__(self):
        self.longest_ms = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def _measure(self):
        before = time.monotonic()
        while not self._end.wait(NAP_SECONDS):
            now = time.monotonic()
            self.longest_ms = max(self.longest_ms, 1000 * (now - before - NAP_SECONDS))
            before = now

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
