"""Experts divided over ranks: what does not fit, and ranks that fail."""

import numpy as np
import pytest
import ranks

import tutti

pytest.importorskip("tutti.parallel", exc_type=ImportError)
import tutti.parallel as tp  # noqa: E402

HIDDEN, FFN = 6, 10


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def misfits(comm):
    import torch
    said = []
    with tp.initialize(comm, expert_parallel_size=comm.size) as p:
        differing = 3 + comm.rank
        dispatcher = tp.MoEAlltoAllTokenDispatcher(4, 2, HIDDEN)
        layer = tp.MoELayer(HIDDEN, FFN, 4)
        routing = tp.route(numbers(3, 4), 2)
        handle = dispatcher.layout(routing)
        for wrong in (lambda: tp.route(numbers(3, 4), 5),
                      lambda: tp.MoELayer(HIDDEN, FFN, 4, topk=5),
                      lambda: tp.MoELayer(HIDDEN, FFN, 1, topk=1),
                      lambda: tp.MoELayer(HIDDEN, FFN, differing),
                      lambda: tp.MoELayer(HIDDEN, FFN, 4, capacity_factor=differing),
                      lambda: tp.MoELayer(HIDDEN, FFN, 4, overlap=comm.rank == 1),
                      lambda: layer(torch.zeros(2, HIDDEN + 1)),
                      lambda: dispatcher.dispatch(numbers(2, HIDDEN), handle),
                      lambda: dispatcher.dispatch(numbers(3, HIDDEN).astype(np.float64), handle),
                      lambda: dispatcher.combine(numbers(2, HIDDEN + 1), routing.weights, handle),
                      lambda: dispatcher.layout(tp.route(numbers(3, 4), 1)),
                      lambda: dispatcher.layout(tp.route(numbers(3, 8), 2)),
                      lambda: dispatcher.layout(tp.Routing(routing.weights, routing.indices + 3, 4))):
            with pytest.raises((tutti.InvalidArgumentError, tutti.InvalidUsageError)) as raised:
                wrong()
            said.append(str(raised.value))
        p.expert.barrier()  # nothing was sent
    return said


def test_what_does_not_fit_is_named_with_both_values():
    pytest.importorskip("torch")
    for said in ranks.run(2, misfits):
        for sentence, *words in zip(said, ("topk is 5", "topk is 5", "num_experts (1)", "num_experts is 4 on rank 1",
                                           "capacity_factor is 4 on rank 1", "parts is 2 on rank 1", "is 7", "[2, 6]",
                                           "float64", "[2, 7]", "topk is 1", "num_experts is 8", "routed to expert"),
                                    ("num_experts is 4", "num_experts is 4", "(2)", "3 on rank 0", "3 on rank 0",
                                     "1 on rank 0", "is 6", "[3, 6]", "float32", ", 6]", "is 2", "is 4", "4")):
            assert all(word in sentence for word in words), (sentence, words)


def failing_forward(comm, overlap):
    import torch
    with tp.initialize(comm, expert_parallel_size=comm.size):
        layer = tp.MoELayer(HIDDEN, FFN, 4, overlap=overlap)
        x = torch.tensor(numbers(4, HIDDEN, seed=comm.rank))
        layer(x)
        if comm.rank == 1:
            def experts(*_):
                raise ArithmeticError("broken")
            layer.experts = experts
            with pytest.raises(ArithmeticError):
                layer(x)
            comm.barrier()
            return
        with pytest.raises(tutti.RemoteError, match="rank 1"):
            for _ in range(2):
                layer(x)
        comm.barrier()


def failing_backward(comm, overlap):
    import torch

    def broken(_):
        raise ArithmeticError("broken")

    with tp.initialize(comm, expert_parallel_size=comm.size):
        layer = tp.MoELayer(HIDDEN, FFN, 4, overlap=overlap)
        compute = layer.experts

        def experts(*arguments):
            output = compute(*arguments)
            if comm.rank == 1:
                output.register_hook(broken)
            return output
        layer.experts = experts
        x = torch.tensor(numbers(4, HIDDEN, seed=comm.rank), requires_grad=True)
        for _ in range(2):
            layer(x).sum().backward()


@pytest.mark.parametrize("overlap", [False, True], ids=["plain", "overlapped"])
def test_a_rank_that_fails_among_its_experts_is_named(overlap):
    pytest.importorskip("torch")
    ranks.run(3, failing_forward, overlap)
    for rank, (kind, what) in enumerate(ranks.outcomes(3, failing_backward, overlap)):
        assert kind == "error"
        if rank == 1:
            assert "broken" in what[1]
        else:
            assert isinstance(what[0], tutti.RemoteError) and "rank 1" in str(what[0]), what


def leaving(comm):
    exchange = None
    with pytest.raises(ArithmeticError if comm.rank == 1 else tutti.RemoteError, match="rank 1"):
        with tp.initialize(comm, expert_parallel_size=comm.size):
            dispatcher = tp.MoEAlltoAllTokenDispatcher(4, 2, HIDDEN)
            routing = tp.route(numbers(5, 4, seed=comm.rank), 2)
            handle = dispatcher.layout(routing)
            exchange = dispatcher.dispatch_begin(numbers(5, HIDDEN), handle)
            if comm.rank == 1:
                raise ArithmeticError("rank 1 is broken")
            dispatcher.combine(dispatcher.dispatch_end(exchange), routing.weights, handle)
    with pytest.raises(tutti.InvalidUsageError, match="ended"):
        dispatcher.dispatch_end(exchange)


def test_a_rank_that_leaves_an_exchange_midway_is_named():
    ranks.run(3, leaving)
