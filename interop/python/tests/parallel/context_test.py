"""Attention over split sequences beside one rank's, on NumPy's arrays and PyTorch's tensors."""

import os
import pathlib
import re
import signal
import sys
import threading
import time

import numpy as np
import pytest
import ranks

import tutti

pytest.importorskip("tutti.parallel", exc_type=ImportError)
import tutti.parallel as tp  # noqa: E402

BATCH, HEADS, KV_HEADS, WIDTH = 2, 8, 4, 5
# Ranks that exchange heads, and ranks of a ring.
DEGREES = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (4, 1), (2, 2)]
# Lengths that four ranks divide, that they do not, and that are less; samples in one sequence.
SEQUENCES = [[0, 16], [0, 13], [0, 3], [0, 5, 6, 13]]
# Whether it is causal, its window, and the placement.
MASKS = [(False, 0, "zigzag"), (True, 0, "zigzag"), (True, 0, "contiguous"), (True, 4, "zigzag"),
         (True, 4, "contiguous")]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def settings(sequences):
    for cu_seqlens in sequences:
        for causal, window, placement in MASKS:
            yield {"cu_seqlens": cu_seqlens, "causal": causal, "window": window, "placement": placement}


def plain(qkv, cu_seqlens, causal, window):
    """One rank's attention in doubles, and the gradient of qkv for ones."""
    import torch
    qkv = torch.tensor(qkv, dtype=torch.float64, requires_grad=True)
    rows, batch, kv_heads, parts, width = qkv.shape
    heads = kv_heads * (parts - 2)
    q = qkv[:, :, :, :-2].reshape(rows, batch, heads, width)
    k, v = (qkv[:, :, :, part].repeat_interleave(parts - 2, 2) for part in (-2, -1))
    position = torch.arange(rows)
    sample = torch.bucketize(position, torch.tensor(cu_seqlens), right=True)
    sees = sample[:, None] == sample
    if causal:
        sees &= position <= position[:, None]
    if window:
        sees &= position > position[:, None] - window
    scores = torch.einsum("qbhw,kbhw->bhqk", q, k) / width ** 0.5
    out = torch.einsum("bhqk,kbhw->qbhw", scores.masked_fill(~sees, -torch.inf).softmax(-1), v)
    out.backward(torch.tensor(weights(rows), dtype=torch.float64))
    return out.detach().numpy(), qkv.grad.numpy()


def weights(rows):
    return numbers(rows, BATCH, HEADS, WIDTH, seed=1)


def initialize(comm, ulysses, ring):
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    return tp.initialize(comm, context_parallel_size=ulysses * ring, ulysses_size=ulysses)


