"""Tests groups whose members change: torch.distributed._reconfigure, which PyTorch 2.14 brought."""

import os
import random
import signal
import threading
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

import ranks

HAS_RECONFIGURE = hasattr(dist, "_reconfigure")
SEED = int(os.environ.get("TUTTI_TEST_SEED", "1"))
ROUNDS = 12
LONG = timedelta(seconds=60)  # much longer than anything here takes, unless a death goes unnoticed


class Member:
    """This process in a group without members. `folder` is that of the store, where the ranks also exchange handles."""

    def __init__(self, folder, rank, n, **options):
        self.store = dist.FileStore(os.path.join(folder, "store"), -1)
        dist.init_process_group("tutti", store=self.store, rank=rank, world_size=n, timeout=LONG, **options)
        self.backend = dist.get_backend_impl(dist.distributed_c10d._get_default_group(), torch.device("cpu"))

    def exchange(self, key, own, members):
        """The handles of `members`, any names, in their order; `own` is this rank's name."""
        self.store.set(f"{key}/{own}", dist._get_reconfigure_handle())
        return [self.store.get(f"{key}/{member}").decode() for member in members]

    def reconfigure(self, uuid, own, members, timeout=LONG):
        dist._reconfigure(uuid, self.exchange(uuid, own, members), timeout=timeout).wait()
        assert (dist.get_rank(), dist.get_world_size()) == (members.index(own), len(members))

    def check(self):
        """Every kind of call gives what this group's members give."""
        rank, n = dist.get_rank(), dist.get_world_size()
        total = torch.full((1000,), rank + 1.0)
        dist.all_reduce(total)
        assert (total == n * (n + 1) / 2).all(), total
        root = torch.full((3,), float(rank))
        dist.broadcast(root, group_src=n - 1)
        assert (root == n - 1).all(), root
        gathered = [torch.empty(1) for _ in range(n)]
        dist.all_gather(gathered, torch.tensor([float(rank)]))
        assert torch.cat(gathered).tolist() == list(range(n)), gathered
        if n > 1:
            got = torch.empty(1)
            sent = self.backend.send([torch.tensor([float(rank)])], (rank + 1) % n, 7)
            self.backend.recv([got], (rank - 1) % n, 7).wait()
            sent.wait()
            assert got.item() == (rank - 1) % n, got
        dist.barrier()


def error_of(call):
    try:
        call()
    except RuntimeError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    raise AssertionError("no error")


def error_code(member):
    return str(member.backend.get_error()).rpartition(".")[2]


def members_change(rank, n, folder):
    """A group of random members in random orders, drawn alike on all ranks."""
    member = Member(folder, rank, n, enable_reconfigure=True)
    assert dist._supports_reconfigure() and member.backend.supports_reconfigure
    assert "has no members yet" in error_of(lambda: dist.all_reduce(torch.ones(1)))
    assert "has no members yet" in error_of(lambda: member.backend.send([torch.ones(1)], (rank + 1) % n, 0))
    draw = random.Random(SEED)
    for uuid in range(ROUNDS):
        members = draw.sample(range(n), draw.randint(1, n))
        if rank in members:
            member.reconfigure(uuid, rank, members)
            member.check()
    assert error_code(member) == "SUCCESS"


def ordinary_group(rank, n, folder):
    """A group that was made as usual can be reconfigured, too, and by a set of handles."""
    member = Member(folder, rank, n)
    member.check()
    dist._reconfigure(5, set(member.exchange(5, rank, range(n)))).wait()
    member.check()


