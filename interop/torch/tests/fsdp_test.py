"""Tests FullyShardedDataParallel with a small model: it computes the same on tutti as one process, and as on gloo."""

import unittest

import torch
import torch.distributed as dist

import ranks

STEPS = 5
SAMPLES = 4  # per rank


def fsdp_or_reason():
    """FullyShardedDataParallel with its policy, or the reason why this PyTorch has none for host memory."""
    if int(torch.__version__.split(".")[0]) < 2:
        return None, "before 2.0 FullyShardedDataParallel is for GPUs"
    try:
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    return (FullyShardedDataParallel, ModuleWrapPolicy), None


FSDP, REASON = fsdp_or_reason()


def make_model():
    torch.manual_seed(0)
    # 33 makes the shards uneven.
    return torch.nn.Sequential(torch.nn.Linear(16, 33), torch.nn.ReLU(), torch.nn.Linear(33, 16), torch.nn.ReLU(),
                               torch.nn.Linear(16, 4))


def train(model, samples, mean):
    """The losses of a few steps on `samples`, a slice of all samples. `mean` averages a loss over all ranks."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        inputs, targets = torch.randn(64, 16, generator=generator), torch.randn(64, 4, generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs[samples]), targets[samples])
        loss.backward()
        optimizer.step()
        losses.append(mean(loss.detach().clone()).item())
    return losses


def sharded(rank, strategy):
    from torch.distributed.fsdp import ShardingStrategy

    wrap, policy = FSDP
    model = wrap(make_model(), auto_wrap_policy=policy({torch.nn.Linear}), device_id=torch.device("cpu"),
                 sharding_strategy=getattr(ShardingStrategy, strategy))

    def mean(loss):
        dist.all_reduce(loss)
        return loss / dist.get_world_size()

    return train(model, slice(rank * SAMPLES, (rank + 1) * SAMPLES), mean)


@unittest.skipIf(FSDP is None, REASON)
class FullyShardedDataParallelTest(unittest.TestCase):
    def test_trains_as_one_process_does(self):
        for n in (2, 3, 4):
            one = train(make_model(), slice(0, n * SAMPLES), lambda loss: loss)
            for strategy in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
                with self.subTest(ranks=n, strategy=strategy):
                    for losses in ranks.run(n, sharded, strategy):
                        torch.testing.assert_close(torch.tensor(losses), torch.tensor(one))

    def test_is_what_it_is_on_gloo(self):
        on_gloo = ranks.run(2, sharded, "FULL_SHARD", backend="gloo")
        on_tutti = ranks.run(2, sharded, "FULL_SHARD")
        torch.testing.assert_close(torch.tensor(on_tutti), torch.tensor(on_gloo))


if __name__ == "__main__":
    unittest.main()
