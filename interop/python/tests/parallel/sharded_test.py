"""Sharded training beside one rank's on all samples; what it keeps, sends, saves and refuses."""

import contextlib
import os
import pathlib

import pytest
import ranks

import tutti

pytest.importorskip("tutti.parallel", exc_type=ImportError)
torch = pytest.importorskip("torch")
import tutti.parallel as tp  # noqa: E402
from transformer import Raising, adam, alone, batch, loss_of, mine, model  # noqa: E402
from torch import nn  # noqa: E402

CLOSE = {"rtol": 2e-4, "atol": 2e-5}
FLOAT = 4  # bytes


def train(fsdp, optimizer, group, steps, losses, microbatches=1, clip=None, how=""):
    for step in steps:
        parts = mine(batch(step), group.rank, group.size).chunk(microbatches)
        total = 0
        # As in a pipeline: all forward passes before the first backward pass.
        ahead = [loss_of(fsdp, part) for part in parts] if how == "pipelined" else []
        for i, part in enumerate(parts):
            with contextlib.nullcontext() if how == "synchronised" or i + 1 == len(parts) else fsdp.no_sync():
                loss = (ahead[i] if ahead else loss_of(fsdp, part)) / len(parts)
                loss.backward()
            total += loss.detach()
        if clip is not None:
            fsdp.clip_grad_norm_(clip)
        optimizer.step()
        optimizer.zero_grad()
        group.all_reduce(total, total, "avg")
        assert total.item() == pytest.approx(losses[step], rel=2e-4)


def same_model(state, plain):
    for name, expected in plain.state_dict().items():
        torch.testing.assert_close(state[name], expected, **CLOSE)


def trains(comm, stage, shard_group_size, microbatches, how):
    losses, plain = alone(tied=how == "tied", clip=0.1 if how == "clipped" else None)
    with tp.initialize(comm) as p:
        module = model(seed=1 + comm.rank, tied=how == "tied")  # rank 0's counts
        units = [module.embedding, *module.blocks, module.norm, module.head] if how == "all in units" else None
        fsdp = tp.FullyShardedDataParallel(module, units, stage=stage, shard_group_size=shard_group_size)
        assert len(list(fsdp.parameters())) == (6 if units else 4)
        train(fsdp, adam(fsdp.parameters()), p.data_context, range(4), losses, microbatches,
              clip=0.1 if how == "clipped" else None, how=how)
        same_model(fsdp.state_dict(), plain)
        # A stage that shards parameters keeps no whole ones.
        whole = FLOAT * sum(one.numel() for one in plain.parameters())
        shards = FLOAT * sum(one.numel() for one in fsdp.parameters())
        sharing = comm.size > 1 and shard_group_size != 1
        assert all(fsdp._core.sharded(unit.index) for unit in fsdp._units) or not sharing or stage in (1, 2)
        memory = fsdp.memory()
        assert memory["parameters"][0] == (shards if sharing and stage in (3, "FULL_SHARD") else whole)
        assert memory["gradients"][0] == (whole if not sharing or stage == 1 else shards)
        assert all(one.numel() == 0 and one.grad is None for one in module.parameters())


@pytest.mark.parametrize("size, stage, shard_group_size, microbatches, how", [
    (1, 3, 0, 2, ""), (2, 1, 0, 2, ""), (2, 2, 0, 1, "tied"), (2, "FULL_SHARD", 0, 2, "clipped"),
    (2, 1, 0, 2, "synchronised"), (2, 3, 0, 2, "synchronised"), (2, 1, 0, 2, "pipelined"),
    (2, 3, 0, 4, "pipelined"), (4, 1, 0, 1, "clipped"), (4, 2, 0, 2, "all in units"),
    (4, 3, 0, 1, "tied"), (4, 3, 2, 2, "clipped"), (4, 2, 1, 1, "")])
def test_training_is_one_ranks(size, stage, shard_group_size, microbatches, how):
    ranks.run(size, trains, stage, shard_group_size, microbatches, how)


