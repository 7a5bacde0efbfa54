"""Runs real processes as ranks, for the tests in this folder and those below it.

    values = ranks.run(4, body, argument, ...)     runs body(comm, argument, ...) in 4 processes

The ranks are forks of the parent, which start in milliseconds. The parent keeps no communicator open meanwhile.
"""

import multiprocessing
import os
import random
import signal
import socket
import time
import traceback

import tutti

_FORK = multiprocessing.get_context("fork")


def free_port():
    """A free port of 127.0.0.1, outside the range from which connections get theirs."""
    while True:
        port = random.SystemRandom().randrange(15000, 32000)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def environment(rank, size, port):
    """As torchrun would set it."""
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def _child(pipe, body, rank, size, port, options, arguments):
    os.environ.update(environment(rank, size, port))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    try:
        with tutti.init(init_timeout=30, **options) as comm:
            value = body(comm, *arguments)
        pipe.send(("value", value))
    except BaseException as error:
        pipe.send(("error", (error if isinstance(error, tutti.Error) else None, traceback.format_exc())))
    pipe.close()
    os._exit(0)  # skips the exit handlers, which belong to the parent


class Job:
    """Ranks that run. `processes` are theirs; `outcomes` waits for their ends."""

    def __init__(self, size, body, *arguments, **options):
        port = free_port()
        self.processes, self._pipes = [], []
        for rank in range(size):
            ours, theirs = _FORK.Pipe(duplex=False)
            process = _FORK.Process(target=_child,
                                    args=(theirs, body, rank, size, port, {"timeout": 60, **options}, arguments))
            process.start()
            theirs.close()
            self.processes.append(process)
            self._pipes.append(ours)

    def outcomes(self, patience=90):
        """For each rank ("value", what body returned), ("error", (the tutti.Error or None, a traceback)) or ("died", None)."""
        result = []
        deadline = time.monotonic() + patience
        for process, pipe in zip(self.processes, self._pipes):
            try:
                if pipe.poll(max(0, deadline - time.monotonic())):
                    result.append(pipe.recv())
                else:
                    process.kill()
                    result.append(("error", (None, f"still running after {patience} s")))
            except EOFError:
                result.append(("died", None))
            process.join()
        return result


def outcomes(size, body, *arguments, **options):
    return Job(size, body, *arguments, **options).outcomes()


def run(size, body, *arguments, **options):
    """Returns the value of each rank's body. Raises if a rank failed or died."""
    ends = outcomes(size, body, *arguments, **options)
    # Ranks that only report another rank's failure come last.
    wrong = sorted(((rank, what) for rank, (kind, what) in enumerate(ends) if kind != "value"),
                   key=lambda one: one[1] is None or isinstance(one[1][0], tutti.RemoteError))
    if wrong:
        rank, what = wrong[0]
        raise AssertionError(f"{len(wrong)} of {size} ranks failed; rank {rank}: {what[1] if what else 'died'}")
    return [value for _, value in ends]


class Signs:
    """Signs between processes by files in a folder, without a communicator."""

    def __init__(self, folder):
        self._folder = str(folder)

    def give(self, name):
        with open(os.path.join(self._folder, name), "w", encoding="ascii"):
            pass

    def has(self, name):
        return os.path.exists(os.path.join(self._folder, name))

    def wait_for(self, name):
        deadline = time.monotonic() + 60
        while not self.has(name):
            assert time.monotonic() < deadline, f"no sign: {name}"
            time.sleep(0.01)
