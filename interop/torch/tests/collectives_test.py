"""Tests all collectives, types and operators against a plain reference. Small integers make the results exact."""

import functools
import unittest

import torch
import torch.distributed as dist

import ranks
from torch.distributed import ReduceOp

NUMBERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
           torch.float64]
MOVED = NUMBERS + [torch.bool, torch.complex64, torch.complex128]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
SIZES = [0, 1, 5, 1000, 40_000]
SEVERAL = [1, 2, 3, 4]

FOLDS = {
    "SUM": torch.add, "AVG": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
    "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor,
}


def value_of(rank, count, dtype, salt=0):
    """The data of rank `rank`, which every rank can compute and which differs between ranks."""
    numbers = (torch.arange(count) * 7 + rank * 3 + salt) % 5
    if dtype == torch.bool:
        return numbers > 1
    if dtype.is_complex:
        return torch.complex(numbers.float(), (numbers * 2 - rank).float()).to(dtype)
    return numbers.to(dtype)


def reduced(values, op):
    result = functools.reduce(FOLDS[op], values)
    if values[0].dtype == torch.bool:
        return result
    if op != "AVG":
        return result
    if values[0].is_complex():  # the real and the imaginary part are divided separately
        return torch.view_as_complex(torch.view_as_real(result) / len(values))
    if values[0].is_floating_point():
        return (result / len(values)).to(values[0].dtype)
    return torch.div(result, len(values), rounding_mode="trunc")


def same(got, want, what):
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, not {want.dtype}"
    assert torch.equal(got, want), f"{what}: {got.flatten()[:8]}..., not {want.flatten()[:8]}..."


def cases():
    """Yields (dtype, operator) for all reductions."""
    for dtype in NUMBERS:
        for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX"):
            yield dtype, op
    for dtype in INTEGERS + [torch.bool]:
        for op in ("BAND", "BOR", "BXOR"):
            yield dtype, op
    for op in ("SUM", "PRODUCT", "MIN", "MAX"):
        yield torch.bool, op
    for dtype in (torch.complex64, torch.complex128):
        for op in ("SUM", "AVG"):
            yield dtype, op


def reductions(rank, n):
    for dtype, op in cases():
        for count in SIZES:
            what = f"{op} of {count} {dtype} on {n}"
            code = getattr(ReduceOp, op)
            values = [value_of(r, count, dtype) for r in range(n)]
            want = reduced(values, op)

            tensor = values[rank].clone()
            dist.all_reduce(tensor, code)
            same(tensor, want, f"all_reduce, {what}")

            root = count % n
            tensor = values[rank].clone()
            dist.reduce(tensor, root, code)
            if rank == root:
                same(tensor, want, f"reduce, {what}")

            # Rank r gets block r. First all blocks have the same size, then different sizes.
            blocks = [[value_of(r, count, dtype, salt) for salt in range(n)] for r in range(n)]
            want = reduced([blocks[r][rank] for r in range(n)], op)
            output = torch.empty(count, dtype=dtype)
            dist.reduce_scatter(output, [b.clone() for b in blocks[rank]], code)
            same(output, want, f"reduce_scatter, {what}")
            output = torch.empty(count, dtype=dtype)
            dist._reduce_scatter_base(output, torch.cat(blocks[rank]), code)
            same(output, want, f"_reduce_scatter_base, {what}")

            blocks = [[value_of(r, count + salt, dtype, salt) for salt in range(n)] for r in range(n)]
            output = torch.empty(count + rank, dtype=dtype)
            dist.reduce_scatter(output, blocks[rank], code)
            same(output, reduced([blocks[r][rank] for r in range(n)], op), f"uneven reduce_scatter, {what}")


