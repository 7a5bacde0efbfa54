"""Tests calls on a group as a whole: monitored barriers, timeouts, options, and groups derived from it."""

import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

import ranks


def default_group():
    return dist.distributed_c10d._get_default_group()


def failed(call, *words):
    begin = time.monotonic()
    try:
        call()
    except RuntimeError as error:
        message = str(error).splitlines()[0]
        for word in words:
            assert word in message, f"no {word!r} in: {message}"
        return time.monotonic() - begin
    raise AssertionError(f"no error; expected one with {words}")


def monitored(rank, n):
    group = default_group()
    for wait_all in (False, True, False):
        works = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(3)]
        group.monitored_barrier(timedelta(seconds=60), wait_all)
        for work in works:
            work.wait()


def some_are_missing(rank, n, wait_all):
    group = default_group()
    dist.barrier()
    if rank == 0:
        who = "Ranks 1, 2 failed to pass monitoredBarrier in 3000 ms" if wait_all else "Rank 1 failed to pass"
        failed(lambda: group.monitored_barrier(timedelta(seconds=3), wait_all), who)
    elif rank > 2:
        failed(lambda: group.monitored_barrier(timedelta(seconds=30), wait_all),
               f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv "
               "from rank 0", "failed to pass monitoredBarrier")
    # The group still works.
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == n


def rank_0_is_missing(rank, n):
    group = default_group()
    dist.barrier()
    if rank == 0:
        failed(lambda: group.monitored_barrier(timedelta(0), False), "Rank 0 timed out in monitoredBarrier")
    if rank == 1:
        failed(lambda: group.monitored_barrier(timedelta(seconds=1), False), "Rank 1 successfully reached")
    dist.barrier()


def new_timeout(rank, n, signs):
    dist.barrier()
    dist.set_timeout(timedelta(seconds=4))
    backend = default_group()._get_backend(torch.device("cpu"))
    assert backend.options._timeout == timedelta(seconds=4), backend.options._timeout
    tensor = torch.ones(1)
    dist.all_reduce(tensor)  # completes in time
    assert tensor.item() == n
    if rank == 0:
        seconds = failed(lambda: dist.all_reduce(tensor), "all_reduce", "4000 ms")
        assert seconds < 30, seconds
        failed(lambda: dist.all_reduce(tensor))
        signs.give("failed")
    else:
        signs.wait_for("failed")


def split(rank, n):
    halves = [[1, 0], list(range(2, n))]
    group = dist.split_group(split_ranks=halves)
    mine = halves[0] if rank < 2 else halves[1]
    assert dist.get_rank(group) == mine.index(rank)
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=group)
    assert tensor.item() == sum(mine)
    got = [torch.zeros(1) for _ in mine]
    dist.all_gather(got, torch.tensor([float(rank)]), group=group)
    assert torch.cat(got).tolist() == mine
    again = dist.split_group(parent_pg=group, split_ranks=[[0]]) if rank in (1, 2) else None
    if again is not None and rank == 1:
        dist.barrier(group=again)
    dist.barrier()
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == n


def shrunk(rank, n):
    dist.barrier()
    if rank == 1:
        return
    group = dist.shrink_group([1])
    assert dist.get_world_size() == n - 1 and dist.get_rank(group) == max(rank - 1, 0)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == n - 1


def timing(rank, n):
    default_group()._enable_collectives_timing()
    work = dist.all_reduce(torch.ones(1 << 20), async_op=True)
    work.wait()
    assert work._get_duration() > 0


class Groups(unittest.TestCase):
    def test_monitored_barrier(self):
        for n in (1, 2, 4):
            ranks.run(n, monitored, n)
        for wait_all in (False, True):
            ranks.run(4, some_are_missing, 4, wait_all)
        ranks.run(2, rank_0_is_missing, 2)

    @unittest.skipUnless(hasattr(dist, "set_timeout"), "this PyTorch cannot set a group's timeout")
    def test_set_timeout(self):
        ranks.run(3, new_timeout, 3, ranks.Signs())

    @unittest.skipUnless(hasattr(dist, "set_timeout"), "this PyTorch splits groups of NCCL alone")
    def test_split(self):
        ranks.run(4, split, 4)

    @unittest.skipUnless(hasattr(dist, "shrink_group"), "this PyTorch shrinks no groups")
    def test_shrink(self):
        ranks.run(3, shrunk, 3)

    @unittest.skipUnless(hasattr(torch._C._distributed_c10d.Work, "_get_duration"), "this PyTorch times nothing")
    def test_timing(self):
        ranks.run(2, timing, 2)


if __name__ == "__main__":
    unittest.main()
