"""Tests calls whose tensors share memory. As on gloo, all inputs are read before an output is written."""

import unittest

import torch
import torch.distributed as dist

import ranks

SIZES = (1, 1000, 128 * 1024)  # elements; the last is more than a send copies


def value(rank, count, salt=0):
    return ((torch.arange(count) * 3 + rank * 5 + salt) % 7).float()


def total(n, count, salt=0):
    return sum(value(r, count, salt) for r in range(n))


def coalesced_all_reduce(rank, n):
    for count in SIZES:
        # One tensor twice and another one once.
        twice, alone = value(rank, count), value(rank, count, 1)
        dist.all_reduce_coalesced([twice, alone, twice])
        assert torch.equal(twice, total(n, count)), (count, twice[:4], total(n, count)[:4])
        assert torch.equal(alone, total(n, count, 1))
        # Slices that overlap by half.
        memory = value(rank, 3 * count)
        dist.all_reduce_coalesced([memory[:2 * count], memory[count:]])
        assert torch.equal(memory, total(n, 3 * count)), count
        # The library has no operator for this type, so the backend gathers.
        words = value(rank, count).short()
        dist.all_reduce_coalesced([words, words])
        assert torch.equal(words, total(n, count).short())
        # Only on one rank, because the memory layout may differ between ranks.
        first, second = value(rank, count), value(rank, count)
        dist.all_reduce_coalesced([first, first if rank == 0 else second])
        assert torch.equal(first, total(n, count))
        assert rank == 0 or torch.equal(second, total(n, count))


def gathers(rank, n):
    group = dist.distributed_c10d._get_default_group()
    for count in SIZES:
        memory = torch.zeros(n, count)
        # The input lies in the block of another rank.
        place = (rank + 1) % n
        memory[place] = value(rank, count)
        dist.all_gather(list(memory), memory[place])
        assert torch.equal(memory, torch.stack([value(r, count) for r in range(n)])), count
        memory.zero_()
        memory[place] = value(rank, count)
        dist._all_gather_base(memory.view(-1), memory[place])
        assert torch.equal(memory, torch.stack([value(r, count) for r in range(n)])), count
        memory.zero_()
        memory[place] = value(rank, count)
        dist.gather(memory[place], list(memory) if rank == 0 else None, 0)
        assert rank != 0 or torch.equal(memory, torch.stack([value(r, count) for r in range(n)])), count
        # Coalesced calls, of which the first writes the second's input.
        first = value(rank, count)
        outputs = [[torch.zeros(count), torch.zeros(count)] for _ in range(n)]
        second = outputs[place][0]
        second.copy_(value(rank, count, 1))
        group.allgather_coalesced(outputs, [first, second]).wait()
        for r in range(n):
            assert torch.equal(outputs[r][0], value(r, count)), count
            assert torch.equal(outputs[r][1], value(r, count, 1)), count


def scatters(rank, n):
    for count in SIZES:
        memory = torch.cat([value(rank, count, salt) for salt in range(n)])
        blocks = list(memory.chunk(n))
        dist.reduce_scatter(blocks[(rank + 1) % n], blocks)
        assert torch.equal(blocks[(rank + 1) % n], total(n, count, rank)), count
        memory = torch.cat([value(rank, count, salt) for salt in range(n)])
        blocks = list(memory.chunk(n))
        dist._reduce_scatter_base(blocks[(rank + 1) % n], memory)
        assert torch.equal(blocks[(rank + 1) % n], total(n, count, rank)), count
        memory = torch.cat([value(rank, count, salt) for salt in range(n)])
        blocks = list(memory.chunk(n))
        output = blocks[n - 1]
        dist.scatter(output, blocks if rank == 0 else None, 0)
        assert torch.equal(output, value(0, count, rank)), count


def exchanges(rank, n):
    for count in SIZES:
        memory = torch.cat([value(rank, count, salt) for salt in range(n)] + [torch.zeros(1)])
        dist.all_to_all_single(memory[1:], memory[:-1])
        assert torch.equal(memory[1:], torch.cat([value(r, count, rank) for r in range(n)])), count
        memory = torch.cat([value(rank, count, salt) for salt in range(n)])
        dist.all_to_all_single(memory, memory, [count] * n, [count] * n)
        assert torch.equal(memory, torch.cat([value(r, count, rank) for r in range(n)])), count


def tensor_lists(rank, n):
    """The coalesced forms of PyTorch 2.x."""
    group = dist.distributed_c10d._get_default_group()
    for count in SIZES:
        first, outputs = value(rank, count), [torch.zeros(n * count) for _ in range(2)]
        second = outputs[0][:count]
        second.copy_(value(rank, count, 1))
        group.allgather_into_tensor_coalesced(outputs, [first, second]).wait()
        for salt in range(2):
            assert torch.equal(outputs[salt], torch.cat([value(r, count, salt) for r in range(n)])), count
        first = torch.cat([value(rank, count, salt) for salt in range(n)])
        second = torch.cat([value(rank, count, salt + 1) for salt in range(n)])
        outputs = [second[:count], torch.zeros(count)]
        group.reduce_scatter_tensor_coalesced(outputs, [first, second]).wait()
        for salt in range(2):
            assert torch.equal(outputs[salt], total(n, count, rank + salt)), count


class Aliasing(unittest.TestCase):
    def each(self, body, several=(2, 3)):
        for n in several:
            with self.subTest(ranks=n):
                ranks.run(n, body, n)

    def test_coalesced_all_reduce(self):
        self.each(coalesced_all_reduce)

    def test_gathers(self):
        self.each(gathers)

    def test_scatters(self):
        self.each(scatters)

    def test_exchanges(self):
        self.each(exchanges)

    @unittest.skipIf(int(torch.__version__.split(".")[0]) < 2, "PyTorch 1.13 has no coalesced forms of tensors")
    def test_tensor_lists(self):
        self.each(tensor_lists)


if __name__ == "__main__":
    unittest.main()