def moves(rank, n):
    for dtype in MOVED:
        for count in SIZES:
            what = f"{count} {dtype} on {n}"
            values = [value_of(r, count, dtype) for r in range(n)]
            root = count % n

            tensor = values[rank].clone()
            dist.broadcast(tensor, root)
            same(tensor, values[root], f"broadcast, {what}")

            outputs = [torch.empty(count, dtype=dtype) for _ in range(n)]
            dist.all_gather(outputs, values[rank])
            for r in range(n):
                same(outputs[r], values[r], f"all_gather, {what}")
            output = torch.empty(n * count, dtype=dtype)
            dist.all_gather(list(output.chunk(n)) if count else [output[:0]] * n, values[rank])  # adjacent
            same(output, torch.cat(values), f"all_gather into one piece, {what}")
            output = torch.empty(n * count, dtype=dtype)
            dist._all_gather_base(output, values[rank])
            same(output, torch.cat(values), f"_all_gather_base, {what}")
            outputs = [torch.empty(count + r, dtype=dtype) for r in range(n)]
            dist.all_gather(outputs, value_of(rank, count + rank, dtype))
            for r in range(n):
                same(outputs[r], value_of(r, count + r, dtype), f"uneven all_gather, {what}")

            outputs = [torch.empty(count, dtype=dtype) for _ in range(n)] if rank == root else None
            dist.gather(values[rank], outputs, dst=root)
            for r in range(n if rank == root else 0):
                same(outputs[r], values[r], f"gather, {what}")
            output = torch.empty(count, dtype=dtype)
            blocks = [value_of(root, count, dtype, salt) for salt in range(n)]
            dist.scatter(output, blocks if rank == root else None, src=root)
            same(output, blocks[rank], f"scatter, {what}")

            outputs = [torch.empty(count, dtype=dtype) for _ in range(n)]
            dist.all_to_all(outputs, [value_of(rank, count, dtype, salt) for salt in range(n)])
            for r in range(n):
                same(outputs[r], value_of(r, count, dtype, rank), f"all_to_all, {what}")
            # Rank r sends r + 2 s + count elements to rank s.
            outputs = [torch.empty(r + 2 * rank + count, dtype=dtype) for r in range(n)]
            inputs = [value_of(rank, rank + 2 * s + count, dtype, s) for s in range(n)]
            wants = [value_of(r, r + 2 * rank + count, dtype, rank) for r in range(n)]
            dist.all_to_all(outputs, inputs)
            for r in range(n):
                same(outputs[r], wants[r], f"uneven all_to_all, {what}")
            output = torch.empty(sum(len(w) for w in wants), dtype=dtype)
            dist.all_to_all_single(output, torch.cat(inputs), [len(w) for w in wants], [len(i) for i in inputs])
            same(output, torch.cat(wants), f"all_to_all_single with splits, {what}")
            output = torch.empty(n * count, dtype=dtype)
            dist.all_to_all_single(output, torch.cat([value_of(rank, count, dtype, s) for s in range(n)]))
            same(output, torch.cat([value_of(r, count, dtype, rank) for r in range(n)]), f"all_to_all_single, {what}")


def coalesced(rank, n):
    tensors = [value_of(rank, count, torch.float32) for count in SIZES]
    dist.all_reduce_coalesced(tensors)
    for count, tensor in zip(SIZES, tensors):
        same(tensor, reduced([value_of(r, count, torch.float32) for r in range(n)], "SUM"), "all_reduce_coalesced")
    outputs = [[torch.empty(count) for count in SIZES] for _ in range(n)]
    dist.all_gather_coalesced(outputs, [value_of(rank, count, torch.float32) for count in SIZES])
    for r in range(n):
        for count, tensor in zip(SIZES, outputs[r]):
            same(tensor, value_of(r, count, torch.float32), "all_gather_coalesced")


