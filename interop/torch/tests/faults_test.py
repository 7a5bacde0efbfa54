"""Faults become exceptions that name who did what, within seconds."""

import os
import signal
import time
import unittest

import torch
import torch.distributed as dist

import ranks

SECONDS = 20  # a death is seen within one; the rest is for a busy machine. Without being seen it would be the timeout's 60


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


def different_counts(rank, n):
    return caught(lambda: dist.all_reduce(torch.ones(10 + rank)))


def different_types(rank, n):
    return caught(lambda: dist.all_reduce(torch.ones(10, dtype=torch.float32 if rank == 0 else torch.float64)))


def different_calls(rank, n):
    return caught(lambda: dist.all_reduce(torch.ones(10)) if rank == 0 else dist.broadcast(torch.ones(10), 0))


def different_messages(rank, n):
    if rank == 0:  # small enough to be left behind for the receiver before anybody can know
        dist.send(torch.ones(10), 1)
        time.sleep(2)
        return None
    return caught(lambda: dist.recv(torch.ones(20), 0))


def absent_at_first(rank, n):
    if rank == 1:
        time.sleep(4)
        return None
    return caught(lambda: dist.all_reduce(torch.ones(1)))


def absent_later(rank, n):
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        time.sleep(5)
        return None
    return caught(lambda: dist.all_reduce(torch.ones(1)))


def leaves_early(rank, n):
    """Destroys the group while the others need it."""
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        dist.destroy_process_group()
        time.sleep(2)
        return None
    return caught(lambda: [dist.all_reduce(torch.ones(1)) for _ in range(2)])


def unmatched_receive(rank, n):
    """Is no reason not to end."""
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

    def test_calls_that_do_not_match(self):
        for body, words in ((different_counts, ["count=10", "count=11"]), (different_types, ["float32", "float64"]),
                            (different_calls, ["all_reduce", "broadcast"])):
            with self.subTest(body.__name__):
                for outcome in ranks.run(2, body, 2):
                    self.expect(outcome, "rank 0", "rank 1", *words)
        self.expect(ranks.run(2, different_messages, 2)[1], "rank 0", "count=10", "count=20")

    def test_absent(self):
        first = ranks.run(3, absent_at_first, 3, timeout=2)
        later = ranks.run(3, absent_later, 3, timeout=2)
        for rank in (0, 2):
            self.expect(first[rank], "rank 1", "2000 ms")
            self.expect(later[rank], "rank 1")

    def test_leaves_early(self):
        got = ranks.run(2, leaves_early, 2)
        self.expect(got[0], "rank 1")

    def test_unmatched_receive(self):
        for seconds in ranks.run(2, unmatched_receive, 2):
            self.assertLess(seconds, SECONDS)


if __name__ == "__main__":
    unittest.main()