def killed(rank, n, folder):
    """Rank 1 is killed, the others go on without it, and the last rank, a newcomer, takes its place."""
    newcomer = n - 1
    if rank == newcomer:
        dist.FileStore(os.path.join(folder, "store"), -1).get("reduced")
        member = Member(folder, 1, n - 1, enable_reconfigure=True)
    else:
        member = Member(folder, rank, n - 1, enable_reconfigure=True)
        member.reconfigure(1, rank, list(range(n - 1)))
        member.check()
        if rank == 1:
            time.sleep(0.3)  # the others wait by now
            os.kill(os.getpid(), signal.SIGKILL)
        pending = dist.all_reduce(torch.ones(10), async_op=True)
        messages = [error_of(pending.wait), error_of(lambda: dist.all_reduce(torch.ones(1)))]
        code = error_code(member)
        member.reconfigure(2, rank, [other for other in range(n - 1) if other != 1])
        member.check()
        member.store.set("reduced", "")
        assert error_code(member) == "SUCCESS"
    member.reconfigure(3, rank, list(range(n)) if rank == 1 else [*(r for r in range(n) if r not in (1, newcomer)), newcomer])
    member.check()
    return None if rank == newcomer else (messages, code)


def killed_while_joining(rank, n, folder):
    """Rank 1 is killed when the others wait for it in reconfigure. Nothing has changed for them."""
    member = Member(folder, rank, n)
    member.check()
    handles = member.exchange(1, rank, range(n))
    if rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    message = error_of(lambda: dist._reconfigure(1, handles, timeout=LONG))
    seconds = time.monotonic() - begin
    assert (dist.get_rank(), dist.get_world_size()) == (rank, n)
    member.reconfigure(2, rank, [other for other in range(n) if other != 1])
    member.check()
    return message, seconds


def absent(rank, n, folder):
    """Rank 1 does not come. The old members go on together."""
    member = Member(folder, rank, n)
    member.check()
    handles = member.exchange(1, rank, range(n))
    message = None
    if rank != 1:
        message = error_of(lambda: dist._reconfigure(1, handles, timeout=timedelta(seconds=2)))
    member.check()
    member.reconfigure(2, rank, list(range(n)))
    member.check()
    return message


def left_out(rank, n, folder):
    """Work that is pending among the old members ends, on the rank that is left out, too."""
    member = Member(folder, rank, n)
    member.check()
    others = [other for other in range(n) if other != 1]
    message = None
    if rank != 1:
        pending = member.backend.recv([torch.ones(1)], 1, 3)
        member.reconfigure(1, rank, others)
        message = error_of(pending.wait)
        member.check()
    else:
        message = error_of(lambda: dist.all_reduce(torch.ones(1)))
    return message


def error_when_aborted(member, call):
    """The error of a call that waits when another thread aborts the group."""
    timer = threading.Timer(0.5, member.backend.abort)
    timer.start()
    message = error_of(call)
    timer.join()
    return message


def aborted(rank, n, folder):
    """Another thread's abort ends a call that waits in vain; a reconfigure makes the group usable again."""
    member = Member(folder, rank, n)
    member.check()
    message = None
    if rank == 0:
        message = error_when_aborted(member, lambda: dist.all_reduce(torch.ones(1)))
        assert error_code(member) == "SUCCESS"
        assert "DistBackendError" in error_of(lambda: dist.all_reduce(torch.ones(1)))
    member.reconfigure(1, rank, list(range(n)))
    member.check()
    return message


def abort_of_a_reconfigure(rank, n, folder):
    member = Member(folder, rank, n)
    handles = member.exchange(1, rank, range(n))
    message = None
    if rank == 0:
        message = error_when_aborted(member, lambda: dist._reconfigure(1, handles, timeout=LONG))
    member.reconfigure(2, rank, list(range(n)))
    member.check()
    return message


def refused(rank, n, folder):
    member = Member(folder, rank, n)
    own = dist._get_reconfigure_handle()
    handles = member.exchange(1, rank, range(n))
    messages = [error_of(lambda: dist._reconfigure(1, wrong)) for wrong in (
        [own, own], [], [handle for handle in handles if handle != own], [own, "gloo:1:-1:1:"], [own, "tutti:-1::"])]
    messages.append(error_of(lambda: dist._reconfigure(1, [own], timeout=timedelta(0))))
    member.reconfigure(1, rank, list(range(n)))
    again = member.exchange("again", rank, range(n))
    messages.append(error_of(lambda: dist._reconfigure(1, again)))
    messages.append(error_of(lambda: dist._reconfigure(2, handles)))  # the old ones
    member.check()
    return messages


