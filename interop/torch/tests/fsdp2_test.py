"""Tests fully_shard (FSDP2) with a small model: it computes the same on tutti as one process, also as hybrid shards."""

import unittest

import torch
import torch.distributed as dist

import ranks
from fsdp_test import SAMPLES, make_model, train

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    REASON = None
except Exception as error:
    REASON = f"{type(error).__name__}: {error}"


def sharded(rank, n, hybrid, options):
    """Losses of a model in shards over all ranks; `hybrid`: in shards over two ranks, which the others copy."""
    shape, names = ((n // 2, 2), ("copy", "shard")) if hybrid else ((n,), ("shard",))
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    model = make_model()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)

    def mean(loss):
        dist.all_reduce(loss)
        return loss / n

    return train(model, slice(rank * SAMPLES, (rank + 1) * SAMPLES), mean)


def trains_at_all():
    """None, or why FSDP2 does not train here, on Gloo neither."""
    if REASON is not None:
        return REASON
    for outcome in ranks.outcomes(2, sharded, 2, False, {}, backend="gloo"):
        if outcome.error is not None:
            return outcome.error.strip().splitlines()[-1]
    return None


class FullyShardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = trains_at_all()
        if reason is not None:
            raise unittest.SkipTest(f"on Gloo: {reason}")

    def test_trains_as_one_process_does(self):
        for n, hybrid in ((1, False), (2, False), (3, False), (4, False), (4, True)):
            one = train(make_model(), slice(0, n * SAMPLES), lambda loss: loss)
            for options in ({}, {"reshard_after_forward": False}):
                with self.subTest(ranks=n, hybrid=hybrid, options=options):
                    for losses in ranks.run(n, sharded, n, hybrid, options):
                        torch.testing.assert_close(torch.tensor(losses), torch.tensor(one))


if __name__ == "__main__":
    unittest.main()
