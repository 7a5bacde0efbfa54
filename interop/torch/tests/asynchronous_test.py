"""Tests operations that run while the caller continues: their order, futures, several groups, sends and receives."""

import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

import ranks

MANY = 200
LARGE = 1 << 20  # elements; more than a send can complete without its receiver


def order(rank, n):
    """Many operations, waited for in reverse order. Each result identifies its operation."""
    tensors = [torch.full((1 + i % 50,), float(rank + i)) for i in range(MANY)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    for i, tensor in enumerate(tensors):
        assert torch.equal(tensor, torch.full_like(tensor, sum(r + i for r in range(n)))), (i, tensor)
    # All operations use the same tensor, so only their order determines the result.
    tensor = torch.full((10,), float(rank + 1))
    works = []
    for _ in range(5):
        works.append(dist.all_reduce(tensor, async_op=True))
        works.append(dist.broadcast(tensor, 0, async_op=True))
    works[-1].wait()
    want = n * (n + 1) / 2 * n**4
    assert torch.equal(tensor, torch.full((10,), want)), (tensor, want)


def not_waited_for(rank, n, signs):
    """An operation completes although its rank does not wait, because other ranks may need it."""
    tensor = torch.ones(10)
    work = dist.all_reduce(tensor, async_op=True)
    deadline = time.monotonic() + 30
    while not work.is_completed():
        assert time.monotonic() < deadline, "not completed"
        time.sleep(0.001)
    assert work.is_success() and tensor[0] == n
    # Rank 0 does not wait, and blocks outside the backend.
    tensor = torch.ones(10)
    work = dist.all_reduce(tensor, async_op=True)
    if rank == 0:
        signs.wait_for(*range(1, n))
    work.wait()
    signs.give(rank)
    # The Work is dropped at once and then the group is destroyed. The operation still completes on the other ranks.
    dist.all_reduce(tensor, async_op=True)
    if rank != 0:
        dist.barrier()
    else:
        dist.barrier(async_op=True)


def futures(rank, n):
    calls = []
    tensor = torch.ones(10)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    chained = future.then(lambda done: calls.append("first") or done.value()[0] * 2)
    assert torch.equal(chained.wait(), torch.full((10,), 2.0 * n))
    assert future.done() and calls == ["first"]
    # The callback uses the same group and waits.
    inner = torch.ones(3)

    def again(done):
        dist.all_reduce(inner)
        return inner

    work = dist.all_reduce(torch.ones(3), async_op=True)
    assert torch.equal(work.get_future().then(again).wait(), torch.full((3,), float(n)))
    # After completion.
    work.wait()
    assert work.get_future().done()
    collected = torch.futures.collect_all([dist.all_reduce(torch.ones(1), async_op=True).get_future()
                                           for _ in range(10)]).wait()
    assert [done.value()[0].item() for done in collected] == [n] * 10


def groups_crosswise(rank, n):
    """Ranks wait in two groups in different orders."""
    first, second = dist.new_group(), dist.new_group()
    one, two = torch.ones(10), torch.ones(10)
    if rank % 2 == 0:
        work = dist.all_reduce(one, group=first, async_op=True)
        dist.all_reduce(two, group=second)
    else:
        work = dist.all_reduce(two, group=second, async_op=True)
        dist.all_reduce(one, group=first)
    work.wait()
    assert one[0] == n and two[0] == n


def sub_groups(rank, n):
    """Disjoint and overlapping groups, whose ranks differ from the world's."""
    halves = [dist.new_group([r for r in range(n) if r % 2 == parity]) for parity in range(2)]
    mine = halves[rank % 2]
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=mine)
    assert tensor.item() == sum(r for r in range(n) if r % 2 == rank % 2), tensor
    first_three = dist.new_group(list(range(3)))
    if rank < 3:
        tensor = torch.tensor([float(rank)])
        dist.broadcast(tensor, 2, group=first_three)
        assert tensor.item() == 2
        got = [torch.zeros(1) for _ in range(3)]
        dist.all_gather(got, torch.tensor([float(rank)]), group=first_three)
        assert torch.cat(got).tolist() == [0, 1, 2]
    pair = dist.new_group([1, n - 1])
    if rank == 1:
        dist.send(torch.tensor([7.0]), n - 1, group=pair)
    elif rank == n - 1:
        dist.recv(tensor, 1, group=pair)
        assert tensor.item() == 7
    for group in (first_three, pair):
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
    dist.barrier()


