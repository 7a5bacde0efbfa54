"""How the actors of a group find each other: rank 0 gives the communicator's id to those that ask, through Ray's
key-value store.

A rank asks under a name that it makes up, so that it never takes the answer to a rank that is gone: a group may be made
again under the same name after actors died.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from typing import Iterator

import ray
from ray.experimental import internal_kv

import tutti

_NAMESPACE = b"tutti"
_POLL_SECONDS = 0.02  # of the store, which is another process
_NO_LIMIT = 0


def _folder(group_name: str) -> str:
    """Where a group's keys are. Ray's jobs share the store; a namespace is what they share on purpose."""
    return f"{ray.get_runtime_context().namespace}/{group_name.encode().hex()}/"


class _Answers(threading.Thread):
    """Answers those who ask, from now to stop()."""

    def __init__(self, folder: str, comm_id: bytes) -> None:
        super().__init__(name="tutti-ray-answers", daemon=True)
        self._folder, self._id = folder, comm_id
        self._stopped = threading.Event()
        self._given: list[str] = []

    def run(self) -> None:
        questions = self._folder + "ask/"
        while not self._stopped.wait(_POLL_SECONDS):
            for key in internal_kv._internal_kv_list(questions, namespace=_NAMESPACE):
                answer = self._folder + "answer/" + key.decode().removeprefix(questions)
                internal_kv._internal_kv_put(answer, self._id, namespace=_NAMESPACE)
                internal_kv._internal_kv_del(key, namespace=_NAMESPACE)
                self._given.append(answer)

    def stop(self) -> None:
        self._stopped.set()
        self.join()
        for answer in self._given:  # of those who died before they read theirs
            internal_kv._internal_kv_del(answer, namespace=_NAMESPACE)


def _ask(folder: str, group_name: str, init_timeout: float) -> bytes:
    name = uuid.uuid4().hex
    question, answer = folder + "ask/" + name, folder + "answer/" + name
    deadline = time.monotonic() + init_timeout
    internal_kv._internal_kv_put(question, b"", namespace=_NAMESPACE)
    try:
        while (comm_id := internal_kv._internal_kv_get(answer, namespace=_NAMESPACE)) is None:
            if init_timeout != _NO_LIMIT and time.monotonic() > deadline:
                raise tutti.TimeoutError(f"rank 0 of the group {group_name!r} has not come within {init_timeout:g} s: "
                                         "does its actor run, and does it call into the group?")
            time.sleep(_POLL_SECONDS)
    finally:
        internal_kv._internal_kv_del(question, namespace=_NAMESPACE)
        internal_kv._internal_kv_del(answer, namespace=_NAMESPACE)
    return bytes(comm_id)


@contextlib.contextmanager
def meeting(group_name: str, rank: int, init_timeout: float) -> Iterator[bytes]:
    """Gives the id with which the group's ranks join. Rank 0 stays in the block until all have joined.

    init_timeout: how long to wait for rank 0, in seconds; 0: for ever. Raises tutti.TimeoutError.
    """
    folder = _folder(group_name)
    if rank != 0:
        yield _ask(folder, group_name, init_timeout)
        return
    comm_id = tutti.unique_id()
    answers = _Answers(folder, comm_id)
    answers.start()
    try:
        yield comm_id
    finally:
        answers.stop()
