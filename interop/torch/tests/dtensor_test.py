"""Tests DeviceMesh, DTensor and tensor parallelism: they compute the same on tutti as one process."""

import unittest

import torch
import torch.distributed as dist

import ranks

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    REASON = None
except Exception as error:
    REASON = f"{type(error).__name__}: {error}"


def mesh_of_two_dimensions(rank, n):
    mesh = init_device_mesh("cpu", (n // 2, 2), mesh_dim_names=("row", "column"))
    assert list(mesh.get_coordinate()) == [rank // 2, rank % 2]
    for name, members in (("row", range(rank % 2, n, 2)), ("column", (rank - rank % 2, rank - rank % 2 + 1))):
        group = mesh.get_group(name)
        assert dist.get_backend(group) == "tutti"
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == sum(members), (name, tensor)


def redistributed(rank, n):
    whole = torch.arange(5 * 7 * 3.0).reshape(5, 7, 3)  # uneven shards
    mesh = init_device_mesh("cpu", (n,))
    placements = [Replicate(), Shard(0), Shard(1), Shard(2)]
    for before in placements:
        for after in placements:
            moved = distribute_tensor(whole, mesh, [before]).redistribute(mesh, [after])
            assert torch.equal(moved.full_tensor(), whole), (before, after)
    for after in placements:
        partial = torch.distributed.tensor.DTensor.from_local(whole, mesh, [Partial()])
        assert torch.equal(partial.redistribute(mesh, [after]).full_tensor(), whole * n), after


def multiplied(rank, n):
    """Products of sharded matrices, on a mesh of two dimensions too."""
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(6, 9, generator=generator), torch.randn(9, 5, generator=generator)
    meshes = [(init_device_mesh("cpu", (n,)), 1)]
    if n % 2 == 0:
        meshes.append((init_device_mesh("cpu", (n // 2, 2)), 2))
    for mesh, dimensions in meshes:
        for of_a in (Replicate(), Shard(0), Shard(1)):
            for of_b in (Replicate(), Shard(0), Shard(1)):
                left, right = [of_a] * dimensions, [of_b] * dimensions
                product = distribute_tensor(a, mesh, left) @ distribute_tensor(b, mesh, right)
                torch.testing.assert_close(product.full_tensor(), a @ b)


def make_block():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))


def gradients(block):
    generator = torch.Generator().manual_seed(1)
    block(torch.randn(4, 8, generator=generator)).square().mean().backward()
    whole = [parameter.grad.full_tensor() if hasattr(parameter.grad, "full_tensor") else parameter.grad
             for parameter in block.parameters()]
    return [gradient.numpy() for gradient in whole]


def tensor_parallel(rank, n):
    mesh = init_device_mesh("cpu", (n,))
    return gradients(parallelize_module(make_block(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}))


@unittest.skipIf(REASON is not None, REASON)
class DTensorTest(unittest.TestCase):
    def test_mesh_of_two_dimensions(self):
        ranks.run(4, mesh_of_two_dimensions, 4)

    def test_redistributes(self):
        for n in (2, 3):
            ranks.run(n, redistributed, n)

    def test_multiplies(self):
        for n in (2, 3, 4):
            ranks.run(n, multiplied, n)

    def test_tensor_parallel(self):
        one = gradients(make_block())
        for n in (2, 4):
            for of_rank in ranks.run(n, tensor_parallel, n):
                for got, want in zip(of_rank, one):
                    torch.testing.assert_close(torch.from_numpy(got), torch.from_numpy(want))


if __name__ == "__main__":
    unittest.main()
