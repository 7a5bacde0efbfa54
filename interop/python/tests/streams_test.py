"""Calls on streams: Work, asyncio, and what lives how long."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import ranks
import tutti


def in_order(comm):
    with tutti.Stream() as stream:
        works = [comm.all_reduce(np.full(100, float(i)), stream=stream) for i in range(50)]
        for i, work in enumerate(works):
            assert work.wait()[0] == 2.0 * i and work.done()
        place = np.full(3, 1.0)
        assert comm.all_reduce(place, place, stream=stream).wait() is place
        assert comm.barrier(stream=stream).wait() is None
        stream.synchronize()


def test_calls_run_in_order():
    ranks.run(2, in_order)


def on_streams_and_off(comm):
    """Calls run in the order in which they were made, whether or not they are on streams."""
    with tutti.Stream() as one, tutti.Stream() as two:
        for i in range(100):
            total, mine = np.full(4, 1.0), np.full(2, float(comm.rank))
            first = comm.all_reduce(total, total, stream=one)
            second = comm.all_gather(mine, stream=two)
            assert comm.broadcast_object({"round": i} if comm.rank == 0 else None, root=0) == {"round": i}
            assert total.tolist() == [2.0] * 4, "the broadcast came before the call on the stream"
            first.wait()
            third = comm.all_gather(total, stream=one)
            with tutti.group():
                theirs = comm.recv(np.zeros(2), 1 - comm.rank)
                comm.send(mine, 1 - comm.rank)
            assert theirs[0] == 1 - comm.rank and third.done()
            assert second.wait().tolist() == [0, 0, 1, 1]


def test_calls_run_in_the_order_they_were_made():
    ranks.run(2, on_streams_and_off)


def calls_back(comm):
    """A callback's call on its own communicator does not wait for the calls that wait for the callback."""
    with tutti.Stream() as stream:
        first = comm.all_reduce(np.ones(2), stream=stream)
        got = []
        first.add_done_callback(lambda _: got.append(comm.all_reduce(np.ones(1))[0]))
        if not got:
            second = comm.barrier(stream=stream)
            second.wait()
        stream.synchronize()
        assert got == [1]


def test_a_callback_may_call():
    ranks.run(1, calls_back)


def aborted_meanwhile(comm, signs):
    """The call that runs at once waits for one on a stream behind a call of another communicator, which never comes."""
    other = comm.split(0)
    if comm.rank == 0:
        with tutti.Stream() as stream:
            stuck = other.all_reduce(np.ones(1), stream=stream)
            behind = comm.all_reduce(np.ones(1), stream=stream)
            threading.Timer(0.1, comm.abort).start()
            with pytest.raises(tutti.InvalidUsageError, match="closed"):
                comm.all_reduce(np.ones(1))
            other.revoke()
            for work in (stuck, behind):
                with pytest.raises(tutti.Error):
                    work.wait()
            signs.give("over")
    else:
        signs.wait_for("over")


def test_an_abort_ends_the_wait_for_a_turn(tmp_path):
    ranks.run(2, aborted_meanwhile, ranks.Signs(tmp_path))


def one_by_one(comm, signs):
    """A call is done when it has ended, not when the stream is idle."""
    with tutti.Stream() as stream:
        first = comm.all_reduce(np.ones(2), stream=stream)
        second = comm.recv(np.zeros(2), 1, stream=stream) if comm.rank == 0 else None
        assert first.wait(30).tolist() == [2, 2]
        if comm.rank == 0:
            assert not second.done()
            with pytest.raises(TimeoutError):
                second.wait(0.05)
            signs.give("waited")
            assert second.wait().tolist() == [5, 5]
        else:
            signs.wait_for("waited")
            comm.send(np.full(2, 5.0), 0)


def test_each_call_has_its_own_end(tmp_path):
    ranks.run(2, one_by_one, ranks.Signs(tmp_path))


def awaits(comm, signs):
    async def main():
        ticks = 0

        async def ticking():
            nonlocal ticks
            while True:
                ticks += 1
                if comm.rank == 0 and ticks == 20:
                    signs.give("ticked")
                await asyncio.sleep(0.001)

        with tutti.Stream() as stream:
            ticker = asyncio.create_task(ticking())
            if comm.rank == 1:
                signs.wait_for("ticked")  # so rank 0's loop runs while it waits for this rank
            total = await comm.all_reduce(np.full(3, 1.0), stream=stream)
            both = await asyncio.gather(*(comm.all_reduce(np.full(2, float(i)), stream=stream) for i in range(5)))
            ticker.cancel()
        assert total.tolist() == [2, 2, 2]
        assert [one[0] for one in both] == [0, 2, 4, 6, 8]

    asyncio.run(main())


