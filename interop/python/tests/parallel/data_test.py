"""Gradients averaged over ranks, beside one rank's training on all samples."""

import contextlib

import pytest
import ranks

import tutti

pytest.importorskip("tutti.parallel", exc_type=ImportError)
torch = pytest.importorskip("torch")
import tutti.parallel as tp  # noqa: E402
from transformer import Raising, adam, alone, batch, loss_of, mine, model  # noqa: E402
from torch import nn  # noqa: E402

CLOSE = {"rtol": 2e-4, "atol": 2e-5}


def same_everywhere(group, module):
    for parameter in module.parameters():
        everybody = parameter.new_empty(group.size, *parameter.shape)
        group.all_gather(parameter.detach(), everybody)
        for one in everybody:
            assert torch.equal(one, parameter)


def train(comm, options, microbatches, to_none):
    losses, plain = alone(tied=True)
    with tp.initialize(comm) as p:
        module = model(seed=1 + comm.rank, tied=True)  # rank 0's counts
        ddp = tp.DistributedDataParallel(module, bucket_cap_mb=0.001, **options)
        optimizer = adam(ddp.parameters())
        for step, expected in enumerate(losses):
            parts = mine(batch(step), comm.rank, comm.size).chunk(microbatches)
            total = 0
            # As in a pipeline: all forward passes before the first backward pass.
            for i, loss in enumerate([loss_of(ddp, part) / len(parts) for part in parts]):
                with contextlib.nullcontext() if i + 1 == len(parts) else ddp.no_sync():
                    loss.backward()
                total += loss.detach()
            assert sum(not torch.equal(one.grad, torch.zeros_like(one)) for one in ddp.parameters()) > 0
            optimizer.step()
            optimizer.zero_grad(set_to_none=to_none)
            p.data.all_reduce(total, total, "avg")
            assert total.item() == pytest.approx(expected, rel=1e-4)
        same_everywhere(p.data, module)
        for one, other in zip(module.parameters(), plain.parameters()):
            torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("options, microbatches, to_none",
                         [({}, 1, True), ({"find_unused_parameters": True}, 2, False)], ids=["plain", "accumulated"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_training_is_one_ranks(size, options, microbatches, to_none):
    ranks.run(size, train, options, microbatches, to_none)


def gradients(comm):
    with tp.initialize(comm) as p:
        module = nn.ModuleDict({"used": nn.Linear(3, 2), "by_rank_0": nn.Linear(3, 2), "unused": nn.Linear(3, 2)})

        class Choosing(nn.Module):

            def __init__(self):
                super().__init__()
                self.parts = module
                self.register_buffer("scale", torch.full((2,), float(comm.rank)))
                self.frozen = nn.Parameter(torch.full((2,), float(comm.rank)), requires_grad=False)

            def forward(self, x):
                y = self.parts["used"](x) + self.scale + self.frozen
                return {"y": [y + self.parts["by_rank_0"](x) if p.data.rank == 0 else y]}

        ddp = tp.DistributedDataParallel(Choosing(), find_unused_parameters=True)
        assert torch.equal(ddp.module.frozen, torch.zeros(2)) and torch.equal(ddp.module.scale, torch.zeros(2))
        x = torch.full((1, 3), float(comm.rank + 1))
        average = sum(range(1, comm.size + 1)) / comm.size
        for passes in (1, 2):  # without zero_grad, gradients add up
            ddp(x)["y"][0].sum().backward()
            torch.testing.assert_close(module["used"].weight.grad, torch.full((2, 3), passes * average))
            torch.testing.assert_close(module["by_rank_0"].weight.grad, torch.full((2, 3), passes / comm.size))
            assert module["unused"].weight.grad is None
        # Zeroed between forward and backward.
        loss = ddp(x)["y"][0].sum()
        for parameter in ddp.parameters():
            parameter.grad = None
        loss.backward()
        torch.testing.assert_close(module["used"].weight.grad, torch.full((2, 3), average))
        torch.testing.assert_close(module["by_rank_0"].weight.grad, torch.full((2, 3), 1 / comm.size))


@pytest.mark.parametrize("size", [1, 3])
def test_gradients_are_pytorchs(size):
    ranks.run(size, gradients)


def sent(comm, checkpoints):
    from torch.utils.checkpoint import checkpoint
    with tp.initialize(comm) as p:
        module = model(blocks=2)
        if checkpoints:  # backward passes inside of one, and nothing outside of them
            blocks = module.blocks
            whole = [lambda x: blocks[0](module.embedding(ids) + x), lambda x: module.head(module.norm(blocks[1](x)))]
            ids = mine(batch(0), comm.rank, comm.size)
            zero = torch.zeros((), requires_grad=True)
            module.forward = lambda _: checkpoint(whole[1], checkpoint(whole[0], zero, use_reentrant=True),
                                                  use_reentrant=True)
        ddp = tp.DistributedDataParallel(module, p.world)
        before = p.world.bytes_sent
        loss_of(ddp, mine(batch(0), comm.rank, comm.size)).backward()
        return p.world.bytes_sent - before, sum(one.numel() * 4 for one in module.parameters())


@pytest.mark.parametrize("size, checkpoints", [(2, False), (4, False), (2, True)])
def test_a_step_sends_an_all_reduce(size, checkpoints):
    results = ranks.run(size, sent, checkpoints, algorithm="ring")
    parameters = results[0][1]
    assert sum(bytes for bytes, _ in results) == 2 * (size - 1) * parameters


def overlap(comm):
    with tp.initialize(comm):
        module = model()
        ddp = tp.DistributedDataParallel(module, bucket_cap_mb=0.001)
        early = []
        module.embedding.weight.register_hook(lambda _: early.append(ddp._parts[0].core.buckets_sent()))
        loss_of(ddp, mine(batch(0), comm.rank, comm.size)).backward()
        return early, ddp._parts[0].core.buckets_sent()


def test_buckets_are_sent_while_backward_computes():
    for early, all_of_them in ranks.run(2, overlap):
        assert early == [all_of_them - 1]  # the embedding's gradient is the last


def experts(comm):
    with tp.initialize(comm, enable_expert_parallel=False, expert_parallel_size=2) as p:
        module = nn.ModuleDict({"dense": nn.Linear(3, 2, bias=False), "expert": nn.Linear(3, 2, bias=False)})
        module["expert"].weight.allreduce = False
        with torch.no_grad():
            module["expert"].weight.fill_(p.expert.rank)
        module.forward = lambda x: module["dense"](x) + module["expert"](x)
        ddp = tp.DistributedDataParallel(module, find_unused_parameters=True)
        assert torch.equal(module["expert"].weight, torch.full((2, 3), float(p.expert.rank)))
        ddp(torch.full((1, 3), float(comm.rank))).sum().backward()
        torch.testing.assert_close(module["dense"].weight.grad, torch.full((2, 3), sum(range(comm.size)) / comm.size))
        torch.testing.assert_close(module["expert"].weight.grad,
                                   torch.full((2, 3), sum(p.expert_data.ranks) / comm.size))


def test_experts_are_averaged_where_they_are():
    ranks.run(4, experts)


def double(comm):
    """Gradients that can be differentiated again are not added in place."""
    with tp.initialize(comm):
        module = nn.Linear(3, 1, bias=False)
        ddp = tp.DistributedDataParallel(module)
        for passes in (1, 2):
            ddp(torch.full((1, 3), float(comm.rank))).sum().backward(create_graph=True)
            torch.testing.assert_close(module.weight.grad, torch.full((1, 3), passes * (comm.size - 1) / 2))


@pytest.mark.filterwarnings("ignore:Using backward")
def test_differentiable_gradients():
    ranks.run(2, double)


def checkpointed(comm, reentrant):
    from torch.utils.checkpoint import checkpoint
    losses, plain = alone(steps=1)
    with tp.initialize(comm):
        module = model()
        for block in module.blocks:
            block.forward = (lambda forward: lambda x: checkpoint(forward, x, use_reentrant=reentrant))(block.forward)
        ddp = tp.DistributedDataParallel(module, bucket_cap_mb=0.001)
        loss_of(ddp, mine(batch(0), comm.rank, comm.size)).backward()
        optimizer = adam(ddp.parameters())
        optimizer.step()
        for one, other in zip(module.parameters(), plain.parameters()):
            torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(reentrant):
    ranks.run(2, checkpointed, reentrant)


def raises(comm, catches, folder):
    signs = ranks.Signs(folder)
    with tp.initialize(comm):
        module = model()
        ddp = tp.DistributedDataParallel(module, bucket_cap_mb=0.001)
        middle = module.blocks[1].forward
        module.blocks[1].forward = lambda x: Raising.apply(middle(x), comm.rank == 1)
        try:
            loss_of(ddp, mine(batch(0), comm.rank, comm.size)).backward()
        except (RuntimeError, tutti.Error):
            signs.give(str(comm.rank))
            if not catches or comm.rank != 1:
                raise
            with pytest.raises(tutti.InvalidUsageError, match="ended the last backward pass"):
                ddp(batch(1))
            for other in ("0", "2"):  # this rank neither ends nor closes anything meanwhile
                signs.wait_for(other)
            raise


@pytest.mark.parametrize("catches", [False, True])
def test_a_rank_that_raises_in_backward_is_named(catches, tmp_path):
    for rank, (kind, what) in enumerate(ranks.outcomes(3, raises, catches, tmp_path)):
        assert kind == "error"
        if rank == 1:
            assert "this rank's own error" in what[1] and "no sign" not in what[1]
        else:
            assert isinstance(what[0], tutti.RemoteError), what[1]
            assert "rank 1" in str(what[0])


def differing(comm):
    with tp.initialize(comm) as p:
        with pytest.raises(tutti.InvalidUsageError) as raised:
            tp.DistributedDataParallel(nn.Linear(3, 2 + comm.rank // 2))
        p.data_context.barrier()
        with pytest.raises(tutti.InvalidArgumentError, match="requires a gradient"):
            tp.DistributedDataParallel(nn.ReLU())
        return str(raised.value)


def test_models_that_differ_are_named_by_every_rank():
    for said in ranks.run(3, differing):
        assert "[2, 3]" in said and "[3, 3]" in said and "rank 2" in said


def bfloats(comm):
    with tp.initialize(comm):
        module = nn.Linear(3, 2).to(torch.bfloat16)
        ddp = tp.DistributedDataParallel(module)
        ddp(torch.full((1, 3), float(comm.rank), dtype=torch.bfloat16)).sum().backward()
        assert module.weight.grad.dtype == torch.bfloat16
        assert torch.equal(module.weight.grad.float(), torch.full((2, 3), 0.5))


def test_bfloat16():
    ranks.run(2, bfloats)
