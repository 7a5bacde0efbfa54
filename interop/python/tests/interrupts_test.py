"""Ctrl-C while a rank waits."""

import os
import signal
import time

import numpy as np
import pytest

import ranks
import tutti


def outcomes_after_an_interrupt(folder, size, body, *arguments, pause=0.2):
    """How the ranks end when SIGINT reaches rank 0, `pause` seconds after a rank has given the sign "waiting"."""
    signs = ranks.Signs(folder)
    job = ranks.Job(size, body, signs, *arguments)
    signs.wait_for("waiting")
    time.sleep(pause)
    os.kill(job.processes[0].pid, signal.SIGINT)
    return job.outcomes(30)


def interrupted(comm, signs, how):
    """Rank 0 waits for rank 1, which never calls; then it says how its wait ended."""
    if comm.rank == 1:
        signs.wait_for("interrupted")
        if how in ("call", "group"):  # rank 0 has revoked the communicator
            with pytest.raises(tutti.RemoteError) as caught:
                comm.all_reduce(np.ones(1 << 20))  # more than what rank 0 has sent ahead
            assert caught.value.rank == 0
            return "told"
        if how == "split":
            with pytest.raises(tutti.Error):
                comm.split(0)
            return "told"
        return comm.all_reduce(np.ones(10)).tolist()
    try:
        signs.give("waiting")
        if how == "call":
            comm.all_reduce(np.ones(1 << 20))
        elif how == "group":
            with tutti.group():
                comm.send(np.ones(10), 1)
                comm.recv(np.ones(10), 1)
        elif how == "split":
            comm.split(0)
        else:
            stream = tutti.Stream()
            work = comm.all_reduce(np.ones(10), stream=stream)
            work.wait()
    except KeyboardInterrupt as interrupt:
        signs.give("interrupted")
        assert str(interrupt).startswith("Ctrl-C ended a "), how
        if how == "stream":  # the call goes on, and the communicator lives
            return work.wait().tolist()
        return "interrupted"
    return "not interrupted"


@pytest.mark.parametrize("how", ["call", "group", "stream", "split"])
def test_an_interrupt_ends_a_wait(tmp_path, how):
    right = [[2.0] * 10] * 2 if how == "stream" else ["interrupted", "told"]
    assert outcomes_after_an_interrupt(tmp_path, 2, interrupted, how) == [("value", one) for one in right]


def handled(comm, signs):
    if comm.rank == 1:
        signs.wait_for("go")
        return comm.all_reduce(np.ones(2)).tolist()
    seen = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    signs.give("waiting")
    return comm.all_reduce(np.ones(2)).tolist(), seen


def test_a_handler_of_the_program_leaves_the_call(tmp_path):
    """If the program has its own handler, which raises nothing, the call goes on, and the handler runs after it."""
    signs = ranks.Signs(tmp_path)  # rank 1 calls only after the interrupt
    job = ranks.Job(2, handled, signs)
    signs.wait_for("waiting")
    time.sleep(0.2)
    os.kill(job.processes[0].pid, signal.SIGINT)
    time.sleep(0.2)
    signs.give("go")
    assert job.outcomes(30) == [("value", ([2.0, 2.0], [signal.SIGINT])), ("value", [2.0, 2.0])]


def after_an_event_loop(comm, signs):
    """A loop of asyncio that handled a signal leaves Python's signals to nobody; the next communicator takes them again."""
    import asyncio

    async def main():
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: None)

    asyncio.run(main())
    with comm.split(0) as other:
        if comm.rank == 0:
            signs.give("waiting")
            try:
                other.recv(np.zeros(2), 1)
            except KeyboardInterrupt:
                signs.give("interrupted")
                return "interrupted"
        signs.wait_for("interrupted")
        other.abort()
        return "told"


def test_an_interrupt_after_an_event_loop(tmp_path):
    ends = outcomes_after_an_interrupt(tmp_path, 2, after_an_event_loop)
    assert ends == [("value", "interrupted"), ("value", "told")]


def join_in_vain(comm, signs):
    os.environ.update(ranks.environment(0, 2, ranks.free_port()))
    signs.give("waiting")
    try:
        tutti.init(init_timeout=60)
    except KeyboardInterrupt:
        return "interrupted"
    return "not interrupted"


def test_an_interrupt_ends_init(tmp_path):
    assert outcomes_after_an_interrupt(tmp_path, 1, join_in_vain) == [("value", "interrupted")]


def many_calls(comm, signs):
    end = time.monotonic() + 20
    try:
        signs.give("waiting")
        while time.monotonic() < end:
            comm.all_reduce(np.ones(2))
    except KeyboardInterrupt:
        return "interrupted"
    return "not interrupted"


@pytest.mark.parametrize("pause", [0.0, 0.001, 0.002, 0.005, 0.01, 0.02])
def test_an_interrupt_at_any_moment(tmp_path, pause):
    """It ends a loop of calls that do not wait with KeyboardInterrupt, and nothing else."""
    assert outcomes_after_an_interrupt(tmp_path, 1, many_calls, pause=pause) == [("value", "interrupted")]
