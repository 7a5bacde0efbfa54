"""Tensor and sequence parallelism beside one rank's arithmetic, on NumPy's arrays and PyTorch's tensors."""

import numpy as np
import pytest
import ranks

import tutti

pytest.importorskip("tutti.parallel", exc_type=ImportError)
import tutti.parallel as tp  # noqa: E402

ROWS, HIDDEN, WIDE, VOCABULARY = 8, 12, 24, 16


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def part(whole, dim, group):
    return np.ascontiguousarray(np.split(whole, group.size, dim)[group.rank])


def numpy_layers(comm):
    with tp.initialize(comm, tensor_parallel_size=comm.size) as p:
        x, up, down = numbers(ROWS, HIDDEN), numbers(WIDE, HIDDEN, seed=1), numbers(HIDDEN, WIDE, seed=2)
        up_bias, down_bias = numbers(WIDE, seed=3), numbers(HIDDEN, seed=4)
        mine = part(up, 0, p.tensor), part(up_bias, 0, p.tensor), part(down, 1, p.tensor)
        middle = tp.column_parallel_linear(x, mine[0], mine[1])
        y = tp.row_parallel_linear(middle, mine[2], down_bias)
        np.testing.assert_allclose(y, (x @ up.T + up_bias) @ down.T + down_bias, rtol=1e-4, atol=1e-4)
        whole = tp.column_parallel_linear(x, mine[0], mine[1], gather_output=True)
        np.testing.assert_allclose(whole, x @ up.T + up_bias, rtol=1e-4, atol=1e-4)
        grad = numbers(ROWS, HIDDEN, seed=5)
        grad_middle, grad_down, grad_down_bias = tp.row_parallel_linear_backward(middle, mine[2], grad, down_bias)
        grad_x, grad_up, grad_up_bias = tp.column_parallel_linear_backward(x, mine[0], grad_middle, mine[1])
        np.testing.assert_allclose(grad_x, grad @ down @ up, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(grad_up, part((grad @ down).T @ x, 0, p.tensor), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(grad_up_bias, part((grad @ down).sum(0), 0, p.tensor), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(grad_down_bias, grad.sum(0), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(grad_down, part(grad.T @ (x @ up.T + up_bias), 1, p.tensor), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_numpy_layers_are_one_ranks(size):
    ranks.run(size, numpy_layers)


def numpy_regions(comm):
    with tp.initialize(comm, tensor_parallel_size=comm.size) as p:
        all_of = [numbers(ROWS, HIDDEN, seed=rank) for rank in range(comm.size)]
        x = all_of[comm.rank]
        total = sum(all_of)
        close = {"rtol": 1e-5, "atol": 1e-5}
        assert tp.copy_to_tensor_model_parallel_region(x) is x
        np.testing.assert_allclose(tp.reduce_from_tensor_model_parallel_region(x), total, **close)
        np.testing.assert_array_equal(tp.scatter_to_tensor_model_parallel_region(x), part(x, 1, p.tensor))
        np.testing.assert_array_equal(tp.gather_from_tensor_model_parallel_region(x), np.concatenate(all_of, 1))
        np.testing.assert_array_equal(tp.scatter_to_sequence_parallel_region(x), part(x, 0, p.tensor))
        np.testing.assert_array_equal(tp.gather_from_sequence_parallel_region(x), np.concatenate(all_of, 0))
        np.testing.assert_allclose(tp.reduce_scatter_to_sequence_parallel_region(x), part(total, 0, p.tensor), **close)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_numpy_regions(size):
    ranks.run(size, numpy_regions)


def torch_layers(comm, sequence_parallel):
    import torch
    torch.set_num_threads(1)

    def leaf(array):
        return torch.tensor(array, requires_grad=True)

    with tp.initialize(comm, tensor_parallel_size=comm.size) as p:
        up, down, table = numbers(WIDE, HIDDEN, seed=1), numbers(HIDDEN, WIDE, seed=2), numbers(VOCABULARY, HIDDEN, seed=3)
        up_bias, down_bias = numbers(WIDE, seed=4), numbers(HIDDEN, seed=5)
        ids = torch.tensor(np.random.default_rng(6).integers(0, VOCABULARY, (ROWS, 3)))
        # A model whose output layer is its embedding, as one rank computes it.
        whole = [leaf(one) for one in (table, up, up_bias, down, down_bias)]
        x = whole[0][ids]
        y = x + torch.nn.functional.gelu(x @ whole[1].t() + whole[2]) @ whole[3].t() + whole[4]
        expected = torch.nn.functional.cross_entropy((y @ whole[0].t()).view(-1, VOCABULARY), ids.view(-1),
                                                     reduction="none").view_as(ids)
        expected.mean().backward()
        # As several do.
        mine = [leaf(part(table, 0, p.tensor)), leaf(part(up, 0, p.tensor)), leaf(part(up_bias, 0, p.tensor)),
                leaf(part(down, 1, p.tensor)), leaf(down_bias)]
        x = tp.vocab_parallel_embedding(ids, mine[0], sequence_parallel=sequence_parallel)
        assert x.shape[0] == (ROWS // comm.size if sequence_parallel else ROWS)
        middle = tp.column_parallel_linear(x, mine[1], mine[2], sequence_parallel=sequence_parallel)
        y = x + tp.row_parallel_linear(torch.nn.functional.gelu(middle), mine[3], mine[4],
                                       sequence_parallel=sequence_parallel)
        logits = tp.column_parallel_linear(y, mine[0], sequence_parallel=sequence_parallel)
        losses = tp.vocab_parallel_cross_entropy(logits, ids)
        torch.testing.assert_close(losses, expected)
        losses.mean().backward()
        for dim, one, reference in zip((0, 0, 0, 1, None), mine, whole):
            torch.testing.assert_close(
                one.grad, reference.grad if dim is None else reference.grad.chunk(comm.size, dim)[comm.rank])


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["tensor", "sequence"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_torch_layers_are_one_ranks(size, sequence_parallel):
    pytest.importorskip("torch")
    ranks.run(size, torch_layers, sequence_parallel)


def torch_regions(comm):
    import torch
    with tp.initialize(comm, tensor_parallel_size=comm.size):
        size = comm.size
        for region, gradient in (
                (tp.copy_to_tensor_model_parallel_region, lambda g: g * size),
                (tp.reduce_from_tensor_model_parallel_region, lambda g: g),
                (tp.scatter_to_tensor_model_parallel_region, lambda g: torch.cat([g] * size, 1)),
                (tp.gather_from_tensor_model_parallel_region, lambda g: g.chunk(size, 1)[comm.rank]),
                (tp.scatter_to_sequence_parallel_region, lambda g: torch.cat([g] * size, 0)),
                (tp.gather_from_sequence_parallel_region, lambda g: g.chunk(size, 0)[comm.rank] * size),
                (tp.reduce_scatter_to_sequence_parallel_region, lambda g: torch.cat([g] * size, 0))):
            x = torch.tensor(numbers(ROWS, HIDDEN, seed=comm.rank), requires_grad=True)
            y = region(x)
            torch.testing.assert_close(y.detach().numpy(), region(x.detach().numpy()))
            grad = torch.arange(y.numel(), dtype=torch.float32).view_as(y)
            y.backward(grad)
            torch.testing.assert_close(x.grad, gradient(grad))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_gradients_of_regions(size):
    pytest.importorskip("torch")
    ranks.run(size, torch_regions)


def seeds(comm):
    import torch
    torch.set_num_threads(1)
    with tp.initialize(comm, tensor_parallel_size=comm.size):
        torch.manual_seed(1)
        layer = tp.ParallelMLP(HIDDEN, WIDE)
        x = torch.tensor(numbers(ROWS, HIDDEN))
        return layer(x).detach().numpy()


def test_a_seed_is_one_model_however_it_is_split():
    pytest.importorskip("torch")
    whole, = ranks.run(1, seeds)
    for one in ranks.run(4, seeds):
        np.testing.assert_allclose(one, whole, rtol=1e-4, atol=1e-6)


def misfits(comm):
    said = []
    with tp.initialize(comm, tensor_parallel_size=comm.size):
        weight = numbers(WIDE // comm.size, HIDDEN)
        for wrong in (lambda: tp.column_parallel_linear(numbers(ROWS, HIDDEN - 2), weight),
                      lambda: tp.scatter_to_sequence_parallel_region(numbers(ROWS - 1, HIDDEN)),
                      lambda: tp.column_parallel_linear(numbers(ROWS, HIDDEN).astype(np.complex64), weight),
                      lambda: tp.column_parallel_linear(numbers(ROWS, HIDDEN).astype(np.float64), weight),
                      lambda: tp.column_parallel_linear(numbers(ROWS, HIDDEN), weight.astype(np.float16)),
                      lambda: tp.current().group("tensor"),
                      lambda: tp.current().tensor.all_reduce(numbers(2), numbers(2), "mean")):
            with pytest.raises(tutti.InvalidArgumentError) as raised:
                wrong()
            said.append(str(raised.value))
        tp.current().world.barrier()  # nothing was sent
    return said


def test_what_does_not_fit_is_named_with_both_values():
    for said in ranks.run(2, misfits):
        assert "is 10" in said[0] and "is 12" in said[0]
        assert "is 7" in said[1] and "(2)" in said[1]
        assert "complex64" in said[2]
        assert "float64" in said[3] and "float32" in said[3]
        assert "float16" in said[4] and "float32" in said[4]
        assert "no group of the name tensor" in said[5]
        assert "mean" in said[6] and "avg" in said[6]
