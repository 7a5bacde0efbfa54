"""Tests that faults raise exceptions within seconds, which name the rank and what it did."""

import ctypes
import os
import signal
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

import ranks

SECONDS = 20  # detection takes 1 s, the rest is for a busy machine; without detection it is 60 s, the timeout


def caught(call):
    begin = time.monotonic()
    try:
        call()
    except RuntimeError as error:
        return type(error).__name__, str(error).splitlines()[0], time.monotonic() - begin
    raise AssertionError("no exception")


def one_is_killed(rank, n):
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    found = caught(lambda: [dist.all_reduce(tensor) for _ in range(3)])
    return found, caught(lambda: dist.all_reduce(tensor))


def killed_with_work_pending(rank, n):
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    if rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    found = caught(future.wait)
    assert not work.is_success() if hasattr(work, "is_success") else True
    return found, caught(work.wait)


def killed_while_received_from(rank, n):
    tensor = torch.ones(1)
    if rank == 1:
        dist.send(tensor, 0)
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0:
        dist.recv(tensor, 1)
        return caught(lambda: dist.recv(tensor, 1)), None
    return None


def all_have_met():
    """Waits until all ranks have created the group. Uses only the store, so the group itself is still unused."""
    dist.distributed_c10d._get_default_group().monitored_barrier(timedelta(seconds=60), True)


def killed_before_any_message(rank, n, dead):
    """A rank detects the death of a rank that has never sent it anything, before the timeout."""
    all_have_met()
    if rank == dead:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1)
    return caught(lambda: dist.recv(torch.ones(1), dead))


def killed_while_waited_for(rank, n, dead):
    """The same, but the other ranks already wait when the rank dies."""
    all_have_met()
    if rank == dead:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    return caught(lambda: dist.all_reduce(torch.ones(1)) if rank == (dead + 1) % n else dist.recv(torch.ones(1), dead))


def move_to_another_host():
    """Moves to a new pid namespace, which the backend treats as another host. Continues in a new process."""
    if ctypes.CDLL(None).unshare(0x20000000) != 0:  # CLONE_NEWPID
        raise PermissionError("no namespace of processes")
    child = os.fork()
    if child != 0:
        os.waitpid(child, 0)
        os._exit(0)


def can_move():
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(0x20000000) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def ended_on_another_host(rank, n, ended, port, signs):
    """A rank ends on another host. Rank 0 runs the store."""
    if rank >= 2:
        move_to_another_host()
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    store = dist.TCPStore("127.0.0.1", port, n, rank == 0, timedelta(seconds=60))
    dist.init_process_group("tutti", store=store, rank=rank, world_size=n, timeout=timedelta(seconds=60))
    all_have_met()
    if rank == ended:
        time.sleep(1)  # gives its watcher time to connect
        os._exit(1)
    found = caught(lambda: dist.recv(torch.ones(1), ended))
    signs.give(rank)
    signs.wait_for(*(other for other in range(n) if other != ended))
    return found


def store_is_gone(rank, n, port, signs):
    """Rank 0, which runs the store, dies before the other ranks have connected to each other."""
    dist.init_process_group("tutti", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=n,
                            timeout=timedelta(seconds=60))
    all_have_met()
    signs.give(rank)
    if rank == 0:
        signs.wait_for(*range(n))
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1)
    return caught(lambda: dist.recv(torch.ones(1), 3 - rank))


def different_counts(rank, n):
    return caught(lambda: dist.all_reduce(torch.ones(10 + rank)))


def different_types(rank, n):
    return caught(lambda: dist.all_reduce(torch.ones(10, dtype=torch.float32 if rank == 0 else torch.float64)))


def different_calls(rank, n):
    return caught(lambda: dist.all_reduce(torch.ones(10)) if rank == 0 else dist.broadcast(torch.ones(10), 0))


def line_after(function):
    """How a message names the line after the function's first one, in which a lambda calls."""
    return f" at faults_test.py:{function.__code__.co_firstlineno + 1} in <lambda>"


def different_messages(rank, n, signs):
    if rank == 0:  # small enough for the send to complete before a rank can detect the difference
        dist.send(torch.ones(10), 1)
        signs.wait_for("received")
        return None
    found = caught(lambda: dist.recv(torch.ones(20), 0))
    signs.give("received")
    return found