def bfloats(comm, stage):
    losses, plain = alone(steps=8)
    with tp.initialize(comm) as p:
        fsdp = tp.FullyShardedDataParallel(model(dtype=torch.bfloat16), stage=stage)
        optimizer = adam(fsdp.parameters())
        assert all(one.dtype == torch.float32 for one in fsdp.parameters())
        for step, expected in enumerate(losses):
            loss = loss_of(fsdp, mine(batch(step), comm.rank, comm.size))
            assert loss.grad_fn is not None and fsdp.module.head.weight.dtype == torch.bfloat16
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total = loss.detach().clone()
            p.data.all_reduce(total, total, "avg")
            assert total.item() == pytest.approx(expected, rel=0.02)  # bfloat16 has 8 bits
        assert fsdp.memory()["master_copies"][0] == FLOAT * sum(one.numel() for one in fsdp.parameters())


@pytest.mark.parametrize("stage", [1, 3])
def test_bfloat16_has_a_master_copy(stage):
    ranks.run(2, bfloats, stage)


def parameters_kept(comm):
    with tp.initialize(comm):
        fsdp = tp.FullyShardedDataParallel(model(blocks=4))
        ahead = []
        fsdp.module.norm.register_forward_hook(
            lambda _, inputs, output: output.register_hook(lambda _: ahead.append(fsdp._core.sharded(4))) and None)
        loss = loss_of(fsdp, mine(batch(0), comm.rank, comm.size))
        shards = FLOAT * sum(one.numel() for one in fsdp.parameters())
        sizes = {unit.name: FLOAT * sum(shape.numel() for shape in unit.shapes) for unit in fsdp._units}
        assert fsdp.memory()["parameters"][0] == shards  # nothing is whole between forward and backward
        loss.backward()
        assert ahead == [False]  # the last block is gathered while the layers behind it compute
        # The root, a block, and the one that is gathered ahead.
        assert fsdp.memory()["parameters"] == (shards, shards + sizes["root"] + 2 * sizes["blocks.0"])
        assert all(fsdp._core.sharded(unit.index) for unit in fsdp._units)


def test_parameters_are_there_only_while_their_unit_computes():
    ranks.run(2, parameters_kept)


def saved_by_autograd(comm):
    with tp.initialize(comm):
        fsdp = tp.FullyShardedDataParallel(nn.ModuleList([nn.Linear(6, 6, bias=False) for _ in range(3)]))
        layers = fsdp.module
        packed = []
        pack = fsdp._pack
        fsdp._pack = lambda tensor: packed.append(pack(tensor)) or packed[-1]

        def compute(x):
            for layer in layers:
                x = layer(x.tanh())
            return x

        layers.forward = compute
        x = torch.full((4, 6), 0.5, requires_grad=True)
        fsdp._compute = compute
        fsdp(x).sum().backward()
        # Each layer's weight by its place, though autograd has a transposed view of it.
        assert sum(isinstance(one, tuple) for one in packed) >= 2
        assert not any(one.numel() == 36 for one in packed if isinstance(one, torch.Tensor))
        assert x.grad.abs().sum() > 0


def test_autograd_keeps_no_parameters():
    ranks.run(2, saved_by_autograd)


def sent(comm, stage, microbatches):
    with tp.initialize(comm) as p:
        module = model()
        last = module.blocks[2]
        computes = last.forward
        # A block whose outputs include its input.
        last.forward = lambda x: (x, computes(x))
        module.norm.register_forward_pre_hook(lambda _, inputs: (inputs[0][1] + 0 * inputs[0][0],))
        fsdp = tp.FullyShardedDataParallel(module, stage=stage, group=p.world)
        optimizer = adam(fsdp.parameters())
        bytes = []
        for step in range(3):
            before = sum(fsdp.bytes_sent().values())
            parts = mine(batch(step), comm.rank, comm.size).chunk(microbatches)
            for i, part in enumerate(parts):
                with contextlib.nullcontext() if i + 1 == len(parts) else fsdp.no_sync():
                    loss_of(fsdp, part).backward()
            optimizer.step()
            optimizer.zero_grad()
            bytes.append(sum(fsdp.bytes_sent().values()) - before)
        return bytes[1:], FLOAT * sum(shape.numel() for unit in fsdp._units for shape in unit.shapes)


@pytest.mark.parametrize("size, stage, microbatches", [(2, 1, 2), (4, 2, 1), (2, 3, 2), (4, 3, 1)])
def test_a_step_sends_what_the_papers_say(size, stage, microbatches):
    results = ranks.run(size, sent, stage, microbatches, algorithm="ring")
    parameters = results[0][1]
    gathers = 2 * microbatches if stage == 3 else 1
    reductions = 1 if stage == 1 else microbatches
    for step in (0, 1):
        assert sum(bytes[step] for bytes, _ in results) == (gathers + reductions) * (size - 1) * parameters


