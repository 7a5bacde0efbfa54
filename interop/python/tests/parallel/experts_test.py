"""Experts divided over ranks, beside one rank's arithmetic that has them all."""

import math
import os
import re

import numpy as np
import pytest
import ranks

import tutti

pytest.importorskip("tutti.parallel", exc_type=ImportError)
import tutti.parallel as tp  # noqa: E402

HIDDEN, FFN, AUX = 6, 10, 0.3


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(got, wanted, rtol=1e-3, atol=1e-4):
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=rtol, atol=atol)


def first_of(experts, size, rank):
    return sum(experts // size + (one < experts % size) for one in range(rank))


def tokens_of(rank):
    """Rank 1 has none."""
    return 0 if rank == 1 else 5 + 2 * rank


def kept(indices, experts, capacity_factor):
    """Which choices no expert drops."""
    limit = math.ceil(capacity_factor * indices.size / experts) if capacity_factor else indices.size
    taken = [0] * experts
    keep = np.zeros(indices.shape, bool)
    for place, expert in np.ndenumerate(indices):
        keep[place] = taken[expert] < limit
        taken[expert] += 1
    return keep


def numpy_dispatcher(comm):
    with tp.initialize(comm, expert_parallel_size=comm.size) as p:
        for experts in (4, 5):
            for topk in (1, 2):
                for factor in (0.0, 0.6):
                    dispatcher = tp.MoEAlltoAllTokenDispatcher(experts, topk, HIDDEN, capacity_factor=factor)
                    first = first_of(experts, comm.size, comm.rank)
                    assert dispatcher.local_experts == range(first, first_of(experts, comm.size, comm.rank + 1))
                    arriving = {expert: [] for expert in dispatcher.local_experts}
                    for rank in range(comm.size):
                        x = numbers(tokens_of(rank), HIDDEN, seed=rank)
                        logits = numbers(tokens_of(rank), experts, seed=9 + rank)
                        indices = np.argsort(-logits, 1, "stable")[:, :topk]
                        keep = kept(indices, experts, factor)
                        for (token, choice), expert in np.ndenumerate(indices):
                            if keep[token, choice] and expert in arriving:
                                arriving[expert].append(x[token])
                        if rank != comm.rank:
                            continue
                        mine = x, logits, indices, keep
                    x, logits, indices, keep = mine
                    odds = np.exp(logits - logits.max(1, keepdims=True, initial=-9))
                    odds /= odds.sum(1, keepdims=True)
                    for renormalize in (False, True):
                        weights = np.take_along_axis(odds, indices, 1)
                        weights = weights / weights.sum(1, keepdims=True) if renormalize else weights
                        routing = tp.route(logits, topk, renormalize=renormalize)
                        np.testing.assert_array_equal(routing.indices, indices)
                        np.testing.assert_allclose(routing.weights, weights, rtol=1e-5)
                        assert routing.load.tokens_per_expert == [(indices == one).sum() for one in range(experts)]
                        handle = dispatcher.layout(routing)
                        assert handle.dropped == (~keep).sum()
                        assert handle.tokens_per_expert == [len(one) for one in arriving.values()]
                        rows = dispatcher.dispatch(x, handle)
                        expected = [row for one in arriving.values() for row in one]
                        np.testing.assert_array_equal(rows, np.reshape(expected, (-1, HIDDEN)))
                        factors = np.repeat([one + 1 for one in dispatcher.local_experts], handle.tokens_per_expert)
                        computed = (rows * factors[:, None]).astype(np.float32)
                        output = dispatcher.combine(computed, routing.weights, handle)
                        np.testing.assert_allclose(output, x * (weights * keep * (indices + 1)).sum(1, keepdims=True),
                                                   rtol=1e-4, atol=1e-6)
                        begun = dispatcher.dispatch_begin(x, handle)
                        np.testing.assert_array_equal(dispatcher.dispatch_end(begun), rows)
                        begun = dispatcher.combine_begin(computed, routing.weights, handle)
                        np.testing.assert_array_equal(dispatcher.combine_end(begun), output)
        p.expert.barrier()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_numpy_tokens_reach_their_experts_and_return(size):
    ranks.run(size, numpy_dispatcher)


def plain_layer(torch, whole, x, topk, factor):
    """The output and the loss of the load of whole.load, by PyTorch alone."""
    logits = x @ whole.router.t()
    odds = logits.float().softmax(1)
    indices = torch.sort(logits.detach(), dim=1, descending=True, stable=True)[1][:, :topk]
    weights = odds.gather(1, indices)
    weights = weights / weights.sum(1, keepdim=True)
    experts = whole.router.shape[0]
    weights = weights * torch.tensor(kept(indices.numpy(), experts, factor))
    output = x.new_zeros(x.shape)
    for expert in range(experts):
        share = (weights * (indices == expert)).sum(1, keepdim=True)
        y = torch.nn.functional.gelu(x @ whole.up[expert].t()) @ whole.down[expert].t()
        output = output + (share * y).to(x.dtype)
    if whole.shared_up is not None:
        output = output + torch.nn.functional.gelu(x @ whole.shared_up.t()) @ whole.shared_down.t()
    return output, odds.mean(0), indices


def layers(comm, counts):
    import torch
    torch.set_num_threads(1)
    with tp.initialize(comm, expert_parallel_size=comm.size) as p:
        for experts in counts:
            for topk, factor, shared, alike, overlap in ((2, 0.0, 0, False, False), (2, 0.6, 7, False, True),
                                                         (1, 0.6, 0, False, False), (1, 0.0, 7, True, True)):
                settings = {"num_experts": experts, "topk": topk, "capacity_factor": factor, "aux_loss_coeff": AUX,
                            "shared_ffn_size": shared, "init_method": torch.nn.init.normal_}
                torch.manual_seed(1)
                layer = tp.MoELayer(HIDDEN, FFN, overlap=overlap, **settings)
                torch.manual_seed(1)
                whole = tp.MoELayer(HIDDEN, FFN, group=p.tensor, **settings)  # of one rank
                local = slice(first_of(experts, comm.size, comm.rank), first_of(experts, comm.size, comm.rank + 1))
                assert torch.equal(layer.up, whole.up[local]) and torch.equal(layer.router, whole.router)
                results = []
                for _ in range(2):
                    # Where all tokens are alike, most experts have none.
                    all_x = [torch.tensor(numbers(tokens_of(rank), HIDDEN, seed=rank) * (not alike) + alike,
                                          requires_grad=True) for rank in range(comm.size)]
                    all_grad = [torch.tensor(numbers(tokens_of(rank), HIDDEN, seed=50 + rank))
                                for rank in range(comm.size)]
                    x = all_x[comm.rank].detach().clone().requires_grad_()
                    y = layer(x)
                    layer.zero_grad()
                    ((y * all_grad[comm.rank]).sum() + 3 * layer.aux_loss).backward()
                    results.append([y.detach(), x.grad, layer.aux_loss.detach(),
                                    *(one.grad.clone() for one in layer.parameters())])
                assert all(map(torch.equal, *results))

                plain = [plain_layer(torch, whole, one, topk, factor) for one in all_x]
                chosen = torch.cat([indices for *_, indices in plain]).view(-1)
                load = torch.bincount(chosen, minlength=experts)
                assert layer.load.tokens_per_expert == load.tolist()
                aux = [AUX * experts * (load / load.sum() * odds).sum() if len(indices) else odds.new_zeros(())
                       for _, odds, indices in plain]
                losses = [(output * grad).sum() + 3 * loss for (output, *_), grad, loss in zip(plain, all_grad, aux)]
                close(y, plain[comm.rank][0])
                close(layer.aux_loss, aux[comm.rank])
                sum(losses).backward(retain_graph=True)
                close(x.grad, all_x[comm.rank].grad)
                close(layer.up.grad, whole.up.grad[local])
                close(layer.down.grad, whole.down.grad[local])
                # Each rank has the gradients of its own tokens for what all ranks have.
                names = ["router"] + (["shared_up", "shared_down"] if shared else [])
                if losses[comm.rank].requires_grad and tokens_of(comm.rank):
                    own = torch.autograd.grad(losses[comm.rank], [getattr(whole, name) for name in names])
                    for name, wanted in zip(names, own):
                        close(getattr(layer, name).grad, wanted)
        p.expert.barrier()


@pytest.mark.parametrize("size, counts", [(1, [3, 8]), (2, [3, 4, 5, 8]), (3, [3, 4, 5, 8]), (4, [4, 5, 8])])
def test_layers_are_one_ranks(size, counts):
    pytest.importorskip("torch")
    ranks.run(size, layers, counts)


def overlapped(comm):
    import torch
    torch.set_num_threads(1)
    with tp.initialize(comm, expert_parallel_size=comm.size):
        found = []
        for overlap in (False, True):
            torch.manual_seed(2)
            layer = tp.MoELayer(HIDDEN, FFN, 5, 2, capacity_factor=0.7, shared_ffn_size=4, overlap=overlap)
            x = torch.tensor(numbers(9 + comm.rank, HIDDEN, seed=comm.rank), requires_grad=True)
            y = layer(x)
            y.square().sum().backward()
            found.append([y.detach(), x.grad, *(one.grad for one in layer.parameters())])
        for one, other in zip(*found):
            close(one, other, rtol=1e-5, atol=1e-7)


def test_the_overlapped_form_drops_and_computes_the_same():
    pytest.importorskip("torch")
    ranks.run(3, overlapped)


def computing_meanwhile(comm, folder):
    signs = ranks.Signs(folder)
    with tp.initialize(comm, expert_parallel_size=comm.size):
        dispatcher = tp.MoEAlltoAllTokenDispatcher(2, 1, HIDDEN)
        handle = dispatcher.layout(tp.route(numbers(40, 2, seed=comm.rank), 1))
        if comm.rank == 1:
            signs.wait_for("rank 0 computes")
        exchange = dispatcher.dispatch_begin(numbers(40, HIDDEN), handle)
        if comm.rank == 0:
            signs.give("rank 0 computes")
        assert len(dispatcher.dispatch_end(exchange)) == sum(handle.tokens_per_expert)


def test_a_rank_computes_while_its_tokens_travel(tmp_path):
    ranks.run(2, computing_meanwhile, tmp_path)


def router_alone(comm):
    import torch
    torch.set_num_threads(1)
    with tp.initialize(comm, expert_parallel_size=comm.size) as p:
        grads = []
        for group in (p.expert, p.tensor):
            torch.manual_seed(3)
            layer = tp.MoELayer(HIDDEN, FFN, 4, overlap=True, group=group, init_method=torch.nn.init.normal_)
            layer.up.requires_grad_(False)
            layer.down.requires_grad_(False)
            layer(torch.tensor(numbers(5, HIDDEN, seed=comm.rank))).sum().backward()
            grads.append(layer.router.grad)
        close(*grads)
        p.expert.barrier()


def test_a_router_learns_alone():
    pytest.importorskip("torch")
    ranks.run(2, router_alone)


def bfloat16(comm):
    import torch
    torch.set_num_threads(1)
    with tp.initialize(comm, expert_parallel_size=comm.size) as p:
        settings = {"num_experts": 5, "topk": 2, "init_method": torch.nn.init.normal_}
        torch.manual_seed(1)
        layer = tp.MoELayer(HIDDEN, FFN, **settings).to(torch.bfloat16)
        torch.manual_seed(1)
        whole = tp.MoELayer(HIDDEN, FFN, group=p.tensor, **settings).to(torch.bfloat16)
        all_x = [torch.tensor(numbers(9, HIDDEN, seed=rank)).bfloat16().requires_grad_() for rank in range(comm.size)]
        x = all_x[comm.rank].detach().clone().requires_grad_()
        y = layer(x)
        y.sum().backward()
        plain = [plain_layer(torch, whole, one, 2, 0)[0] for one in all_x]
        sum(one.sum() for one in plain).backward()
        for got, wanted in ((y, plain[comm.rank]), (x.grad, all_x[comm.rank].grad),
                            (layer.down.grad, whole.down.grad[first_of(5, comm.size, comm.rank):][:len(layer.down)])):
            assert got.dtype == torch.bfloat16
            assert (got - wanted).float().norm() < 0.02 * wanted.float().norm()


def test_bfloat16():
    pytest.importorskip("torch")
    ranks.run(2, bfloat16)


def traffic(comm):
    import torch
    torch.set_num_threads(1)
    experts, topk, row = 5, 2, HIDDEN * 4
    with tp.initialize(comm, expert_parallel_size=comm.size) as p:
        home = [rank for rank in range(comm.size)
                for _ in range(first_of(experts, comm.size, rank), first_of(experts, comm.size, rank + 1))]
        logits = [torch.tensor(numbers(tokens_of(rank), experts, seed=rank)) for rank in range(comm.size)]
        chosen = [[home[expert] for expert in tp.route(one, topk).indices.view(-1)] for one in logits]
        away = row * sum(rank != comm.rank for rank in chosen[comm.rank])
        here = row * sum(rank == comm.rank for other, one in enumerate(chosen) for rank in one if other != comm.rank)
        dispatcher = tp.MoEAlltoAllTokenDispatcher(experts, topk, HIDDEN)
        mine = logits[comm.rank].requires_grad_()
        x = torch.zeros(tokens_of(comm.rank), HIDDEN, requires_grad=True)
        routing = tp.route(mine, topk)
        dispatcher.layout(routing)  # compares settings for PyTorch's tensors
        sent = [p.expert.bytes_sent]
        handle = dispatcher.layout(routing)
        sent.append(p.expert.bytes_sent)
        rows = dispatcher.dispatch(x, handle)
        sent.append(p.expert.bytes_sent)
        y = dispatcher.combine(rows, routing.weights, handle)
        sent.append(p.expert.bytes_sent)
        y.sum().backward()
        sent.append(p.expert.bytes_sent)
        assert np.diff(sent).tolist() == [4 * (experts - len(dispatcher.local_experts)), away, here, away + here]


def test_bytes_sent_are_the_formulas():
    pytest.importorskip("torch")
    ranks.run(4, traffic)


def shared_experts(comm):
    import torch
    torch.set_num_threads(1)
    with tp.initialize(comm, tensor_parallel_size=2, expert_parallel_size=2, expert_tensor_parallel_size=2) as p:
        torch.manual_seed(1)
        layer = tp.MoELayer(HIDDEN, FFN, 3, init_method=torch.nn.init.normal_)
        assert layer.up.shape == (2 - p.expert.rank, FFN // 2, HIDDEN)
        torch.manual_seed(1)
        whole = tp.MoELayer(HIDDEN, FFN, 3, group=p.pipeline, init_method=torch.nn.init.normal_)
        x = torch.tensor(numbers(7, HIDDEN, seed=p.data.rank), requires_grad=True)
        other = x.detach().clone().requires_grad_()
        y, wanted = layer(x), whole(other)
        close(y, wanted)
        y.square().sum().backward()
        wanted.square().sum().backward()
        close(x.grad, other.grad)
        close(layer.router.grad, whole.router.grad)
    with tp.initialize(comm, expert_parallel_size=2, expert_tensor_parallel_size=2):
        with pytest.raises(tutti.InvalidArgumentError, match=r"ranks \[(0, 1|2, 3)\] share each expert"):
            tp.MoELayer(HIDDEN, FFN, 4)


def test_ranks_share_each_expert():
    pytest.importorskip("torch")
    ranks.run(4, shared_experts)


def in_a_pipeline(comm, sizes):
    """Beside one rank that adds each layer's loss to the micro-batch's."""
    import torch
    torch.set_num_threads(1)
    samples, microbatches = 5, 4
    with tp.initialize(comm, **sizes) as p:
        for name, chunks in (("1F1B", 1), ("Interleaved1F1B", 2), ("ZB-H1", 1), ("ZB-V", 2)):
            schedule = tp.pipeline_schedule(name, p.pipeline.size, microbatches, chunks)
            mine = schedule.chunks_of(p.pipeline.rank)

            def layer(number, group=None):
                torch.manual_seed(number)
                return tp.MoELayer(HIDDEN, FFN, 3, aux_loss_coeff=AUX, group=group, init_method=torch.nn.init.normal_)

            split = [layer(number) for number in mine]
            whole = [layer(number, p.data) for number in range(p.pipeline.size * chunks)]
            pipe = tp.Pipeline([torch.nn.Sequential(one) for one in split], schedule=schedule,
                               loss=torch.nn.functional.mse_loss)
            x, targets = (torch.tensor(numbers(samples * microbatches, HIDDEN, seed=seed)) for seed in (1, 2))
            for _ in range(2):  # gradients add up
                loss = pipe.step(x, targets)
                losses = []
                for part, target in zip(x.split(samples), targets.split(samples)):
                    for one in whole:
                        part = one(part)
                    losses.append(torch.nn.functional.mse_loss(part, target))
                    (losses[-1] + sum(one.aux_loss for one in whole)).div(microbatches).backward()
            if pipe.is_last:
                close(loss, torch.stack(losses).mean())  # the loss alone
            for number, one in zip(mine, split):
                assert one.aux_loss_scale is None
                local = slice(one.dispatcher.local_experts.start, one.dispatcher.local_experts.stop)
                close(one.router.grad, whole[number].router.grad)
                close(one.up.grad, whole[number].up.grad[local])
                close(one.down.grad, whole[number].down.grad[local])
            pipe.forward(x)
            pipe.group.barrier()


@pytest.mark.parametrize("sizes", [{}, {"tensor_parallel_size": 2, "enable_expert_parallel": True}])
def test_a_pipeline_adds_each_layers_loss(sizes):
    pytest.importorskip("torch")
    ranks.run(2 * sizes.get("tensor_parallel_size", 1), in_a_pipeline, {"pipeline_parallel_size": 2, **sizes})


def page(comm):
    path = os.path.join(os.path.dirname(__file__), "../../../../docs/parallel_experts.md")
    with open(path, encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
    assert len(blocks) == 2
    found = {}
    exec("\n".join(blocks).replace("initialize(", "initialize(comm, "), {"comm": comm}, found)
    close(found["output"], 2 * found["tokens"])
    assert found["p"].expert.size == comm.size and found["layer"].up.grad is not None


def test_the_pages_example():
    pytest.importorskip("torch")
    ranks.run(2, page)


def checkpointed(comm, overlap):
    """A block whose last tensors the backward does not need, so that its recomputation ends within the experts."""
    import torch
    from torch.utils.checkpoint import checkpoint
    with tp.initialize(comm, expert_parallel_size=comm.size):
        torch.manual_seed(0)
        layer, norm = tp.MoELayer(HIDDEN, FFN, 4, overlap=overlap), torch.nn.LayerNorm(HIDDEN)
        parameters = [*layer.parameters(), *norm.parameters()]
        x = torch.tensor(numbers(5, HIDDEN, seed=comm.rank), requires_grad=True)

        def block(one):
            return one + layer(norm(one))

        def gradients(output):
            output.square().sum().backward()
            found = [one.grad.clone() for one in [x, *parameters]]
            for one in [x, *parameters]:
                one.grad = None
            return found

        wanted = gradients(block(x))
        for reentrant in (True, False, False):
            for got, one in zip(gradients(checkpoint(block, x, use_reentrant=reentrant)), wanted):
                close(got, one)


@pytest.mark.parametrize("overlap", [False, True], ids=["plain", "overlapped"])
def test_a_layer_that_is_computed_again_has_the_same_gradients(overlap):
    pytest.importorskip("torch")
    ranks.run(2, checkpointed, overlap)