def store_is_gone(rank, n, folder):
    """Rank 0, which keeps the store, dies before the others reconfigure."""
    port_file = os.path.join(folder, "port")
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, None, True, LONG, wait_for_workers=False)
        with open(port_file + ".new", "w") as file:
            file.write(str(store.port))
        os.rename(port_file + ".new", port_file)
    else:
        while not os.path.exists(port_file):
            time.sleep(0.01)
        store = dist.TCPStore("127.0.0.1", int(open(port_file).read()), None, False, LONG)
    dist.init_process_group("tutti", store=store, rank=rank, world_size=n, timeout=LONG)
    dist.barrier()
    handle = dist._get_reconfigure_handle()
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1)
    return error_of(lambda: dist._reconfigure(1, [handle]))


def timed_out(rank, n, folder):
    member = Member(folder, rank, n)
    member.check()
    dist.set_timeout(timedelta(seconds=2))
    code = None
    if rank == 0:
        # A communicator has the timeout with which it was made, so a new one is needed.
        error_of(lambda: member.backend.recv([torch.ones(1)], 1, 0).wait())
        code = error_code(member)
    dist.set_timeout(LONG)
    member.reconfigure(1, rank, list(range(n)))
    member.check()
    return code


@unittest.skipUnless(HAS_RECONFIGURE, "this PyTorch has no reconfigure")
class Reconfigure(unittest.TestCase):
    def outcomes(self, n, body, dead=()):
        signs = ranks.Signs()
        got = ranks.outcomes(n, body, n, signs.folder.name, backend=None)
        for rank, outcome in enumerate(got):
            self.assertEqual(outcome.died, rank in dead, f"rank {rank}")
            self.assertIsNone(outcome.error, f"rank {rank}: {outcome.error}")
        return [outcome.value for outcome in got]

    def expect(self, message, *words):
        self.assertTrue(message.startswith("DistBackendError: tutti: "), message)
        for word in words:
            self.assertIn(word, message)

    def test_members_change(self):
        self.outcomes(4, members_change)

    def test_ordinary_group(self):
        self.outcomes(2, ordinary_group)

    def test_killed(self):
        values = self.outcomes(4, killed, dead=(1,))
        for rank in (0, 2):
            messages, code = values[rank]
            for message in messages:
                self.expect(message, "rank 1", "died")
            self.assertEqual(code, "REMOTE_ERROR")

    def test_killed_while_joining(self):
        values = self.outcomes(3, killed_while_joining, dead=(1,))
        for rank in (0, 2):
            message, seconds = values[rank]
            self.expect(message, "rank 1 (host", "died while", f"rank {rank} (host", '"group 0, reconfigured 1"')
            self.assertLess(seconds, LONG.total_seconds() / 2)

    def test_absent(self):
        values = self.outcomes(3, absent)
        for rank in (0, 2):
            self.expect(values[rank], "2000 ms", "rank 1")

    def test_left_out(self):
        for rank, message in enumerate(self.outcomes(3, left_out)):
            self.expect(message)

    def test_aborted(self):
        self.expect(self.outcomes(2, aborted)[0])

    def test_abort_of_a_reconfigure(self):
        self.expect(self.outcomes(2, abort_of_a_reconfigure)[0], "aborted")

    def test_refused(self):
        words = ("is given twice", "not among the 0", "not among the 1", "no handle of this backend", "no handle of this backend",
                 "must be above 0", "already used", "not among the 2")
        for messages in self.outcomes(2, refused):
            for message, word in zip(messages, words, strict=True):
                self.assertTrue(message.startswith("InvalidArgument: reconfigure: "), message)
                self.assertIn(word, message)

    def test_store_is_gone(self):
        self.expect(self.outcomes(2, store_is_gone, dead=(0,))[1], "the store through which the ranks meet does not answer")

    def test_timed_out(self):
        self.assertEqual(self.outcomes(2, timed_out)[0], "TIMEOUT")


if __name__ == "__main__":
    unittest.main()