def both_send_first(rank, n):
    """Both ranks send first, more than a send can buffer. They must not wait for each other."""
    peer = rank ^ 1
    got = torch.zeros(LARGE)
    for first, second in ((dist.isend, dist.irecv), (dist.irecv, dist.isend)):
        works = []
        for call in (first, second):
            works.append(call(torch.full((LARGE,), float(rank)) if call is dist.isend else got, peer))
        for work in works:
            work.wait()
        assert torch.equal(got, torch.full((LARGE,), float(peer)))
    # A send in flight does not block collectives.
    work = dist.isend(torch.full((LARGE,), 5.0), peer) if rank == 0 else None
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    if rank == 1:
        dist.recv(got, 0)
        assert got[0] == 5
    if work is not None:
        work.wait()


def batch(rank, n):
    right, left = (rank + 1) % n, (rank - 1) % n
    got = [torch.zeros(1000), torch.zeros(LARGE)]
    for _ in range(3):
        operations = [dist.P2POp(dist.isend, torch.full((1000,), float(rank)), right),
                      dist.P2POp(dist.isend, torch.full((LARGE,), float(rank + 10)), left),
                      dist.P2POp(dist.irecv, got[0], left), dist.P2POp(dist.irecv, got[1], right)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert got[0].eq(left).all() and got[1].eq(right + 10).all(), (rank, got)


def tags(rank, n):
    """Tags are received in another order than sent; messages of one tag, in the order sent."""
    if rank == 0:
        works = [dist.isend(torch.tensor([float(10 * tag + i)]), 1, tag=tag) for tag in range(3) for i in range(2)]
        for work in works:
            work.wait()
    elif rank == 1:
        got = torch.zeros(1)
        for tag in (2, 0, 1):
            for i in range(2):
                dist.recv(got, 0, tag=tag)
                assert got.item() == 10 * tag + i, (tag, i, got)


def any_source(rank, n):
    rounds = 5
    if rank == 0:
        seen = []
        got = torch.zeros(4)
        for _ in range(rounds * (n - 1)):
            source = dist.recv(got)
            assert got.eq(source * 100 + seen.count(source)).all(), (source, seen, got)
            seen.append(source)
        assert sorted(seen) == sorted(list(range(1, n)) * rounds)
        # A receive from a named rank gets a message that has already arrived.
        for source in range(1, n):
            dist.send(got, source)
        for source in range(1, n):
            dist.recv(got, source)
            assert got.eq(-source).all(), (source, got)
    else:
        for i in range(rounds):
            dist.send(torch.full((4,), float(rank * 100 + i)), 0)
        dist.recv(torch.zeros(4), 0)
        dist.send(torch.full((4,), float(-rank)), 0)


def timeout_of_wait(rank, n):
    """wait() with its own timeout returns, and the operation continues."""
    tensor = torch.ones(1)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        try:
            work.wait(timedelta(milliseconds=200))
            raise AssertionError("it did not take too long")
        except RuntimeError as error:
            assert "200 ms" in str(error), error
        dist.send(torch.ones(1), 1)
        work.wait()
    else:
        if rank == 1:
            dist.recv(tensor, 0)
        tensor.fill_(1)
        dist.all_reduce(tensor)
    assert tensor.item() == n


def many_at_once(rank, n):
    """Collectives, sends and receives, in several groups, all in flight at once."""
    groups = [None, dist.new_group(), dist.new_group()]
    works, tensors = [], []
    for i in range(60):
        tensor = torch.full((100 + i,), 1.0)
        works.append(dist.all_reduce(tensor, group=groups[i % 3], async_op=True))
        tensors.append(tensor)
        for peer in range(n):
            if peer != rank:
                works.append(dist.isend(torch.full((50,), float(i)), peer))
                got = torch.zeros(50)
                works.append(dist.irecv(got, peer))
                tensors.append((got, i))
    for work in works[::2] + works[1::2]:
        work.wait()
    for tensor in tensors:
        if isinstance(tensor, tuple):
            assert tensor[0].eq(tensor[1]).all()
        else:
            assert tensor.eq(n).all()


class Asynchronous(unittest.TestCase):
    def each(self, body, several):
        for n in several:
            with self.subTest(ranks=n):
                ranks.run(n, body, n)

    def test_order(self):
        self.each(order, [1, 2, 4])

    def test_not_waited_for(self):
        for n in (2, 4):
            with self.subTest(ranks=n):
                ranks.run(n, not_waited_for, n, ranks.Signs())

    def test_futures(self):
        self.each(futures, [2, 3])

    def test_groups_crosswise(self):
        self.each(groups_crosswise, [2, 4])

    def test_sub_groups(self):
        self.each(sub_groups, [4])

    def test_both_send_first(self):
        self.each(both_send_first, [2])

    def test_batch_isend_irecv(self):
        self.each(batch, [2, 3, 4])

    def test_tags(self):
        self.each(tags, [2])

    def test_any_source(self):
        self.each(any_source, [2, 4])

    def test_timeout_of_wait(self):
        self.each(timeout_of_wait, [2, 3])

    def test_many_at_once(self):
        self.each(many_at_once, [3])


if __name__ == "__main__":
    unittest.main()