def saves(comm, path, make_optimizer, stage, dtype):
    with tp.initialize(comm) as p:
        fsdp = tp.FullyShardedDataParallel(model(tied=True, dtype=dtype), stage=stage)
        optimizer = make_optimizer(fsdp.parameters())
        for step in range(3):
            loss_of(fsdp, mine(batch(step), comm.rank, comm.size)).backward()
            optimizer.step()
            optimizer.zero_grad()
        saved = {"model": fsdp.state_dict(rank0_only=True),
                 "optimizer": fsdp.optimizer_state_dict(optimizer, rank0_only=True)}
        assert (comm.rank == 0) == bool(saved["model"])
        if comm.rank == 0:
            torch.save(saved, path)
        p.data.barrier()
        return goes_on(fsdp, optimizer, p.data, range(3, 6))


def goes_on(fsdp, optimizer, group, steps):
    losses = []
    for step in steps:
        loss = loss_of(fsdp, mine(batch(step), group.rank, group.size))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        group.all_reduce(total, total, "avg")
        losses.append(total.item())
    return losses


def loads(comm, path, make_optimizer, stage, dtype):
    with tp.initialize(comm) as p:
        module = model(seed=9, tied=True, dtype=dtype)
        fsdp = tp.FullyShardedDataParallel(module, list(module.blocks)[1:], stage=stage)  # other units, too
        optimizer = make_optimizer(fsdp.parameters())
        saved = torch.load(path)
        fsdp.load_state_dict(saved["model"])
        fsdp.load_optimizer_state_dict(optimizer, saved["optimizer"])
        again = fsdp.state_dict()
        for name, one in saved["model"].items():
            assert torch.equal(again[name], one), name
        for name, state in fsdp.optimizer_state_dict(optimizer)["state"].items():
            for key, one in state.items():
                other = saved["optimizer"]["state"][name][key]
                assert torch.equal(torch.as_tensor(one), torch.as_tensor(other)), (name, key)
        return goes_on(fsdp, optimizer, p.data, range(3, 6))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def amsgrad(parameters):
    return adam(parameters, amsgrad=True)


@pytest.mark.parametrize("before, after, make_optimizer, dtype", [
    (4, 2, adam, torch.float32), (2, 4, sgd, torch.float32), (1, 2, amsgrad, torch.float32),
    (2, 2, adam, torch.bfloat16)])
def test_a_run_goes_on_at_another_number_of_ranks(tmp_path, before, after, make_optimizer, dtype):
    path = str(tmp_path / "state.pt")
    expected = ranks.run(before, saves, path, make_optimizer, 3, dtype)[0]
    close = {"rel": 1e-4} if before != after else {"rel": 0, "abs": 0}
    assert ranks.run(after, loads, path, make_optimizer, 2, dtype)[0] == pytest.approx(expected, **close)
    # The plain module loads it, too.
    plain = model(tied=True)
    plain.load_state_dict(torch.load(path)["model"])


def evaluates(comm):
    losses, plain = alone(steps=2)
    with tp.initialize(comm):
        fsdp = tp.FullyShardedDataParallel(model())
        optimizer = adam(fsdp.parameters())
        for step in range(2):
            with torch.no_grad():
                before = loss_of(fsdp, batch(step)).item()
            assert before == pytest.approx(losses[step], rel=1e-4)
            loss_of(fsdp, batch(step)).backward()
            optimizer.step()
            optimizer.zero_grad()


def test_evaluation_between_steps():
    ranks.run(2, evaluates)


def checkpointed(comm, reentrant, outside):
    from torch.utils.checkpoint import checkpoint
    losses, plain = alone(steps=2)
    with tp.initialize(comm) as p:
        module = model()

        def wrapped(block):
            forward = block.forward
            return lambda x: checkpoint(forward, x, use_reentrant=reentrant)

        if not outside:
            for block in module.blocks:
                block.forward = wrapped(block)
        fsdp = tp.FullyShardedDataParallel(module)
        if outside:
            for block in module.blocks:
                block.forward = wrapped(block)
        train(fsdp, adam(fsdp.parameters()), p.data, range(2), losses)
        same_model(fsdp.state_dict(), plain)