def coalescing_manager(rank, n):
    from torch.distributed.distributed_c10d import _coalescing_manager

    tensors = [value_of(rank, 10 + i, torch.float32) for i in range(3)]
    with _coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for i, tensor in enumerate(tensors):
        same(tensor, reduced([value_of(r, 10 + i, torch.float32) for r in range(n)], "SUM"), "coalesced all_reduce")
    outputs = [torch.empty(n * (10 + i)) for i in range(3)]
    with _coalescing_manager(device=torch.device("cpu")):
        for i in range(3):
            dist.all_gather_into_tensor(outputs[i], value_of(rank, 10 + i, torch.float32))
    for i in range(3):
        same(outputs[i], torch.cat([value_of(r, 10 + i, torch.float32) for r in range(n)]), "coalesced all_gather")
    outputs = [torch.empty(10 + i) for i in range(3)]
    with _coalescing_manager(device=torch.device("cpu")):
        for i in range(3):
            dist.reduce_scatter_tensor(outputs[i], torch.ones(n * (10 + i)))
    for output in outputs:
        same(output, torch.full_like(output, n), "coalesced reduce_scatter")


def objects(rank, n):
    got = [None] * n
    dist.all_gather_object(got, {"rank": rank, "list": list(range(rank))})
    assert got == [{"rank": r, "list": list(range(r))} for r in range(n)], got
    dist.barrier()
    assert dist.get_backend() == "tutti"


def sparse(rank, n):
    def has(r):  # row r and a row that all ranks have, but rank 1 has none
        rows = torch.tensor([[r, n, r]] if r != 1 else [[]], dtype=torch.long)
        return torch.sparse_coo_tensor(rows, torch.full((rows.shape[1], 3), float(r + 1)), (n + 1, 3))

    tensor = has(rank)
    dist.all_reduce(tensor)
    same(tensor.to_dense(), sum(has(r).to_dense() for r in range(n)), "sparse all_reduce")


def different_sparse(rank, n):
    tensor = torch.eye(3 + rank).to_sparse()
    try:
        dist.all_reduce(tensor)
    except ValueError as error:
        assert "[3, 3]" in str(error) and "[4, 4]" in str(error), error
    else:
        raise AssertionError("not refused")
    dist.barrier()


def interleaved(rank, n):
    """Inputs and outputs alternate in one block of memory."""
    for count in (100, 50_000):
        memory = torch.zeros(2 * n, count)
        inputs, outputs = list(memory[0::2]), list(memory[1::2])
        for r in range(n):
            inputs[r].copy_(value_of(rank, count, torch.float32, r))
        dist.all_to_all(outputs, inputs)
        for r in range(n):
            same(outputs[r], value_of(r, count, torch.float32, rank), "interleaved all_to_all")
        dist.all_gather(outputs, inputs[0])
        for r in range(n):
            same(outputs[r], value_of(r, count, torch.float32, 0), "interleaved all_gather")
        dist.gather(inputs[1 % n], outputs if rank == 0 else None, 0)
        if rank == 0:
            for r in range(n):
                same(outputs[r], value_of(r, count, torch.float32, 1 % n), "interleaved gather")
        dist.scatter(outputs[0], inputs if rank == 0 else None, 0)
        same(outputs[0], value_of(0, count, torch.float32, rank), "interleaved scatter")


def disorderly(rank, n):
    """The same tensor several times in a list of outputs; outputs whose distance is no multiple of their size."""
    count = 50_000
    tensor = torch.zeros(count)
    dist.all_gather([tensor] * n, value_of(rank, count, torch.float32))
    same(tensor, value_of(n - 1, count, torch.float32), "all_gather to one tensor")
    memory = torch.zeros(n * (4 * count + 2) + 2, dtype=torch.uint8).numpy()
    begins = [r * (4 * count + 2) for r in range(n)]
    if memory.ctypes.data % 4 == 0:
        outputs = [torch.from_numpy(memory[b:b + 4 * count].view("float16")) for b in begins]  # two bytes apart
        dist.all_gather(outputs, value_of(rank, 2 * count, torch.float16))
        for r in range(n):
            same(outputs[r], value_of(r, 2 * count, torch.float16), "all_gather to tensors two bytes apart")


