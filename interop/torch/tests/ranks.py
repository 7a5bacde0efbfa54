"""Runs real processes as ranks, for the tests in this folder.

    values = ranks.run(4, body, argument, ...)     runs body(rank, argument, ...) in 4 processes, in a group on tutti

The parent creates no group, no tensor and no thread, so its forks behave like new processes but start in milliseconds.
"""

import faulthandler
import multiprocessing
import os
import random
import socket
import sys
import tempfile
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

import tutti_torch  # noqa: F401

FORK = multiprocessing.get_context("fork")


def free_port():
    """A free port of 127.0.0.1, outside the range from which connections get their ports (ip_local_port_range)."""
    while True:
        port = random.SystemRandom().randrange(15000, 32000)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Signs:
    """Signals between ranks by files, without the group. The parent creates the object."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()

    def give(self, name):
        open(os.path.join(self.folder.name, str(name)), "w").close()

    def wait_for(self, *names):
        deadline = time.monotonic() + 60
        for name in names:
            while not os.path.exists(os.path.join(self.folder.name, str(name))):
                assert time.monotonic() < deadline, f"no sign: {name}"
                time.sleep(0.01)


class Outcome:
    """The outcome of a rank: the `value` that its body returned, the traceback of its `error`, or `died`."""

    def __init__(self, value=None, error=None, died=False):
        self.value, self.error, self.died = value, error, died


def _child(pipe, body, rank, ranks, file, backend, timeout, arguments):
    faulthandler.enable()
    torch.set_num_threads(1)
    try:
        if backend is not None:
            dist.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=ranks,
                                    timeout=timedelta(seconds=timeout))
        value = body(rank, *arguments)
        if dist.is_initialized():
            dist.destroy_process_group()
        pipe.send(("value", value))
    except BaseException:
        pipe.send(("error", traceback.format_exc()))
    pipe.close()
    sys.stdout.flush()
    os._exit(0)  # skips the exit handlers, which belong to the parent


def outcomes(ranks, body, *arguments, backend="tutti", timeout=60, patience=90):
    """Returns one Outcome per rank. `timeout` is the group's. Ranks that still run after `patience` s are killed."""
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(ranks):
            ours, theirs = FORK.Pipe(duplex=False)
            child = FORK.Process(target=_child, args=(theirs, body, rank, ranks, os.path.join(folder, "store"), backend,
                                                      timeout, arguments))
            child.start()
            theirs.close()
            children.append((child, ours))
        result = []
        for child, pipe in children:
            try:
                if not pipe.poll(patience):
                    child.kill()
                    result.append(Outcome(error=f"still running after {patience} s"))
                    continue
                kind, what = pipe.recv()
                result.append(Outcome(**{kind: what}))
            except EOFError:
                result.append(Outcome(died=True))
            finally:
                child.join(10)
                if child.is_alive():
                    child.kill()
        return result


def run(ranks, body, *arguments, **options):
    """Returns the value of each rank's body. Raises if a rank failed or died."""
    result = outcomes(ranks, body, *arguments, **options)
    wrong = [(rank, outcome.error or "died") for rank, outcome in enumerate(result) if outcome.error or outcome.died]
    # Ranks that only report another rank's failure come last.
    wrong.sort(key=lambda one: "DistBackendError" in one[1] or one[1] == "died")
    if wrong:
        raise AssertionError(f"{len(wrong)} of {ranks} ranks failed; rank {wrong[0][0]}: {wrong[0][1]}")
    return [outcome.value for outcome in result]
