"""Tests future callbacks that start operations on the same group and wait for them, as DDP's communication hooks do."""

import unittest

import torch
import torch.distributed as dist

import ranks
from ddp_test import DDP, REASON

HANG = 60  # seconds after which a test counts as hung
HANG_ON_GLOO = 20


def nested(group, n, depth):
    """An all-reduce's future, whose callback starts the next all-reduce and waits for it, `depth` levels deep."""

    def inner(done):
        assert done.value()[0].eq(n).all()
        return nested(group, n, depth - 1).wait() + 1 if depth > 0 else torch.zeros(3)

    return dist.all_reduce(torch.ones(3), group=group, async_op=True).get_future().then(inner)


def future_in_callback(rank, n, depth):
    assert nested(None, n, depth).wait().eq(depth).all()
    # One chain per group, because the program must order the operations that callbacks issue in a group.
    groups = [dist.new_group() for _ in range(4)]
    for _ in range(5):
        for future in [nested(group, n, depth) for group in groups]:
            assert future.wait().eq(depth).all()


def chained(rank, n):
    """Each callback of a chain starts an operation, as in PowerSGD."""

    def again(done):
        value = done.value()
        tensor = (value[0] if isinstance(value, list) else value).clone()
        return dist.all_reduce(tensor, async_op=True).get_future().wait()[0]

    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    for _ in range(3):
        future = future.then(again)
    assert future.wait().eq(n**4).all()


def other_calls(rank, n):
    """The same with other operations, and with sends and receives, which use separate channels."""
    peer = rank ^ 1
    got = torch.zeros(1)

    def exchange(done):
        sent = dist.isend(torch.tensor([float(rank)]), peer)
        dist.irecv(got, peer).get_future().wait()
        sent.wait()
        outputs = [torch.zeros(1) for _ in range(n)]
        dist.all_gather(outputs, got, async_op=True).get_future().wait()
        return torch.cat(outputs)

    future = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(exchange)
    assert future.wait().tolist() == [float(r ^ 1) for r in range(n)]


def own_work(rank, n):
    """A callback may wait for its own operation."""
    work = dist.all_reduce(torch.ones(3), async_op=True)
    future = work.get_future().then(lambda done: work.wait() and work.is_completed())
    assert future.wait()


def failing(rank, n):
    """The chained future gets a callback's exception, and the group still works."""

    def throws(done):
        dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
        raise KeyError("of the callback")

    try:
        dist.all_reduce(torch.ones(3), async_op=True).get_future().then(throws).wait()
    except Exception as error:
        assert "of the callback" in str(error), error
    else:
        raise AssertionError("no exception")
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.eq(n).all()


def hooked(rank, n, kind):
    """Losses and parameters of a model whose gradients go through a communication hook."""
    torch.manual_seed(0)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.ReLU(), torch.nn.Linear(30, 3)))
    if kind.startswith("quantization"):
        from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks as quantization

        model.register_comm_hook(None, getattr(quantization, kind))
    else:
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd

        # batched_powerSGD_hook of PyTorch 2.15 passes one matrix to its own _orthogonalize, which takes a batch.
        orthogonalize = powersgd._orthogonalize
        powersgd._orthogonalize = lambda matrices, epsilon=0: orthogonalize(
            matrices if matrices.dim() == 3 else matrices.unsqueeze(0), epsilon)
        state = powersgd.PowerSGDState(process_group=None, matrix_approximation_rank=1, start_powerSGD_iter=2,
                                       min_compression_rate=0.5)
        model.register_comm_hook(state, getattr(powersgd, kind))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(6):
        generator = torch.Generator().manual_seed(100 * step + rank)
        inputs = torch.randn(16, 40, generator=generator)
        targets = torch.randint(0, 3, (16,), generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().clone().numpy() for parameter in model.parameters()]


class Callbacks(unittest.TestCase):
    def each(self, body, several, *arguments):
        for n in several:
            with self.subTest(ranks=n):
                ranks.run(n, body, n, *arguments, patience=HANG)

    def test_future_in_callback(self):
        for depth in (1, 2, 3):
            self.each(future_in_callback, [1, 2, 4], depth)

    def test_chained(self):
        self.each(chained, [2, 3])

    def test_other_calls(self):
        self.each(other_calls, [2, 4])

    def test_own_work(self):
        self.each(own_work, [2])

    def test_failing(self):
        self.each(failing, [2])

    @unittest.skipIf(DDP is None, f"this PyTorch cannot import DistributedDataParallel: {REASON}")
    def test_hooks(self):
        for kind in ("powerSGD_hook", "batched_powerSGD_hook", "quantization_pertensor_hook",
                     "quantization_perchannel_hook"):
            with self.subTest(kind):
                # Gloo of PyTorch 2.6 now and then hangs or aborts here, so it need not end.
                on_gloo = ranks.outcomes(2, hooked, 2, kind, backend="gloo", patience=HANG_ON_GLOO)
                # PyTorch 2.6 reads the result of all_gather as if it were a list of lists, as only NCCL's is.
                if any("IndexError" in (outcome.error or "") for outcome in on_gloo):
                    self.skipTest("this PyTorch's hook runs on NCCL alone")
                on_tutti = ranks.run(2, hooked, 2, kind, patience=HANG)
                for a, b in zip(on_tutti[0][1], on_tutti[1][1]):
                    self.assertTrue((a == b).all(), "ranks have different parameters")
                if not all(outcome.value for outcome in on_gloo):
                    continue
                on_gloo = [outcome.value for outcome in on_gloo]
                for (losses, parameters), (gloo_losses, gloo_parameters) in zip(on_tutti, on_gloo):
                    for a, b in zip(losses, gloo_losses):
                        self.assertAlmostEqual(a, b, places=5)
                    for a, b in zip(parameters, gloo_parameters):
                        torch.testing.assert_close(torch.from_numpy(a), torch.from_numpy(b))


if __name__ == "__main__":
    unittest.main()