def torch_attention(comm, ulysses, ring):
    import torch
    with initialize(comm, ulysses, ring):
        for dtype, limit, sequences in ((torch.float32, 1e-5, SEQUENCES), (torch.bfloat16, 1e-2, SEQUENCES[-1:])):
            for setting in settings(sequences):
                sequence, placed = setting["cu_seqlens"][-1], {k: setting[k] for k in ("cu_seqlens", "placement")}
                whole = torch.tensor(numbers(sequence, BATCH, KV_HEADS, HEADS // KV_HEADS + 2, WIDTH)).to(dtype)
                grads = torch.tensor(weights(sequence)).to(dtype)
                qkv = tp.split_sequence(whole, **placed).requires_grad_()
                assert qkv.shape[0] == len(tp.positions(**placed))
                out = tp.context_parallel_attention(qkv, **setting)
                assert out.dtype == dtype
                out.backward(tp.split_sequence(grads, **placed))
                wanted = plain(whole.float().numpy(), setting["cu_seqlens"], setting["causal"], setting["window"])
                for got, expected in zip((out.detach(), qkv.grad), wanted):
                    got = tp.gather_sequence(got, **placed).double().numpy()
                    # bfloat16's gradients are of weights that were rounded, too.
                    assert np.abs(got - expected).max() <= limit * np.abs(expected).max(), (setting, dtype)


@pytest.mark.parametrize("ulysses,ring", DEGREES)
def test_torch_attention_is_one_ranks(ulysses, ring):
    pytest.importorskip("torch")
    ranks.run(ulysses * ring, torch_attention, ulysses, ring)


def test_scores_that_are_computed_some_at_a_time(monkeypatch):
    pytest.importorskip("torch")
    from tutti.parallel import _torch_attention
    monkeypatch.setattr(_torch_attention, "_SCORES", 3 * BATCH * HEADS * 4)
    ranks.run(2, torch_attention, 1, 2)


def numpy_attention(comm, ulysses, ring):
    with initialize(comm, ulysses, ring):
        for setting in settings(SEQUENCES):
            sequence, placed = setting["cu_seqlens"][-1], {k: setting[k] for k in ("cu_seqlens", "placement")}
            whole = numbers(sequence, BATCH, KV_HEADS, HEADS // KV_HEADS + 2, WIDTH)
            qkv = tp.split_sequence(whole, **placed)
            attention = tp.ContextParallelAttention(**setting)
            out = attention.forward(qkv)
            np.testing.assert_array_equal(tp.context_parallel_attention(qkv, **setting), out)
            grad = attention.backward(qkv, out, tp.split_sequence(weights(sequence), **placed))
            wanted = plain(whole, setting["cu_seqlens"], setting["causal"], setting["window"])
            for got, expected in zip((out, grad), wanted):
                np.testing.assert_allclose(tp.gather_sequence(got, **placed), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ulysses,ring", [(1, 3), (2, 2)])
def test_numpy_attention_is_one_ranks(ulysses, ring):
    pytest.importorskip("torch")  # for the reference
    ranks.run(ulysses * ring, numpy_attention, ulysses, ring)


def separate_heads(comm):
    import torch
    with initialize(comm, 1, comm.size):
        q, k, v = (torch.tensor(numbers(13, BATCH, heads, WIDTH, seed=seed), requires_grad=True)
                   for seed, heads in ((2, HEADS), (3, KV_HEADS), (4, KV_HEADS)))
        out = tp.context_parallel_attention(tp.mix_heads(*(tp.split_sequence(one) for one in (q, k, v))), sequence=13)
        numpy = tp.mix_heads(*(tp.split_sequence(one.detach().numpy()) for one in (q, k, v)))
        np.testing.assert_allclose(tp.context_parallel_attention(numpy, sequence=13), out.detach(), rtol=1e-4,
                                   atol=1e-5)
        if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
            heads = [one.repeat_interleave(HEADS // one.shape[2], 2).permute(1, 2, 0, 3) for one in (q, k, v)]
            wanted = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True).permute(2, 0, 1, 3)
            torch.testing.assert_close(tp.gather_sequence(out, sequence=13), wanted.detach())
        out.sum().backward()
        return [one.grad.numpy() for one in (q, k, v)]


def test_separate_queries_keys_and_values():
    pytest.importorskip("torch")
    whole, = ranks.run(1, separate_heads)
    parts = ranks.run(3, separate_heads)  # each rank has the gradients of its own positions
    for i, expected in enumerate(whole):
        np.testing.assert_allclose(sum(part[i] for part in parts), expected, rtol=1e-4, atol=1e-5)


def exchange(comm, length):
    import torch
    with initialize(comm, comm.size, 1) as p:
        whole = torch.tensor(numbers(length, BATCH, HEADS, WIDTH))
        x = whole.tensor_split(comm.size)[comm.rank].clone().requires_grad_()
        before = p.ulysses.bytes_sent
        heads = tp.scatter_heads_gather_sequence(x, sequence=length)
        # Nothing is padded.
        assert p.ulysses.bytes_sent - before == x.numel() * 4 * (comm.size - 1) // comm.size
        assert torch.equal(heads, whole.chunk(comm.size, 2)[comm.rank])
        assert np.array_equal(heads.detach(), tp.scatter_heads_gather_sequence(x.detach().numpy(), sequence=length))
        back = tp.scatter_sequence_gather_heads(heads * 2)
        assert torch.equal(back, x * 2)
        back.backward(x.detach())
        assert torch.equal(x.grad, 2 * x.detach())


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("length", [3, 8, 13])
def test_exchange_of_heads(size, length):
    pytest.importorskip("torch")
    ranks.run(size, exchange, length)


def places(comm):
    with initialize(comm, 2, 2):
        ids = np.arange(26).reshape(2, 13)
        mine = tp.split_sequence(ids, dim=1)
        np.testing.assert_array_equal(tp.gather_sequence(mine, sequence=13, dim=1), ids)
        return tp.positions(13), tp.positions(13, "contiguous"), tp.positions(cu_seqlens=np.array([0, 4, 13])), mine


def test_positions_split_and_gather():
    found = ranks.run(4, places)
    assert [one[0] for one in found] == [[0, 1, 2, 3], [10, 11, 12], [4, 5, 6], [7, 8, 9]]
    assert [one[1] for one in found] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]
    assert [one[2] for one in found] == [[0, 3, 4, 5], [6, 11, 12], [1, 2, 7], [8, 9, 10]]
    np.testing.assert_array_equal(found[2][3], [[4, 5, 6], [17, 18, 19]])


def page(comm, code):
    import torch
    table = torch.tensor(numbers(20, 32), requires_grad=True)
    names = {"comm": comm, "batch": torch.arange(26).reshape(13, 2) % 20,
             "embed": lambda ids, positions: table[ids] + torch.tensor(positions)[:, None, None] / 100,
             "project": lambda x: [part.unflatten(2, (-1, 4)) for part in (x, x[:, :, :8], x[:, :, 8:16])]}
    # As on the documentation's page.
    exec(code, names)
    names["out"].sum().backward()
    with names["p"]:
        return tp.gather_sequence(names["out"].detach(), sequence=13).numpy(), table.grad.numpy()


def test_the_pages_program_is_one_ranks():
    pytest.importorskip("torch")
    text = (pathlib.Path(__file__).parents[4] / "docs/parallel_context.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0].replace("initialize(", "initialize(comm, ")
    (whole, whole_grad), = ranks.run(1, page, re.sub("(parallel|ulysses)_size=.", r"\1_size=1", code))
    parts = ranks.run(4, page, code)
    for out, _ in parts:
        np.testing.assert_allclose(out, whole, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(sum(grad for _, grad in parts), whole_grad, rtol=1e-4, atol=1e-5)


def bytes_of_a_ring(comm):
    with initialize(comm, 1, comm.size) as p:
        qkv = tp.split_sequence(numbers(13, BATCH, KV_HEADS, 3, WIDTH))
        alone = tp.ContextParallelAttention(sequence=13, window=1)  # sends what ranks compare when a call begins
        attention = tp.ContextParallelAttention(sequence=13)
        sent = [p.ring.bytes_sent]
        for call in (lambda: alone.forward(qkv), lambda: attention.forward(qkv),
                     lambda: attention.backward(qkv, qkv[:, :, :, 0], qkv[:, :, :, 0])):
            call()
            sent.append(p.ring.bytes_sent)
        return np.diff(sent)


def test_a_ring_sends_no_padding():
    compared, forward, backward = sum(ranks.run(4, bytes_of_a_ring))
    pair = 2 * KV_HEADS * WIDTH * BATCH * 4  # keys and values of a position
    assert forward - compared == 3 * 13 * pair
    assert backward == 2 * 3 * 13 * pair


def misfits(comm):
    said = []
    with initialize(comm, 2, 1) as p:
        qkv = numbers(4, BATCH, KV_HEADS, 4, WIDTH)
        late = comm.rank == 1
        for kind, wrong in (
                (tutti.InvalidArgumentError, lambda: tp.context_parallel_attention(numbers(4, BATCH, 3, 3, WIDTH))),
                (tutti.InvalidArgumentError, lambda: tp.context_parallel_attention(qkv, causal=False, window=2)),
                (tutti.InvalidArgumentError, lambda: tp.context_parallel_attention(qkv, cu_seqlens=[0, 5, 4, 8])),
                (tutti.InvalidUsageError, lambda: tp.context_parallel_attention(qkv[late:])),
                (tutti.InvalidUsageError, lambda: tp.context_parallel_attention(qkv, cu_seqlens=[0, 3 + late, 8])),
                (tutti.InvalidArgumentError, lambda: tp.context_parallel_attention(qkv.astype(np.float16))),
                (tutti.InvalidArgumentError, lambda: tp.context_parallel_attention(qkv, placement="striped")),
                (tutti.InvalidArgumentError, lambda: tp.context_parallel_attention(qkv, sequence=13)),
                (tutti.InvalidArgumentError, lambda: tp.scatter_heads_gather_sequence(numbers(4, BATCH, 3, WIDTH))),
                (tutti.InvalidArgumentError, lambda: tp.gather_sequence(qkv, sequence=13)),
                (tutti.InvalidArgumentError, tp.positions)):
            with pytest.raises(kind) as raised:
                wrong()
            said.append(str(raised.value))
        p.context.barrier()
    return said


def test_what_does_not_fit_is_named_with_both_values():
    for said in ranks.run(2, misfits):
        for message, words in zip(said, (
                ("heads (3)", "ulysses_size (2)"), ("window is 2", "not causal"), ("4 behind 5",),
                ("length is 8", "6 on rank 1"), ("cu_seqlens[1] is 3", "4 on rank 1"), ("float16",),
                ("striped", "zigzag"),
                ("[4, 2, 4, 4, 5]",), ("heads is 3", "(2)"), ("is 4", "positions"), ("None",))):
            assert all(word in message for word in words), (message, words)


def failing(comm, ulysses, ring, method):
    import torch

    from tutti.parallel._torch_attention import TorchAttention
    with initialize(comm, ulysses, ring):
        qkv = tp.split_sequence(torch.tensor(numbers(13, BATCH, KV_HEADS, 3, WIDTH))).requires_grad_()
        tp.context_parallel_attention(qkv, sequence=13)
        if comm.rank == 1:
            def out_of_memory(*_):
                raise MemoryError("of the test")
            setattr(TorchAttention, method, out_of_memory)
        with pytest.raises(MemoryError if comm.rank == 1 else tutti.RemoteError) as raised:
            tp.context_parallel_attention(qkv, sequence=13).sum().backward()
        return str(raised.value)


@pytest.mark.parametrize("method", ["attend", "attend_backward"])
@pytest.mark.parametrize("ulysses,ring", [(1, 3), (4, 1), (2, 2)])
def test_a_rank_that_raises_ends_the_others_calls(ulysses, ring, method):
    pytest.importorskip("torch")
    said = ranks.run(ulysses * ring, failing, ulysses, ring, method)
    assert said[1] == "of the test"
    for rank, message in enumerate(said):
        assert rank == 1 or "rank " in message and "revoked" in message
        if ulysses == 1 or ring == 1:  # with both, some ranks hear it from one that has heard it
            assert rank == 1 or "rank 1" in message


def ctrl_c(comm, ulysses, ring):
    with pytest.raises(KeyboardInterrupt):
        with initialize(comm, ulysses, ring):
            qkv = tp.split_sequence(numbers(13, BATCH, KV_HEADS, 3, WIDTH))
            tp.context_parallel_attention(qkv, sequence=13)
            if comm.rank == 1:
                time.sleep(600)
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
            tp.context_parallel_attention(qkv, sequence=13)


@pytest.mark.parametrize("ulysses,ring", [(1, 2), (2, 1)])
def test_ctrl_c_ends_a_wait(ulysses, ring):
    job = ranks.Job(2, ctrl_c, ulysses, ring)
    job.processes[0].join(30)
    assert not job.processes[0].is_alive()
    job.processes[1].kill()
    assert job.outcomes()[0][0] == "value"