def other_strides(rank, n):
    """Inputs and lists of outputs may have any strides, and different strides on different ranks."""
    for count in (8, 300):
        values = [value_of(r, count * count, torch.float32).view(count, count) for r in range(n)]
        mine = values[rank] if rank == 0 else values[rank].t().contiguous().t()
        outputs = [torch.empty(count, count) for _ in range(n)]
        dist.all_gather(outputs, mine)
        for r in range(n):
            same(outputs[r], values[r], "all_gather of other strides")
        outputs = [torch.empty(count, count) for _ in range(n)] if rank == 0 else None
        dist.gather(mine, outputs, 0)
        for r in range(n if rank == 0 else 0):
            same(outputs[r], values[r], "gather of other strides")
        every_second = value_of(rank, 2 * count, torch.float32)[::2].requires_grad_()
        outputs = [torch.empty(count) for _ in range(n)]
        dist.all_gather(outputs, every_second)
        for r in range(n):
            same(outputs[r], value_of(r, 2 * count, torch.float32)[::2], "all_gather of every second")
        # Outputs, too, may have any strides, and lie between elements that stay as they are.
        columns = torch.full((count, 2 * n), -1.0)
        dist.all_gather([columns[:, 2 * r] for r in range(n)], value_of(rank, count, torch.float32))
        same(columns, torch.stack([value_of(r // 2, count, torch.float32) if r % 2 == 0 else torch.full((count,), -1.0)
                                   for r in range(2 * n)], 1), "all_gather to columns")
        outputs = [torch.empty(count, count).t() for _ in range(n)] if rank == n - 1 else None
        dist.gather(mine, outputs, n - 1)
        for r in range(n if outputs else 0):
            same(outputs[r], values[r], "gather to other strides")


def splits_on_some_ranks(rank, n):
    """Some ranks pass no splits, which means equal shares; the others pass the equal splits."""
    for count in (5, 50_000):
        inputs = torch.cat([value_of(rank, count, torch.float32, s) for s in range(n)])
        output = torch.empty(n * count)
        if rank == 0:
            dist.all_to_all_single(output, inputs)
        else:
            dist.all_to_all_single(output, inputs, [count] * n, [count] * n if rank == 1 else None)
        same(output, torch.cat([value_of(r, count, torch.float32, rank) for r in range(n)]), "all_to_all_single")


def premul_sum(rank, n):
    from torch._C._distributed_c10d import _make_nccl_premul_sum

    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        tensor = value_of(rank, 1000, dtype)
        dist.all_reduce(tensor, _make_nccl_premul_sum(2.0))
        same(tensor, reduced([2 * value_of(r, 1000, dtype) for r in range(n)], "SUM"), f"PREMUL_SUM of {dtype}")


class Collectives(unittest.TestCase):
    def each(self, body, several=SEVERAL):
        for n in several:
            with self.subTest(ranks=n):
                ranks.run(n, body, n)

    def test_reductions(self):
        self.each(reductions, [2, 3])

    def test_moves(self):
        self.each(moves)

    def test_coalesced(self):
        self.each(coalesced)

    def test_sparse(self):
        self.each(sparse)
        self.each(different_sparse, [2])

    def test_interleaved(self):
        self.each(interleaved)

    def test_disorderly(self):
        self.each(disorderly)

    def test_other_strides(self):
        self.each(other_strides)

    def test_splits_on_some_ranks(self):
        self.each(splits_on_some_ranks)

    def test_objects(self):
        self.each(objects)

    @unittest.skipUnless(int(torch.__version__.split(".")[0]) >= 2, "PyTorch 1.13 has no coalescing manager for all backends")
    def test_coalescing_manager(self):
        self.each(coalescing_manager)

    @unittest.skipUnless(hasattr(torch._C._distributed_c10d, "_make_nccl_premul_sum"), "this PyTorch has no PREMUL_SUM")
    def test_premul_sum(self):
        self.each(premul_sum)


if __name__ == "__main__":
    unittest.main()
