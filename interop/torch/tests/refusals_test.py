"""Tests that bad input is refused before anything is sent, and both values are named. The group must still work."""

import unittest

import torch
import torch.distributed as dist

import tutti_torch

import ranks


def refused(words, call, *arguments, **named):
    """Checks that `call` raises InvalidArgument with all `words` in its message."""
    try:
        call(*arguments, **named)
    except tutti_torch.InvalidArgument as error:
        assert isinstance(error, ValueError) and isinstance(error, RuntimeError)
        message = str(error).splitlines()[0]
        for word in words:
            assert word in message, f"no {word!r} in: {message}"
        return
    raise AssertionError(f"not refused; expected a message with {words}")


def bad_tensors(rank, n):
    good = torch.ones(4)
    across = torch.ones(4, 4).t()
    group = dist.distributed_c10d._get_default_group()
    others = [torch.ones(4) for _ in range(n)]
    refused(["all_reduce", "strides [1, 4]", "[4, 1]"], dist.all_reduce, across)
    refused(["broadcast", "strides [2]", "[1]"], dist.broadcast, torch.ones(8)[::2], 0)
    refused(["send", "strides"], dist.send, across, (rank + 1) % n)
    refused(["AVG", "bool"], dist.all_reduce, torch.ones(2).bool(), dist.ReduceOp.AVG)
    refused(["BAND", "Float"], dist.all_reduce, good, dist.ReduceOp.BAND)
    refused(["all_gather_coalesced", "Tensors must be contiguous", "strides"], group.allgather_coalesced,
            [[torch.ones(4, 4).t()] for _ in range(n)], [torch.ones(4, 4)])
    refused(["all_gather", f"is {n + 1}", f"is {n}"], group.allgather, [others + [good]], [good])
    refused(["all_gather", "tensor_list[0]", "4", "5"], group.allgather, [others], [torch.ones(5)])
    refused(["all_gather", "Double", "Float"], group.allgather, [[good.double()] + others[1:]], [good])
    refused(["all_gather_into_tensor", str(4 * n + 1), str(4 * n)], group._allgather_base, torch.ones(4 * n + 1), good)
    refused(["reduce_scatter", "is 3", "is 4"], group.reduce_scatter, [torch.ones(3)], [others])
    refused(["reduce_scatter_tensor", str(4 * n + 1), str(4 * n)], group._reduce_scatter_base, good,
            torch.ones(4 * n + 1))
    refused(["all_to_all_single", "multiple", "5"], group.alltoall_base, torch.ones(5),
            torch.ones(5), [], [])
    refused(["all_to_all_single", "sum", "is 7", "is 4"], group.alltoall_base, good, good, [1] * (n - 1) + [8 - n],
            [4] + [0] * (n - 1))
    refused(["all_to_all_single", "negative", "-1"], group.alltoall_base, good, good, [-1, 5] + [0] * (n - 2),
            [4] + [0] * (n - 1))
    for tensors in ([good, good],):
        refused(["all_reduce", f"{len(tensors)} tensors were given", "one"], group.allreduce, tensors)
        refused(["all_gather", f"{len(tensors)} tensors were given", "one"], group.allgather, [others], tensors)
    # In coalesced lists, every rank refuses a wrong size, even in the place of another rank.
    for place in range(n):
        lists = [[torch.zeros(4)] for _ in range(n)]
        lists[place] = [torch.zeros(5)]
        refused(["all_gather_coalesced", "is 5", "is 4"], group.allgather_coalesced, lists, [good])
        lists[place] = [torch.zeros(4).double()]
        refused(["all_gather_coalesced", "Double", "Float"], group.allgather_coalesced, lists, [good])
    refused(["all_gather_coalesced", f"is {n + 1}", f"is {n}"], group.allgather_coalesced,
            [[torch.zeros(4)] for _ in range(n + 1)], [good])
    refused(["gather", "dst", "99"], group.gather, [], [good], gather_options(99))
    refused(["broadcast", "src", "-1"], group.broadcast, [good], broadcast_options(-1))
    refused(["send", "caller"], group.send, [good], rank, 0)
    refused(["recv", "src", "99"], group.recv, [good], 99, 0)
    # None of the above was sent.
    dist.all_reduce(good)
    assert good.eq(n).all()


def gather_options(root):
    options = dist.GatherOptions()
    options.rootRank = root
    return options


def broadcast_options(root):
    options = dist.BroadcastOptions()
    options.rootRank = root
    return options


def other_device(rank, n):
    from torch.distributed.distributed_c10d import _get_default_group

    backend = _get_default_group()._get_backend(torch.device("cpu"))
    refused(["all_reduce", "meta", "cpu"], backend.allreduce, [torch.ones(3, device="meta")])
    dist.barrier()


class Refusals(unittest.TestCase):
    def test_bad_tensors(self):
        for n in (2, 3):
            ranks.run(n, bad_tensors, n)

    @unittest.skipIf(int(torch.__version__.split(".")[0]) < 2, "PyTorch 1.13 refuses tensors on other devices by itself")
    def test_other_device(self):
        ranks.run(2, other_device, 2)


if __name__ == "__main__":
    unittest.main()