def test_await(tmp_path):
    ranks.run(2, awaits, ranks.Signs(tmp_path))


def test_a_cancelled_await_leaves_the_call(alone):
    async def main(stream):
        work = alone.all_reduce(np.ones(2), stream=stream)
        task = asyncio.ensure_future(_await(work))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await work

    with tutti.Stream() as stream:
        assert asyncio.run(main(stream)).tolist() == [1, 1]


async def _await(work):
    return await work


def test_failures_come_at_the_wait(alone):
    with tutti.Stream() as stream:
        work = alone.broadcast(np.ones(2), root=3, stream=stream)
        for _ in range(2):
            with pytest.raises(tutti.InvalidArgumentError, match="root"):
                work.wait()
        assert alone.all_reduce(np.ones(2), stream=stream).wait().tolist() == [1, 1]
        # What is wrong without asking other ranks is said at once.
        with pytest.raises(TypeError):
            alone.all_reduce("x", stream=stream)


def test_callbacks(alone):
    called = threading.Event()
    with tutti.Stream() as stream:
        work = alone.all_reduce(np.ones(2), stream=stream)
        work.add_done_callback(lambda done: called.set() if done.wait().tolist() == [1, 1] else None)
        assert called.wait(30)


def keeps_alive(comm, signs):
    """The memory of a call on a stream lives until the call has ended, though the program holds neither array nor Work."""
    stream = tutti.Stream()
    if comm.rank == 0:
        data = np.full(1 << 16, 7.0)
        alive = weakref.ref(data)
        comm.send(data, 1, stream=stream)
        del data
        gc.collect()
        assert alive() is not None
        signs.give("given")
        stream.synchronize()
        deadline = time.monotonic() + 30
        while alive() is not None:
            assert time.monotonic() < deadline
            time.sleep(0.001)
    else:
        signs.wait_for("given")
        assert (comm.recv(np.zeros(1 << 16), 0) == 7.0).all()
    stream.close()


def test_memory_lives_until_the_end(tmp_path):
    ranks.run(2, keeps_alive, ranks.Signs(tmp_path))


def test_close_waits_for_streams(alone):
    stream = tutti.Stream()
    works = [alone.all_reduce(np.ones(1 << 16), stream=stream) for _ in range(20)]
    alone.close()
    assert all(work.done() for work in works)
    stream.close()
    assert stream.closed
    with pytest.raises(tutti.InvalidUsageError, match="closed"):
        alone.barrier()


def test_a_closed_stream(alone):
    stream = tutti.Stream()
    stream.close()
    stream.close()
    with pytest.raises(tutti.InvalidUsageError, match="the stream is closed"):
        alone.barrier(stream=stream)


def the_gil_is_free(comm, signs):
    if comm.rank == 1:
        signs.wait_for("counted")
        comm.send(np.ones(1), 0)
        return
    counted = 0

    def count():
        nonlocal counted
        while counted < 1000:
            counted += 1
            time.sleep(0)
        signs.give("counted")

    thread = threading.Thread(target=count)
    thread.start()
    comm.recv(np.zeros(1), 1)  # ends only if the thread runs
    thread.join()


def test_a_waiting_call_frees_the_gil(tmp_path):
    ranks.run(2, the_gil_is_free, ranks.Signs(tmp_path))


ENDS_EARLY = """
import numpy, os, tutti
comm = tutti.init()
stream = tutti.Stream()
works = [comm.all_reduce(numpy.ones(1 << 20), stream=stream) for _ in range(30)]
works[3].add_done_callback(lambda work: None)
if os.environ["KEEP"] == "no":
    works.clear()
    del stream
print("end", flush=True)
"""


@pytest.mark.parametrize("keep", ["yes", "no"])
def test_a_process_may_end_with_calls_on_streams(keep):
    for _ in range(5):
        done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", ENDS_EARLY], capture_output=True, text=True,
                              timeout=60, check=False, env={"KEEP": keep})
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
