"""What modules of tutti.parallel have in common: saving, clipping, types, and who keeps the groups."""

import numpy as np
import pytest
import ranks

import tutti

torch = pytest.importorskip("torch")
pytest.importorskip("tutti.parallel", exc_type=ImportError)
import tutti.parallel as tp  # noqa: E402

HIDDEN, WIDE, EXPERTS = 8, 12, 4


class Tied(torch.nn.Module):
    """A model whose output layer is its embedding."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embedding = tp.VocabParallelEmbedding(16, HIDDEN)
        self.mlp = tp.ParallelMLP(HIDDEN, WIDE)
        self.head = tp.ColumnParallelLinear(HIDDEN, 16, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids)
        return self.head(x + self.mlp(x))

    def loss(self, ids):
        return tp.vocab_parallel_cross_entropy(self(ids), ids).mean()


def saved(comm, state):
    with tp.initialize(comm, tensor_parallel_size=comm.size):
        model = Tied()
        if state is not None:
            with torch.no_grad():
                model.embedding.weight.zero_()
            tp.load_whole_state_dict(model, {name: torch.tensor(value) for name, value in state.items()})
        return {name: value.tolist() for name, value in tp.whole_state_dict(model).items()}


@pytest.mark.parametrize("size", [1, 2, 4])
def test_tied_weights_are_saved_whole(size):
    whole, = ranks.run(1, saved, None)
    assert whole["head.weight"] == whole["embedding.weight"] and len(whole["head.weight"]) == 16
    for state in ranks.run(size, saved, None):
        assert state == whole
    for state in ranks.run(size, saved, whole):
        assert state == whole


def clipped(comm, sizes):
    """Two stages' models, or one rank's both: the norm, and a weight that all ranks have."""
    with tp.initialize(comm, **sizes) as p:
        ids = torch.arange(16).view(8, 2)
        stages = p.pipeline.size
        models = [Tied() for _ in range(2)][p.pipeline.rank * 2 // stages:(p.pipeline.rank + 1) * 2 // stages]
        for model in models:
            model.loss(ids).backward()
        trained = [one for model in models for one in model.parameters()]
        norm = tp.clip_grad_norm_(trained, 0.01).item()
        return norm, models[0].mlp.down.bias.grad.tolist()


@pytest.mark.parametrize("sizes", [{"tensor_parallel_size": 2}, {"pipeline_parallel_size": 2},
                                   {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}], ids=str)
def test_gradients_are_clipped_by_the_whole_models_norm(sizes):
    (norm, bias), = ranks.run(1, clipped, {})
    assert norm > 0.01
    size = int(np.prod(list(sizes.values())))
    for got, other in ranks.run(size, clipped, sizes):
        assert got == pytest.approx(norm, rel=1e-5)
        np.testing.assert_allclose(other, bias, rtol=1e-4, atol=1e-8)


def balanced(comm, sizes, sequence_parallel):
    """The load-balancing loss and its gradient, of the router and of the tokens."""
    with tp.initialize(comm, **sizes):
        torch.manual_seed(5)
        layer = tp.MoELayer(HIDDEN, WIDE, EXPERTS, aux_loss_coeff=0.5, sequence_parallel=sequence_parallel)
        x = torch.randn(6, 1, HIDDEN, requires_grad=True)
        y = layer(tp.scatter_to_sequence_parallel_region(x) if sequence_parallel else x)
        (y.sum() * 0 + layer.aux_loss).backward()
        return layer.aux_loss.item(), layer.router.grad.tolist(), x.grad.tolist()


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["same tokens", "sequence parallel"])
def test_the_balancing_loss_counts_once_where_ranks_share_layers(sequence_parallel):
    (loss, router, tokens), = ranks.run(1, balanced, {}, False)
    assert np.abs(router).max() > 1e-4
    sizes = {"tensor_parallel_size": 2, "enable_expert_parallel": True}
    for got, of_router, of_tokens in ranks.run(2, balanced, sizes, sequence_parallel):
        assert got == pytest.approx(loss, rel=0.05)  # each rank has the mean probability of its own tokens
        np.testing.assert_allclose(np.linalg.norm(of_router), np.linalg.norm(router), rtol=0.2)
        np.testing.assert_allclose(np.linalg.norm(of_tokens), np.linalg.norm(tokens), rtol=0.2)


def bfloat16(comm, sequence_parallel):
    with tp.initialize(comm, tensor_parallel_size=comm.size):
        torch.manual_seed(1)
        up = tp.ColumnParallelLinear(HIDDEN, 16, sequence_parallel=sequence_parallel).bfloat16()
        down = tp.RowParallelLinear(16, 16, sequence_parallel=sequence_parallel, bias=False).bfloat16()
        head = tp.ColumnParallelLinear(16, 16, gather_output=True, bias=False).bfloat16()
        x = torch.randn(8, HIDDEN).bfloat16().requires_grad_()
        y = down(up(tp.scatter_to_sequence_parallel_region(x) if sequence_parallel else x))
        logits = tp.column_parallel_linear(y, head.weight, sequence_parallel=sequence_parallel)
        losses = tp.vocab_parallel_cross_entropy(logits, torch.arange(8))
        assert losses.dtype == torch.bfloat16
        (losses.float().mean() + head(y).float().mean() * 0).backward()
        return losses.tolist(), x.grad.tolist()


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["tensor", "sequence"])
def test_bfloat16(sequence_parallel):
    (losses, grad), = ranks.run(1, bfloat16, False)
    for got, of_x in ranks.run(2, bfloat16, sequence_parallel):
        np.testing.assert_allclose(got, losses, rtol=0.02)
        np.testing.assert_allclose(of_x, grad, rtol=0.2, atol=1e-4)


def not_kept(comm):
    def built():
        tp.initialize_model_parallel(2)
        return tp.ParallelMLP(HIDDEN, WIDE)

    layer = built()
    return layer(torch.ones(2, HIDDEN)).shape


def test_groups_live_though_nobody_keeps_what_initialize_returned():
    assert ranks.run(2, not_kept) == [torch.Size([2, HIDDEN])] * 2


def shared_experts(comm):
    with tp.initialize(comm, tensor_parallel_size=4, expert_parallel_size=2, expert_tensor_parallel_size=2):
        with pytest.raises(tutti.InvalidArgumentError, match=r"set expert_tensor_parallel_size to 1, or to "
                                                             r"tensor_parallel_size \(4\)"):
            tp.MoELayer(HIDDEN, WIDE, EXPERTS)


def test_experts_that_some_of_a_layers_ranks_share():
    ranks.run(4, shared_experts)


def buffers(comm):
    with tp.initialize(comm):
        module = torch.nn.Linear(2, 2)
        module.register_buffer("mask", torch.tensor([comm.rank == 0, True]))
        module.register_buffer("phase", torch.full((2,), complex(comm.rank, 1)))
        module.register_buffer("turned", torch.full((2, 3), float(comm.rank)).t())
        tp.DistributedDataParallel(module)
        return module.mask.tolist(), module.phase.tolist(), module.turned.sum().item()


def test_buffers_of_any_type_are_rank_0s():
    assert ranks.run(2, buffers) == [([True, True], [1j, 1j], 0.0)] * 2


def identity(comm):
    with tp.initialize(comm, pipeline_parallel_size=2):
        chunk = torch.nn.Linear(2, 2, bias=False) if comm.rank == 0 else torch.nn.Identity()
        if comm.rank == 0:
            torch.nn.init.eye_(chunk.weight)
        result = tp.Pipeline(chunk, microbatches=4).forward(torch.arange(16.).view(8, 2))
        return None if result is None else result.tolist()


def test_a_last_chunk_that_returns_its_input():
    assert ranks.run(2, identity)[1] == torch.arange(16.).view(8, 2).tolist()


class Scaled(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x) * self.scale


def scalars(comm):
    with tp.initialize(comm):
        torch.manual_seed(1)
        model = tp.FullyShardedDataParallel(Scaled(), units=[])
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(2):
            model(torch.ones(2, 3)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        state = model.optimizer_state_dict(optimizer)
        model.load_optimizer_state_dict(optimizer, state)
        again = model.optimizer_state_dict(optimizer)
        for name, values in state["state"].items():
            for key, value in values.items():
                assert torch.equal(torch.as_tensor(value), torch.as_tensor(again["state"][name][key])), (name, key)


def test_an_optimisers_state_of_a_parameter_without_dimensions():
    ranks.run(2, scalars)


def changed_in_place(comm):
    class Wrong(torch.nn.Linear):
        def forward(self, x):
            y = torch.sigmoid(super().forward(x))
            y += 1
            return y

    with tp.initialize(comm):
        model = tp.FullyShardedDataParallel(Wrong(2, 2))
        with pytest.raises(RuntimeError, match="inplace operation"):
            model(torch.ones(1, 2)).sum().backward()


def test_a_change_in_place_of_what_backward_needs_is_seen():
    ranks.run(1, changed_in_place)