def absent(rank, n, signs, calls_before):
    for _ in range(calls_before):
        dist.all_reduce(torch.ones(1))
    if rank == 1:
        signs.wait_for(0, 2)
        return None
    found = caught(lambda: dist.all_reduce(torch.ones(1)))
    signs.give(rank)
    return found


def leaves_early(rank, n, signs):
    """Rank 1 destroys the group while the other rank needs it."""
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        dist.destroy_process_group()
        signs.wait_for("failed")
        return None
    found = caught(lambda: [dist.all_reduce(torch.ones(1)) for _ in range(2)])
    signs.give("failed")
    return found


def unmatched_receive(rank, n):
    """A receive without a send does not delay the end."""
    dist.barrier()
    work = dist.irecv(torch.ones(1), (rank + 1) % n)
    begin = time.monotonic()
    dist.destroy_process_group()
    del work
    return time.monotonic() - begin


class Faults(unittest.TestCase):
    def expect(self, found, *words):
        kind, message, seconds = found
        self.assertEqual(kind, "DistBackendError" if hasattr(dist, "DistBackendError") else "RuntimeError", message)
        for word in words:
            self.assertIn(word, message)
        self.assertLess(seconds, SECONDS, message)

    def test_killed(self):
        for body in (one_is_killed, killed_with_work_pending):
            with self.subTest(body.__name__):
                got = ranks.outcomes(3, body, 3)
                self.assertTrue(got[1].died)
                for rank in (0, 2):
                    self.assertIsNone(got[rank].error)
                    first, again = got[rank].value
                    self.expect(first, "rank 1", "died")
                    self.expect(again, "rank 1")

    def test_killed_while_received_from(self):
        got = ranks.outcomes(2, killed_while_received_from, 2)
        self.assertIsNone(got[0].error)
        self.expect(got[0].value[0], "died", "rank 1 to rank 0")

    def test_killed_before_any_message(self):
        for body in (killed_before_any_message, killed_while_waited_for):
            for dead in (0, 1):
                with self.subTest(body.__name__, dead=dead):
                    got = ranks.outcomes(3, body, 3, dead)
                    for rank in set(range(3)) - {dead}:
                        self.assertIsNone(got[rank].error)
                        self.expect(got[rank].value, f"rank {dead} (host", "died while", f"rank {rank} (host")

    @unittest.skipUnless(can_move(), "this user may not make a namespace of processes")
    def test_ended_on_another_host(self):
        for n, ended in ((3, 2), (4, 1), (4, 3)):
            with self.subTest(ranks=n, ended=ended):
                got = ranks.outcomes(n, ended_on_another_host, n, ended, ranks.free_port(), ranks.Signs(), backend=None)
                for rank in set(range(n)) - {ended}:
                    self.assertIsNone(got[rank].error)
                    self.expect(got[rank].value, f"rank {ended} (host", "died", f"rank {rank} (host")

    def test_store_is_gone(self):
        got = ranks.outcomes(3, store_is_gone, 3, ranks.free_port(), ranks.Signs(), backend=None)
        for rank in (1, 2):
            self.assertIsNone(got[rank].error)
            self.expect(got[rank].value, "another rank failed or left", "the store through which the ranks meet")

    def test_calls_that_do_not_match(self):
        for body, words in ((different_counts, ["count=10", "count=11"]), (different_types, ["float32", "float64"]),
                            (different_calls, ["all_reduce", "broadcast", line_after(different_calls)])):
            with self.subTest(body.__name__):
                for outcome in ranks.run(2, body, 2):
                    self.expect(outcome, "rank 0", "rank 1", *words)
        self.expect(ranks.run(2, different_messages, 2, ranks.Signs())[1], "rank 0", "count=10", "count=20")

    def test_absent(self):
        # 4 s are enough for the ranks that call, even on a busy machine.
        first = ranks.run(3, absent, 3, ranks.Signs(), 0, timeout=4)
        later = ranks.run(3, absent, 3, ranks.Signs(), 1, timeout=4)
        for rank in (0, 2):
            self.expect(first[rank], "rank 1", "4000 ms")
            self.expect(later[rank], "rank 1")

    def test_leaves_early(self):
        got = ranks.run(2, leaves_early, 2, ranks.Signs())
        self.expect(got[0], "rank 1")

    def test_unmatched_receive(self):
        for seconds in ranks.run(2, unmatched_receive, 2):
            self.assertLess(seconds, SECONDS)


if __name__ == "__main__":
    unittest.main()