@pytest.mark.parametrize("reentrant, outside", [(False, False), (True, False), (False, True), (True, True)])
def test_activation_checkpointing(reentrant, outside):
    ranks.run(2, checkpointed, reentrant, outside)


class Uneven(nn.Module):
    """Uses not every parameter, some units twice, and returns more than a tensor."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(5, 5), nn.Linear(5, 5, bias=False), nn.Linear(5, 5)])
        self.unused, self.gain = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(5))
        self.frozen = nn.Parameter(torch.full((5,), 2.0), requires_grad=False)
        self.register_buffer("scale", torch.ones(5))

    def forward(self, x):
        first = self.blocks[0](x).tanh()
        twice = self.blocks[1](self.blocks[1](first).tanh())
        return {"y": (twice * self.scale * self.gain, first), "z": [self.frozen + twice]}


def uneven(comm, stage):
    torch.set_num_threads(1)
    with tp.initialize(comm):
        torch.manual_seed(3)
        plain, module = Uneven(), Uneven()
        module.load_state_dict(plain.state_dict())
        with torch.no_grad():
            module.frozen.add_(comm.rank)
        fsdp = tp.FullyShardedDataParallel(module, stage=stage)
        ours, theirs = sgd(fsdp.parameters()), sgd([one for one in plain.parameters() if one.requires_grad])
        inputs = torch.randn(comm.size, 4, 5)
        for _ in range(3):
            outputs = [plain(x) for x in inputs]
            (sum(one["y"][0].sum() + one["z"][0].square().sum() for one in outputs) / comm.size).backward()
            theirs.step()
            theirs.zero_grad()
            output = fsdp(inputs[comm.rank])
            (output["y"][0].sum() + output["z"][0].square().sum()).backward()
            ours.step()
            ours.zero_grad()
        same_model(fsdp.state_dict(), plain)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_unused_and_reused_parameters(stage):
    ranks.run(3, uneven, stage)


class Choosing(nn.Module):
    """A block that does not always use all of its parameters, and uses one also without its gradient."""

    def __init__(self):
        super().__init__()
        self.always, self.sometimes, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.gain = nn.Parameter(torch.full((6,), 0.7))

    def forward(self, x, chooses):
        y = self.always(x * self.gain.detach())
        if chooses:
            y = y + self.sometimes(y)
        return x + self.last((y * self.gain).tanh())


class Choosers(nn.Module):

    def __init__(self, checkpoints=False):
        super().__init__()
        self.blocks = nn.ModuleList(Choosing() for _ in range(4))
        self.checkpoints = checkpoints

    def forward(self, x, leaves_out=None):
        from torch.utils.checkpoint import checkpoint
        x = x.clone().requires_grad_()
        for i, block in enumerate([*self.blocks, self.blocks[1]]):
            x = checkpoint(block, x, True, use_reentrant=True) if self.checkpoints else block(x, i != leaves_out)
        return x


def chooses(comm, stage, checkpoints):
    torch.set_num_threads(1)
    with tp.initialize(comm):
        torch.manual_seed(4)
        plain = Choosers()
        module = Choosers(checkpoints)
        module.load_state_dict(plain.state_dict())
        fsdp = tp.FullyShardedDataParallel(module, stage=stage)
        assert len({unit.shard.numel() for unit in fsdp._units}) == 1  # units that messages do not tell apart
        ours, theirs = sgd(fsdp.parameters()), sgd(plain.parameters())
        inputs = torch.randn(comm.size, 4, 6)
        for _ in range(3):
            leaves_out = [2 if rank == 1 and not checkpoints else None for rank in range(comm.size)]
            (sum(plain(x, out).square().sum() for x, out in zip(inputs, leaves_out)) / comm.size / 100).backward()
            theirs.step()
            theirs.zero_grad()
            (fsdp(inputs[comm.rank], leaves_out[comm.rank]).square().sum() / 100).backward()
            ours.step()
            ours.zero_grad()
        same_model(fsdp.state_dict(), plain)


@pytest.mark.parametrize("stage", [1, 2])
def test_a_parameter_that_one_rank_leaves_out(stage):
    ranks.run(2, chooses, stage, False)


def test_a_parameter_that_one_rank_leaves_out_of_whole_sharding():
    for kind, what in ranks.outcomes(2, chooses, 3, False):
        assert kind == "error" and isinstance(what[0], (tutti.InvalidUsageError, tutti.RemoteError)), what
        assert "rank 0" in str(what[0]) and "rank 1" in str(what[0])


@pytest.mark.parametrize("stage", [2, 3])
def test_a_unit_in_several_reentrant_checkpoints(stage):
    ranks.run(2, chooses, stage, True)


def test_stage_1_refuses_several_reentrant_checkpoints():
    for kind, what in ranks.outcomes(2, chooses, 1, True):
        assert kind == "error" and "use_reentrant=False" in what[1]


def raises(comm, where, shard_group_size):
    with tp.initialize(comm):
        module = model()
        middle = module.blocks[1].forward

        def computes(x):
            if where == "forward" and comm.rank == 1:
                raise RuntimeError("this rank's own error")
            return Raising.apply(middle(x), comm.rank == 1)

        module.blocks[1].forward = computes
        fsdp = tp.FullyShardedDataParallel(module, shard_group_size=shard_group_size)
        loss_of(fsdp, mine(batch(0), comm.rank, comm.size)).backward()


@pytest.mark.parametrize("size, where, shard_group_size", [(2, "forward", 0), (4, "backward", 0), (4, "backward", 2)])
def test_a_rank_that_raises_is_named(size, where, shard_group_size):
    for rank, (kind, what) in enumerate(ranks.outcomes(size, raises, where, shard_group_size)):
        assert kind == "error"
        if rank == 1:
            assert "this rank's own error" in what[1]
        else:
            assert isinstance(what[0], tutti.RemoteError), what[1]
            assert "rank 1" in str(what[0])


def misfits(comm):
    said = []
    with tp.initialize(comm) as p:
        def refused(kind, make):
            with pytest.raises(kind) as raised:
                make()
            said.append(str(raised.value))
            p.data_context.barrier()

        usage, argument = tutti.InvalidUsageError, tutti.InvalidArgumentError
        refused(usage, lambda: tp.FullyShardedDataParallel(nn.Linear(3, 2 + comm.rank)))
        refused(usage, lambda: tp.FullyShardedDataParallel(nn.Linear(3, 2), stage=2 + comm.rank))
        refused(argument, lambda: tp.FullyShardedDataParallel(nn.Linear(3, 2), shard_group_size=4))
        refused(argument, lambda: tp.FullyShardedDataParallel(nn.Linear(3, 2), stage=4))
        tied = model(tied=True)
        refused(argument, lambda: tp.FullyShardedDataParallel(tied, [tied.embedding, tied.head]))
        mixed = nn.Linear(3, 2)
        mixed.bias.data = mixed.bias.data.bfloat16()
        refused(argument, lambda: tp.FullyShardedDataParallel(mixed))
        fsdp = tp.FullyShardedDataParallel(nn.Linear(3, 2))
        refused(usage, lambda: fsdp.to(torch.float64))
        state = fsdp.state_dict()
        refused(argument, lambda: fsdp.load_state_dict({**state, "bias": torch.zeros(3)}))
        refused(argument, lambda: fsdp.load_state_dict({"bias": state["bias"]}))
        refused(argument, lambda: fsdp.load_state_dict({**state, "more": torch.zeros(3)}))
        refused(argument, lambda: tp.FullyShardedDataParallel(nn.Linear(3, 2), [nn.Linear(3, 2)]))
        refused(RuntimeError, lambda: fsdp.module(torch.ones(1, 3)))  # without gathering
    return said


def test_what_does_not_fit_is_named_with_both_values():
    for said in ranks.run(2, misfits):
        for words, message in zip((("[2, 3]", "[3, 3]"), ("stage 2", "stage 3"), ("(2)", "(4)"),
                                   ("stage is 4", "FULL_SHARD"), ("embedding", "head.weight"), ("float32", "bfloat16"),
                                   ("moved or cast",), ("bias", "[3]", "[2]"), ("weight",), ("more",), ("Linear",)),
                                  said):
            assert all(word in message for word in words), message


def page(comm, folder):
    text = (pathlib.Path(__file__).resolve().parents[4] / "docs/parallel_sharded.md").read_text(encoding="utf-8")
    block = text.split("```python\n")[1].split("```")[0]
    os.chdir(folder)
    exec(block.replace("initialize()", "initialize(comm)"), {"comm": comm})
    comm.barrier()
    assert set(torch.load("state.pt")) == {"model", "optimizer"}


def test_the_pages_block_runs(tmp_path):
    ranks.run(2, page, str(tmp_path))
